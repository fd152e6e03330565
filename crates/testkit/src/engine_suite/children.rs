//! Children.

use everruns_durable::persistence::model::{Page, RunFilter, WorkflowStatus};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "children":
    a_child_runs_once_and_its_result_comes_back,
    a_failed_child_is_told_to_its_parent,
    children_of_children_complete,
    a_child_is_cancelled_when_its_parent_is_terminated,
}

async fn a_child_runs_once_and_its_result_comes_back(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let child = Script::of([Step::activity("echo", json!("child"))]);
    let run = engine
        .client()
        .start::<Scripted>(Script::of([Step::Child { script: child }]))
        .await
        .expect("starts");
    assert_eq!(run.result().await.expect("completes"), json!([["child"]]));
    assert_eq!(effects.count("echo \"child\""), 1);
    let filter = RunFilter {
        parent: Some(run.id()),
        ..RunFilter::default()
    };
    let children = engine
        .client()
        .list(filter, Page::default())
        .await
        .expect("lists");
    assert_eq!(children.runs.len(), 1);
    engine.shutdown().await.expect("stops");
}

async fn a_failed_child_is_told_to_its_parent(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let child = Script::of([Step::Fail {
        message: "no".to_owned(),
    }]);
    let result = engine
        .run::<Scripted>(Script::of([Step::Child { script: child }]))
        .await;
    assert_eq!(
        result.expect("completes"),
        json!([{ "child failed": "no" }])
    );
    engine.shutdown().await.expect("stops");
}

async fn children_of_children_complete(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let mut script = Script::of([Step::activity("echo", json!(0))]);
    for _ in 0..4 {
        script = Script::of([Step::Child { script }]);
    }
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result, json!([[[[[0]]]]]));
    engine.shutdown().await.expect("stops");
}

async fn a_child_is_cancelled_when_its_parent_is_terminated(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let mut child = Script::of([
        Step::activity("gated", json!(0)),
        Step::Signal {
            name: "never".to_owned(),
        },
    ]);
    child.heeds_cancel = true;
    let run = client
        .start::<Scripted>(Script::of([Step::Child { script: child }]))
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    let filter = RunFilter {
        parent: Some(run.id()),
        ..RunFilter::default()
    };
    let child = client
        .list(filter, Page::default())
        .await
        .expect("lists")
        .runs
        .remove(0);
    run.terminate("test").await.expect("ends");
    let ended = client
        .run::<Scripted>(child.id)
        .ended()
        .await
        .expect("there");
    assert_eq!(ended.status, WorkflowStatus::Cancelled);
    effects.reached("gated stopped", 1).await;
    engine.shutdown().await.expect("stops");
}
