//! Wake-ups: what one part of an engine leaves to another is done at once, not when somebody looks.

use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims, comes};

claims! { "wake-ups":
    a_line_is_worked_off_without_a_look,
    a_line_moves_on_when_its_head_is_given_up,
    a_line_moves_on_when_its_head_fails_for_good,
}

fn line(count: usize) -> Step {
    Step::Line {
        name: "echo".to_owned(),
        count,
    }
}

async fn a_line_is_worked_off_without_a_look(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let run = engine.run::<Scripted>(Script::of([line(10)]));
    comes("a line of ten", run).await.expect("completes");
    let expected: Vec<String> = (0..10).map(|n| format!("echo {n}")).collect();
    assert_eq!(effects.all(), expected);
    engine.shutdown().await.expect("stops");
}

async fn a_line_moves_on_when_its_head_is_given_up(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let script = Script::of([Step::GiveUpHead {
        head: "gated".to_owned(),
        behind: "echo".to_owned(),
        signal: "enough".to_owned(),
    }]);
    let client = engine.client();
    let run = client.start::<Scripted>(script).await.expect("starts");
    effects.reached("gated began", 1).await;
    run.signal("enough", &()).await.expect("taken");
    comes("the one behind", run.result())
        .await
        .expect("completes");
    assert_eq!(effects.count("echo 1"), 1);
    effects.open_gate();
    engine.shutdown().await.expect("stops");
}

async fn a_line_moves_on_when_its_head_fails_for_good(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let mut script = Script::of([Step::LineOf {
        names: vec!["fatal".to_owned(), "echo".to_owned(), "echo".to_owned()],
    }]);
    script.tolerates_failure = true;
    let run = engine.run::<Scripted>(script);
    let result = comes("those behind it", run).await.expect("completes");
    assert_eq!(result[0]["failed"], json!("Fatal"));
    assert_eq!(effects.all(), ["echo 1", "echo 2"]);
    engine.shutdown().await.expect("stops");
}
