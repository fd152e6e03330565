//! Listeners.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::observability::{Lifecycle, LifecycleEvent};
use parking_lot::Mutex;
use serde_json::json;
use uuid::Uuid;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "listeners":
    the_life_of_a_run_is_told_in_order,
    every_end_is_told_with_its_reason,
    a_run_that_is_out_of_time_is_told_of,
    a_new_iteration_is_no_new_run,
    a_listener_that_panics_breaks_nothing_and_the_next_one_hears,
}

/// What a listener heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<LifecycleEvent>>>);

impl Heard {
    fn listener(&self) -> impl Fn(&LifecycleEvent) + Send + Sync + 'static {
        let heard = self.clone();
        move |event| heard.0.lock().push(event.clone())
    }

    fn of(&self, run_id: Uuid) -> Vec<LifecycleEvent> {
        let all = self.0.lock();
        all.iter()
            .filter(|event| event.run_id == run_id)
            .cloned()
            .collect()
    }

    fn names(&self, run_id: Uuid) -> Vec<&'static str> {
        self.of(run_id).iter().map(LifecycleEvent::name).collect()
    }
}

async fn start(engine: &Engine, script: Script) -> everruns_durable::client::RunHandle<Scripted> {
    let start = engine.client().start::<Scripted>(script);
    start.await.expect("starts")
}

async fn the_life_of_a_run_is_told_in_order(arena: &Arena) {
    let heard = Heard::default();
    let builder = arena.engine(&Effects::new()).listener(heard.listener());
    let engine = builder.start().await.expect("starts");
    let run = start(&engine, Script::of([Step::tried("flaky", json!(2), 3)])).await;
    run.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
    let expected = [
        "run.started",
        "activity.scheduled",
        "run.suspended",
        "activity.failed",
        "activity.completed",
        "run.completed",
    ];
    assert_eq!(heard.names(run.id()), expected);
    let events = heard.of(run.id());
    assert!(events.iter().all(|event| event.workflow_type == "scripted"));
    assert!(events.is_sorted_by_key(|event| event.sequence));
    assert!(
        matches!(&events[3].what, Lifecycle::ActivityFailed { attempt: 1, error, will_retry: true, .. } if error.error_type == "Flaky"),
        "{:?}",
        events[3]
    );
    assert!(
        matches!(&events[4].what, Lifecycle::ActivityCompleted { activity_id, attempt: 2 } if activity_id == "s0-0"),
        "{:?}",
        events[4]
    );
    assert!(
        matches!(&events[5].what, Lifecycle::RunCompleted { result } if result.to_value() == Ok(json!([2]))),
        "{:?}",
        events[5]
    );
}

async fn every_end_is_told_with_its_reason(arena: &Arena) {
    let heard = Heard::default();
    let builder = arena.engine(&Effects::new()).listener(heard.listener());
    let engine = builder.start().await.expect("starts");
    let wait = Step::Signal {
        name: "go".to_owned(),
    };
    let failed = start(&engine, Script::of([Step::activity("fatal", json!(0))])).await;
    failed.result().await.expect_err("fails");
    let cancelled = start(
        &engine,
        Script {
            heeds_cancel: true,
            ..Script::of([wait.clone()])
        },
    )
    .await;
    cancelled.cancel("no need").await.expect("asked");
    cancelled.result().await.expect_err("cancelled");
    let terminated = start(&engine, Script::of([wait])).await;
    terminated.terminate("bad deploy").await.expect("ends");
    engine.shutdown().await.expect("stops");

    let last = |run: Uuid| heard.of(run).pop().expect("heard of").what;
    match last(failed.id()) {
        Lifecycle::RunFailed { error } => assert_eq!(error.message, "no use trying again"),
        other => panic!("{other:?}"),
    }
    let final_failure = heard.of(failed.id()).into_iter().any(|event| {
        matches!(
            event.what,
            Lifecycle::ActivityFailed {
                attempt: 1,
                will_retry: false,
                ..
            }
        )
    });
    assert!(final_failure);
    let expected = Lifecycle::RunCancelled {
        reason: "no need".to_owned(),
    };
    assert_eq!(last(cancelled.id()), expected);
    match last(terminated.id()) {
        Lifecycle::RunFailed { error } => assert_eq!(error.error_type, "WorkflowTerminated"),
        other => panic!("{other:?}"),
    }
}

async fn a_run_that_is_out_of_time_is_told_of(arena: &Arena) {
    let (told, effects) = (Effects::new(), Effects::new());
    let notes = told.clone();
    let engine = arena.engine(&effects).listener(move |event| {
        if let Lifecycle::RunFailed { error } = &event.what {
            notes.note(format!("{} {}", event.run_id, error.error_type));
        }
    });
    let engine = engine.start().await.expect("starts");
    let wait = Script::of([Step::Signal {
        name: "never".to_owned(),
    }]);
    let soon = Duration::from_millis(1);
    let client = engine.client();
    let by_run = client.start::<Scripted>(wait.clone()).run_timeout(soon);
    let by_run = by_run.await.expect("starts");
    let by_execution = client.start::<Scripted>(wait).execution_timeout(soon);
    let by_execution = by_execution.await.expect("starts");
    told.reached(&format!("{} RunTimeout", by_run.id()), 1)
        .await;
    let told_of = format!("{} ExecutionTimeout", by_execution.id());
    told.reached(&told_of, 1).await;
    assert_eq!(told.all().len(), 2, "each once: {:?}", told.all());
    engine.shutdown().await.expect("stops");
}

async fn a_new_iteration_is_no_new_run(arena: &Arena) {
    let heard = Heard::default();
    let builder = arena.engine(&Effects::new()).listener(heard.listener());
    let engine = builder.start().await.expect("starts");
    let next = Script::of([Step::activity("echo", json!(1))]);
    let script = Script::of([Step::ContinueAsNew {
        script: Box::new(next),
    }]);
    let run = start(&engine, script).await;
    run.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
    let expected = [
        "run.started",
        "activity.scheduled",
        "run.suspended",
        "activity.completed",
        "run.completed",
    ];
    assert_eq!(heard.names(run.id()), expected);
}

async fn a_listener_that_panics_breaks_nothing_and_the_next_one_hears(arena: &Arena) {
    let heard = Heard::default();
    let engine = arena
        .engine(&Effects::new())
        .listener(|_| panic!("a listener that panics"))
        .listener(heard.listener())
        .start()
        .await
        .expect("starts");
    let run = start(&engine, Script::of([Step::activity("echo", json!(1))])).await;
    assert_eq!(run.result().await.expect("completes"), json!([1]));
    engine.shutdown().await.expect("stops");
    assert_eq!(heard.names(run.id()).last(), Some(&"run.completed"));
}
