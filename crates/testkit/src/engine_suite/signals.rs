//! Signals.

use everruns_durable::Client;
use everruns_durable::core::WorkflowEvent;
use everruns_durable::persistence::limits::TURN_ITEMS_MAX;
use futures_util::future::try_join_all;
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "signals":
    a_signal_wakes_a_waiting_run,
    an_early_signal_waits_for_its_step,
    signals_are_taken_in_the_order_sent,
    a_finished_run_refuses_a_signal,
    a_signal_sent_twice_under_one_id_is_one,
    a_signal_that_comes_as_the_run_ends_is_kept_or_refused,
    signal_with_start_reaches_the_run,
    a_run_is_not_stopped_by_what_waits_for_it,
}

fn wait(name: &str) -> Step {
    Step::Signal {
        name: name.to_owned(),
    }
}

async fn a_signal_wakes_a_waiting_run(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([wait("go")]))
        .await
        .expect("starts");
    run.signal("go", &json!({ "by": "test" }))
        .await
        .expect("taken");
    assert_eq!(
        run.result().await.expect("completes"),
        json!([{ "by": "test" }])
    );
    engine.shutdown().await.expect("stops");
}

async fn an_early_signal_waits_for_its_step(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([Step::activity("gated", json!(1)), wait("go")]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    run.signal("go", &"early").await.expect("taken");
    effects.open_gate();
    assert_eq!(run.result().await.expect("completes"), json!([1, "early"]));
    engine.shutdown().await.expect("stops");
}

async fn signals_are_taken_in_the_order_sent(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of((0..20).map(|_| wait("n")));
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    for n in 0..20 {
        run.signal("n", &n).await.expect("taken");
    }
    let expected: Vec<i32> = (0..20).collect();
    assert_eq!(run.result().await.expect("completes"), json!(expected));
    engine.shutdown().await.expect("stops");
}

async fn a_finished_run_refuses_a_signal(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::default())
        .await
        .expect("starts");
    run.result().await.expect("completes");
    let error = run.signal("late", &1).await.expect_err("refused");
    assert!(error.is_run_finished(), "{error}");
    engine.shutdown().await.expect("stops");
}

async fn a_signal_sent_twice_under_one_id_is_one(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([wait("a"), wait("end")]);
    let run = client.start::<Scripted>(script).await.expect("starts");
    let payload = everruns_durable::core::Payload::from_value(&1).expect("JSON");
    let id = uuid::Uuid::from_u128(77);
    client
        .send(run.id(), id, "a", payload.clone())
        .await
        .expect("taken");
    client
        .send(run.id(), id, "a", payload)
        .await
        .expect("taken");
    run.signal("end", &2).await.expect("taken");
    assert_eq!(run.result().await.expect("completes"), json!([1, 2]));
    assert_eq!(received(&engine, run.id()).await, 2);
    engine.shutdown().await.expect("stops");
}

/// Signals race with the end of the run: each is refused, or stands in the history.
async fn a_signal_that_comes_as_the_run_ends_is_kept_or_refused(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([wait("go")]))
        .await
        .expect("starts");
    let mut taken = 0;
    // Bounded: a flood that never pauses would keep the run from ending until its inbox is full.
    for _ in 0..200 {
        match run.signal("go", &1).await {
            Ok(()) => taken += 1,
            Err(error) if error.is_run_finished() => break,
            Err(error) => panic!("{error}"),
        }
    }
    run.result().await.expect("completes");
    assert!(taken >= 1);
    assert_eq!(received(&engine, run.id()).await, taken);
    engine.shutdown().await.expect("stops");
}

async fn received(engine: &everruns_durable::Engine, run_id: uuid::Uuid) -> usize {
    let history = engine
        .store()
        .load_history(run_id, 0)
        .await
        .expect("reads")
        .expect("there");
    let signals = history
        .events
        .iter()
        .filter(|event| matches!(event.event, WorkflowEvent::SignalReceived { .. }));
    signals.count()
}

async fn signal_with_start_reaches_the_run(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([wait("go"), wait("go")]);
    let first = client
        .start::<Scripted>(script.clone())
        .workflow_id("order-1")
        .signal("go", &1)
        .await
        .expect("starts");
    let second = client
        .start::<Scripted>(script)
        .workflow_id("order-1")
        .signal("go", &2)
        .await
        .expect("reaches");
    assert_eq!(first.id(), second.id());
    assert_eq!(first.result().await.expect("completes"), json!([1, 2]));
    engine.shutdown().await.expect("stops");
}

async fn a_run_is_not_stopped_by_what_waits_for_it(arena: &Arena) {
    let lone = Client::on(arena.store.clone());
    let start = lone.start::<Scripted>(Script::of([wait("go")]));
    let run = start.await.expect("starts");
    // More than a turn may ask for itself.
    let noise = (0..=TURN_ITEMS_MAX).map(|_| run.signal("noise", &()));
    try_join_all(noise).await.expect("taken");
    run.signal("go", &1).await.expect("taken");
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    assert_eq!(run.result().await.expect("completes"), json!([1]));
    engine.shutdown().await.expect("stops");
}
