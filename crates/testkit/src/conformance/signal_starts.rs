//! Signal-with-start and update-with-start.

use std::time::Duration;

use durable_core::WorkflowEvent;
use everruns_durable::persistence::model::{
    ReusePolicy, SignalRecord, StartOutcome, StartRejection, StartRun, UpdateState, WorkflowStatus,
};

use crate::World;
use crate::world::json;

claims! { "signal_starts":
    a_new_run_finds_its_signals_then_its_updates_waiting,
    signals_reach_the_run_that_has_the_key_whatever_the_input,
    signals_reach_the_run_that_has_the_run_id,
    signals_reach_the_last_run_of_the_business_id_whatever_the_reuse_policy,
    signals_start_another_run_when_the_last_of_the_business_id_has_ended,
    signals_to_an_ended_run_are_refused,
    a_repeated_signal_with_start_is_one_signal,
    an_update_with_start_reaches_the_existing_run_once,
    a_start_without_signals_does_not_join_the_run_of_its_business_id,
}

async fn a_new_run_finds_its_signals_then_its_updates_waiting(w: &World) {
    let start = StartRun {
        signals: vec![w.new_signal("first"), w.new_signal("second")],
        updates: vec![w.new_update("change")],
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    let dump = w.dump(run_id).await;
    assert_eq!((dump.run.arrivals, dump.run.consumed), (3, 0));
    let names: Vec<(i64, String)> = dump
        .facts
        .iter()
        .map(|fact| {
            let name = match &fact.event {
                WorkflowEvent::SignalReceived { signal, .. } => signal.signal_type.clone(),
                WorkflowEvent::UpdateAccepted { update_id, .. } => update_id.clone(),
                other => panic!("{other:?} was not sent"),
            };
            (fact.arrival, name)
        })
        .collect();
    assert_eq!(
        names,
        [
            (1, "first".to_owned()),
            (2, "second".into()),
            (3, "change".into())
        ]
    );
    let first = SignalRecord {
        run_id,
        signal_id: start.signals[0].signal_id,
        signal_type: "first".into(),
        payload: json("true"),
        arrival: 1,
        sent_at: w.instant(),
        processed_at: None,
    };
    assert_eq!(dump.signals[0], first);
    assert_eq!(dump.updates[0].update_id, start.updates[0].update_id);
    assert_eq!(dump.updates[0].state, UpdateState::Pending);
}

async fn signals_reach_the_run_that_has_the_key_whatever_the_input(w: &World) {
    let start = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    let with_signal = StartRun {
        run_id: w.id(),
        input: json("[]"),
        signals: vec![w.new_signal("hello")],
        ..start
    };
    assert_eq!(
        w.try_start(with_signal).await,
        StartOutcome::Existing { run_id }
    );
    assert_eq!(w.run(run_id).await.arrivals, 1);
    assert_eq!(w.everything().await.runs.len(), 1);
}

async fn signals_reach_the_run_that_has_the_run_id(w: &World) {
    let run_id = w.start().await;
    let with_signal = StartRun {
        run_id,
        input: json("[]"),
        signals: vec![w.new_signal("hello")],
        ..w.new_start()
    };
    assert_eq!(
        w.try_start(with_signal).await,
        StartOutcome::Existing { run_id }
    );
    assert_eq!(w.run(run_id).await.arrivals, 1);
}

async fn signals_reach_the_last_run_of_the_business_id_whatever_the_reuse_policy(w: &World) {
    let policies = [
        ReusePolicy::AllowDuplicate,
        ReusePolicy::RejectDuplicate,
        ReusePolicy::AllowDuplicateFailedOnly,
        ReusePolicy::TerminateIfRunning,
    ];
    let earlier = w.last_run_of("order-1", WorkflowStatus::Running).await;
    let run_id = w.last_run_of("order-1", WorkflowStatus::Running).await;
    for (sent, policy) in policies.into_iter().enumerate() {
        let with_signal = StartRun {
            signals: vec![w.new_signal("hello")],
            ..w.reusing("order-1", policy)
        };
        assert_eq!(
            w.try_start(with_signal).await,
            StartOutcome::Existing { run_id }
        );
        assert_eq!(w.waiting(run_id).await.facts.len(), sent + 1);
    }
    assert_eq!(w.run(run_id).await.status, WorkflowStatus::Running);
    assert_eq!(w.run(earlier).await.arrivals, 0);
}

async fn signals_start_another_run_when_the_last_of_the_business_id_has_ended(w: &World) {
    let ended = w.last_run_of("order-1", WorkflowStatus::Completed).await;
    let with_signal = StartRun {
        signals: vec![w.new_signal("hello")],
        ..w.reusing("order-1", ReusePolicy::AllowDuplicate)
    };
    let run_id = w.start_one(with_signal).await;
    assert_eq!(w.run(run_id).await.arrivals, 1);
    assert_eq!(w.run(ended).await.arrivals, 0);

    let refused = StartRun {
        signals: vec![w.new_signal("hello")],
        ..w.reusing("order-2", ReusePolicy::RejectDuplicate)
    };
    let run_id = w.last_run_of("order-2", WorkflowStatus::Completed).await;
    let rejection = StartRejection::DuplicateBusinessId {
        run_id,
        status: WorkflowStatus::Completed,
    };
    assert_eq!(
        w.try_start(refused).await,
        StartOutcome::Rejected(rejection)
    );
}

async fn signals_to_an_ended_run_are_refused(w: &World) {
    let start = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    w.fail_run(run_id).await;
    let before = w.everything().await;
    let by_key = StartRun {
        run_id: w.id(),
        signals: vec![w.new_signal("hello")],
        ..start.clone()
    };
    let by_id = StartRun {
        updates: vec![w.new_update("change")],
        idempotency_key: None,
        ..start
    };
    for late in [by_key, by_id] {
        let rejection = StartRejection::RunFinished {
            run_id,
            status: WorkflowStatus::Failed,
        };
        assert_eq!(w.try_start(late).await, StartOutcome::Rejected(rejection));
    }
    assert_eq!(w.everything().await, before);
}

async fn a_repeated_signal_with_start_is_one_signal(w: &World) {
    let start = StartRun {
        signals: vec![w.new_signal("hello")],
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    let before = w.everything().await;
    w.advance(Duration::from_secs(1));
    assert_eq!(
        w.try_start(start.clone()).await,
        StartOutcome::Existing { run_id }
    );
    assert_eq!(w.everything().await, before);

    let with_another = StartRun {
        signals: vec![start.signals[0].clone(), w.new_signal("again")],
        ..start
    };
    w.try_start(with_another).await;
    assert_eq!(w.run(run_id).await.arrivals, 2, "only the new one arrives");
}

async fn an_update_with_start_reaches_the_existing_run_once(w: &World) {
    let run_id = w.last_run_of("order-1", WorkflowStatus::Running).await;
    let start = StartRun {
        updates: vec![w.new_update("change")],
        ..w.reusing("order-1", ReusePolicy::AllowDuplicate)
    };
    for _ in 0..2 {
        assert_eq!(
            w.try_start(start.clone()).await,
            StartOutcome::Existing { run_id }
        );
    }
    let dump = w.dump(run_id).await;
    assert_eq!((dump.facts.len(), dump.updates.len()), (1, 1));
}

async fn a_start_without_signals_does_not_join_the_run_of_its_business_id(w: &World) {
    let first = w.last_run_of("order-1", WorkflowStatus::Running).await;
    let second = w
        .start_one(w.reusing("order-1", ReusePolicy::AllowDuplicate))
        .await;
    assert_ne!(first, second);
}
