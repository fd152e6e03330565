//! Cancel, shutdown and terminate, of runs and of activities.

use std::time::Duration;

use everruns_durable::persistence::model::{RunFilter, WorkflowStatus};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims, comes};

claims! { "cancelling":
    a_cancelled_run_cleans_up_and_ends_cancelled,
    a_run_that_ignores_cancel_with_nothing_outstanding_ends_cancelled,
    a_run_that_ignores_cancel_finishes_what_is_outstanding,
    shutdown_finishes_the_activity_in_flight_and_stops,
    a_terminated_run_fails_at_once,
    terminating_a_finished_run_is_refused,
    a_cancelled_activity_is_told_to_stop,
    a_cancelled_sleep_ends,
    a_cancelled_parent_cancels_its_child_and_hears_of_it,
}

async fn a_cancelled_run_cleans_up_and_ends_cancelled(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let mut script = Script::of([Step::Signal {
        name: "never".to_owned(),
    }]);
    script.heeds_cancel = true;
    script.cleanup = vec![
        Step::activity("echo", json!("undo 1")),
        Step::activity("echo", json!("undo 2")),
    ];
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    run.cancel("changed my mind").await.expect("taken");
    let error = run.result().await.expect_err("no result");
    assert!(error.is_cancelled(), "{error}");
    assert!(error.to_string().contains("changed my mind"), "{error}");
    assert_eq!(effects.all(), ["echo \"undo 1\"", "echo \"undo 2\""]);
    engine.shutdown().await.expect("stops");
}

async fn a_run_that_ignores_cancel_with_nothing_outstanding_ends_cancelled(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of([Step::Signal {
        name: "never".to_owned(),
    }]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    run.cancel("enough").await.expect("taken");
    assert!(run.result().await.expect_err("no result").is_cancelled());
    engine.shutdown().await.expect("stops");
}

async fn a_run_that_ignores_cancel_finishes_what_is_outstanding(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([
        Step::activity("gated", json!(1)),
        Step::activity("echo", json!(2)),
    ]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    run.cancel("enough").await.expect("taken");
    effects.open_gate();
    assert_eq!(run.result().await.expect("completes"), json!([1, 2]));
    engine.shutdown().await.expect("stops");
}

async fn shutdown_finishes_the_activity_in_flight_and_stops(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([
        Step::activity("gated", json!(1)),
        Step::activity("echo", json!(2)),
    ]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    run.request_shutdown().await.expect("taken");
    effects.open_gate();
    let error = run.result().await.expect_err("no result");
    assert!(error.is_cancelled(), "{error}");
    assert!(error.to_string().contains("shutdown"), "{error}");
    assert_eq!(effects.count("gated passed"), 1);
    assert_eq!(effects.count("echo 2"), 0, "nothing new was begun");
    engine.shutdown().await.expect("stops");
}

async fn a_terminated_run_fails_at_once(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([Step::activity("gated", json!(1))]))
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    run.terminate("by test").await.expect("ends");
    let error = run.result().await.expect_err("no result");
    let failure = error.failure().expect("a failure");
    assert_eq!(failure.error_type, "WorkflowTerminated");
    assert_eq!(
        run.get().await.expect("there").status,
        WorkflowStatus::Failed
    );
    effects.reached("gated stopped", 1).await;
    engine.shutdown().await.expect("stops");
}

async fn terminating_a_finished_run_is_refused(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::default())
        .await
        .expect("starts");
    run.result().await.expect("completes");
    assert!(
        run.terminate("late")
            .await
            .expect_err("refused")
            .is_run_finished()
    );
    let nobody = engine.client().run::<Scripted>(uuid::Uuid::from_u128(5));
    assert!(
        nobody
            .terminate("who")
            .await
            .expect_err("refused")
            .is_not_found()
    );
    engine.shutdown().await.expect("stops");
}

async fn a_cancelled_activity_is_told_to_stop(arena: &Arena) {
    let effects = Effects::new();
    // By the turn that gives it up: it would hear nothing for an hour by the loss of its lease.
    let engine = arena
        .blind_engine(&effects)
        .configure(|settings| settings.worker.lease_renewal = Duration::from_secs(30 * 60))
        .start()
        .await
        .expect("starts");
    let script = Script::of([
        Step::StartThenCancel {
            name: "gated".to_owned(),
            signal: "stop".to_owned(),
        },
        Step::activity("echo", json!("after")),
    ]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    run.signal("stop", &"now").await.expect("taken");
    assert_eq!(
        run.result().await.expect("completes"),
        json!(["now", "after"])
    );
    comes("the request to stop", effects.reached("gated stopped", 1)).await;
    engine.shutdown().await.expect("stops");
}

async fn a_cancelled_parent_cancels_its_child_and_hears_of_it(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let never = Step::Signal {
        name: "never".to_owned(),
    };
    let mut child = Script::of([Step::activity("echo", json!("begun")), never]);
    child.heeds_cancel = true;
    child.cleanup = vec![Step::activity("echo", json!("undone"))];
    // The parent does nothing about it itself.
    let script = Script::of([
        Step::Child { script: child },
        Step::activity("echo", json!("after")),
    ]);
    let run = client.start::<Scripted>(script).await.expect("starts");
    effects.reached("echo \"begun\"", 1).await;
    run.cancel("changed my mind").await.expect("taken");
    let result = comes("both ends", run.result()).await.expect("completes");
    assert!(result[0]["child failed"].is_string(), "{result}");
    assert_eq!(result[1], json!("after"));
    assert_eq!(effects.count("echo \"undone\""), 1, "the child cleaned up");
    let children = RunFilter {
        parent: Some(run.id()),
        ..RunFilter::default()
    };
    let cancelled = children.status(WorkflowStatus::Cancelled);
    assert_eq!(
        client
            .count(cancelled, Default::default())
            .await
            .expect("counts")
            .count,
        1
    );
    engine.shutdown().await.expect("stops");
}

async fn a_cancelled_sleep_ends(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let mut script = Script::of([Step::Timer { millis: 3_600_000 }]);
    script.heeds_cancel = true;
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    run.cancel("no time").await.expect("taken");
    assert!(run.result().await.expect_err("no result").is_cancelled());
    engine.shutdown().await.expect("stops");
}
