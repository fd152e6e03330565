//! Timers.

use std::time::Duration;

use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "timers":
    a_run_sleeps_and_goes_on,
    a_timer_of_an_engine_that_stopped_fires_in_the_next_one,
    a_run_past_its_time_fails,
}

async fn a_run_sleeps_and_goes_on(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of([Step::Timer { millis: 30 }, Step::activity("echo", json!(1))]);
    assert_eq!(
        engine.run::<Scripted>(script).await.expect("completes"),
        json!(["slept", 1])
    );
    engine.shutdown().await.expect("stops");
}

async fn a_timer_of_an_engine_that_stopped_fires_in_the_next_one(arena: &Arena) {
    let first = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of([
        Step::activity("echo", json!(1)),
        Step::Timer { millis: 300 },
    ]);
    let run = first
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    first.shutdown().await.expect("stops");
    let second = arena.engine(&Effects::new()).start().await.expect("starts");
    let handle = second.client().run::<Scripted>(run.id());
    assert_eq!(
        handle.result().await.expect("completes"),
        json!([1, "slept"])
    );
    second.shutdown().await.expect("stops");
}

async fn a_run_past_its_time_fails(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of([Step::Timer { millis: 60_000 }]);
    let start = engine.client().start::<Scripted>(script);
    let run = start
        .execution_timeout(Duration::from_millis(50))
        .await
        .expect("starts");
    let error = run.result().await.expect_err("fails");
    assert_eq!(
        error.failure().expect("a failure").error_type,
        "ExecutionTimeout"
    );
    engine.shutdown().await.expect("stops");
}
