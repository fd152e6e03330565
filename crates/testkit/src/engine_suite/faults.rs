//! Bad input and settings: clear errors, nothing lost.

use std::sync::Arc;

use everruns_durable::Engine;
use everruns_durable::core::Payload;
use everruns_durable::persistence::model::{LogLevel, StepLogFilter};
use everruns_durable::prelude::{ActivityContext, ActivityError, Page};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, blocked, claims};
use crate::faults::{FaultRates, FaultyStore};

claims! { "faults":
    a_result_too_large_is_a_failure_the_run_sees,
    what_an_activity_says_blocks_no_run,
    settings_that_cannot_be_are_refused,
    a_run_that_does_not_exist_is_not_found,
    an_idempotency_key_starts_one_run,
    a_payload_too_large_is_refused_at_the_door,
    an_inbox_that_cannot_be_read_blocks_its_run_and_no_other,
    a_history_that_cannot_be_read_blocks_its_run_and_no_other,
    a_panic_in_a_loop_of_the_engine_stops_nothing,
}

async fn a_result_too_large_is_a_failure_the_run_sees(arena: &Arena) {
    let engine = arena
        .engine(&Effects::new())
        .activity_fn("huge", |_ctx, _input: u32| async move {
            Ok("x".repeat(5 * 1024 * 1024))
        })
        .start()
        .await
        .expect("starts");
    let mut script = Script::of([Step::tried("huge", json!(0), 3)]);
    script.tolerates_failure = true;
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result[0]["failed"], json!("InvalidOutput"));
    engine.shutdown().await.expect("stops");
}

async fn what_an_activity_says_blocks_no_run(arena: &Arena) {
    let engine = arena
        .engine(&Effects::new())
        .activity_fn("chatty", |ctx: ActivityContext, attempts: u32| async move {
            let huge = "x".repeat(5 * 1024 * 1024);
            ctx.log_with(LogLevel::Info, "a \0 and a lot of data", &huge);
            if ctx.attempt < attempts {
                return Err(ActivityError::new("T".repeat(1_000), format!("\0{huge}")));
            }
            Ok(ctx.attempt)
        })
        .start()
        .await
        .expect("starts");
    let script = Script::of([
        Step::activity("chatty", json!(1)),
        Step::tried("chatty", json!(2), 2),
    ]);
    let client = engine.client();
    let run = client.start::<Scripted>(script).await.expect("starts");
    assert_eq!(run.result().await.expect("completes"), json!([1, 2]));
    let lines = arena
        .store
        .list_step_logs(StepLogFilter::of_run(run.id()), Page::default())
        .await;
    let lines = lines.expect("lists").lines;
    assert_eq!(lines.len(), 3, "one of each attempt");
    assert!(
        lines
            .iter()
            .all(|line| line.message.contains("a lot of data"))
    );
    engine.shutdown().await.expect("stops");
}

async fn settings_that_cannot_be_are_refused(arena: &Arena) {
    let refused = Engine::on(arena.store.clone())
        .max_concurrent_tasks(0)
        .start()
        .await;
    assert!(refused.err().expect("refused").is_invalid());
    let refused = Engine::open("nonsense:").start().await;
    assert!(refused.is_err());
}

async fn a_run_that_does_not_exist_is_not_found(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let nobody = engine.client().run::<Scripted>(uuid::Uuid::from_u128(9));
    assert!(nobody.result().await.expect_err("nobody").is_not_found());
    assert!(
        nobody
            .signal("x", &1)
            .await
            .expect_err("nobody")
            .is_not_found()
    );
    engine.shutdown().await.expect("stops");
}

async fn an_idempotency_key_starts_one_run(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([Step::activity("echo", json!(1))]);
    let first = client
        .start::<Scripted>(script.clone())
        .idempotency_key("k")
        .await
        .expect("starts");
    let again = client
        .start::<Scripted>(script)
        .idempotency_key("k")
        .await
        .expect("starts");
    assert_eq!(first.id(), again.id());
    let other = client
        .start::<Scripted>(Script::default())
        .idempotency_key("k")
        .await;
    let error = other.expect_err("refused");
    assert!(error.is_conflict(), "{error}");
    assert_eq!(error.run_id(), Some(first.id()));
    first.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
}

async fn a_payload_too_large_is_refused_at_the_door(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let half = "y".repeat(3 * 1024 * 1024);
    let script = Script::of([
        Step::Signal {
            name: "half".to_owned(),
        },
        Step::activity("echo", json!(1)),
    ]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    let huge = Payload::from_value(&half.repeat(2)).expect("JSON");
    let error = engine
        .client()
        .send(run.id(), uuid::Uuid::from_u128(3), "half", huge)
        .await
        .expect_err("too large");
    assert!(error.is_invalid(), "{error}");
    run.signal("half", &1).await.expect("taken");
    run.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
}

async fn an_inbox_that_cannot_be_read_blocks_its_run_and_no_other(arena: &Arena) {
    one_that_cannot_be_read(arena, "load_turns").await;
}

async fn a_history_that_cannot_be_read_blocks_its_run_and_no_other(arena: &Arena) {
    one_that_cannot_be_read(arena, "load_history").await;
}

/// Ten runs wait for a signal; one of them cannot be read when it comes.
async fn one_that_cannot_be_read(arena: &Arena, method: &'static str) {
    let effects = Effects::new();
    let store = Arc::new(FaultyStore::new(arena.store.clone(), 0, FaultRates::NONE));
    // Nobody but a ring brings a run to its turn: a claim would bring what waits for it along.
    let builder = arena.on(store.clone()).blind_engine(&effects);
    // A history is read only where the program is not kept.
    let engine = builder.always_replay(true).start().await.expect("starts");
    let client = engine.client();
    let mut runs = Vec::new();
    for _ in 0..10 {
        let script = Script::of([
            Step::activity("echo", json!(1)),
            Step::Signal {
                name: "go".to_owned(),
            },
        ]);
        let run = client.start::<Scripted>(script).await.expect("starts");
        runs.push(run);
    }
    effects.reached("echo 1", runs.len()).await;
    let spoilt = runs.remove(0);
    store.spoil(method, spoilt.id());
    spoilt.signal("go", &1).await.expect("taken");
    for run in &runs {
        run.signal("go", &2).await.expect("taken");
    }
    for run in &runs {
        assert_eq!(run.result().await.expect("completes"), json!([1, 2]));
    }
    let reason = blocked(&engine, &spoilt).await.reason;
    assert!(reason.contains("spoilt on purpose"), "{reason}");
    engine.shutdown().await.expect("stops");
}

async fn a_panic_in_a_loop_of_the_engine_stops_nothing(arena: &Arena) {
    for method in [
        "load_turns",
        "commit_turns",
        "claim_tasks",
        "finish_tasks",
        "extend_leases",
    ] {
        let effects = Effects::new();
        let store = Arc::new(FaultyStore::new(arena.store.clone(), 7, FaultRates::NONE));
        let engine = arena.on(store.clone()).engine(&effects);
        let engine = engine.start().await.expect("starts");
        store.lay_trap(method);
        let line = Step::Line {
            name: "echo".to_owned(),
            count: 2,
        };
        let script = Script::of([
            line,
            Step::tried("flaky", json!(2), 2),
            Step::activity("gated", json!("end")),
        ]);
        let client = engine.client();
        let run = client.start::<Scripted>(script).await.expect("starts");
        effects.reached("gated began", 1).await;
        while store.has_trap() {
            // Leases are renewed while it runs.
            let other = engine.run::<Scripted>(Script::default());
            other.await.expect("completes");
        }
        effects.open_gate();
        let result = run.result().await.expect("completes");
        assert_eq!(result, json!([0, 1, 2, "end"]), "{method}");
        engine.shutdown().await.expect("stops");
    }
}
