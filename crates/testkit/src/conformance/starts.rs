//! Starting runs: idempotency, business ids, signal-with-start.

use std::time::Duration;

use durable_core::AttributeValue;
use everruns_durable::persistence::model::{
    Attributes, KeyKind, KeyRecord, Owner, OwnerRequest, ReusePolicy, RunRecord, StartOutcome,
    StartRejection, StartRun, WorkflowStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{LEASE, WORKER, WORKFLOW, at_once, json, one, patient, trace};

claims! { "starts":
    a_started_run_is_pending_and_ready,
    a_start_is_stored_whole,
    a_start_writes_its_keys,
    starting_the_same_run_twice_is_one_start,
    a_repeated_start_after_the_end_answers_the_ended_run,
    one_key_is_one_run_for_64_clients,
    one_run_id_is_one_run_for_64_clients,
    one_business_id_is_one_run_for_64_clients_that_reject_duplicates,
    a_key_with_another_input_type_or_version_is_a_conflict,
    a_run_id_with_another_input_is_a_conflict,
    a_key_or_run_id_of_another_type_takes_no_signal,
    the_key_decides_before_the_run_id,
    starts_of_one_call_see_each_other,
    a_refused_start_leaves_no_trace_and_its_neighbours_alone,
    allow_duplicate_starts_another_run,
    reject_duplicate_refuses_whatever_became_of_the_last_run,
    allow_duplicate_failed_only_looks_at_how_the_last_run_ended,
    terminate_if_running_ends_the_last_run_and_starts,
    terminate_if_running_leaves_an_ended_run_alone,
    the_reuse_policy_looks_only_at_the_last_run,
    a_deleted_run_id_is_refused,
    a_key_is_free_again_when_its_run_is_deleted,
    a_business_id_is_free_again_when_its_last_run_is_deleted,
}

async fn a_started_run_is_pending_and_ready(w: &World) {
    let run = w.start().await;
    let run = w.run(run).await;
    assert_eq!(run.status, WorkflowStatus::Pending);
    assert_eq!((run.sequence, run.arrivals, run.consumed), (0, 0, 0));
    assert_eq!(run.ready_at, w.now());
}

async fn a_start_is_stored_whole(w: &World) {
    let mut start = w.new_start();
    start.version = "v7".into();
    start.input = json(r#"{"n": 9007199254740993, "nul": "\u0000"}"#);
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-1".into());
    start.memo = json("[1 , 2]");
    start.execution_timeout = Some(Duration::from_secs(3600));
    start.run_timeout = Some(Duration::from_secs(60));
    start.trace = Some(trace());
    start.attributes = Attributes::from([
        ("customer".to_owned(), AttributeValue::Text("1".into())),
        ("amount".to_owned(), AttributeValue::Int(1)),
    ]);
    start.owner = Some(OwnerRequest {
        worker_id: WORKER.into(),
        lease: LEASE,
    });
    let run_id = w.start_one(start.clone()).await;

    let stored = w.dump(run_id).await;
    let now = w.instant();
    assert_eq!(
        stored.run,
        RunRecord {
            id: run_id,
            workflow_type: WORKFLOW.into(),
            version: "v7".into(),
            business_id: Some("order-1".into()),
            idempotency_key: Some("key-1".into()),
            fingerprint: start.fingerprint(),
            status: WorkflowStatus::Pending,
            input: start.input,
            result: durable_core::Payload::ABSENT,
            error: None,
            memo: start.memo,
            trace: start.trace,
            parent: None,
            has_children: false,
            sequence: 0,
            history_start: 0,
            iteration: 0,
            epoch: 0,
            arrivals: 0,
            consumed: 0,
            last_turn: None,
            ready_at: Some(now),
            owner: Some(Owner {
                worker_id: WORKER.into(),
                expires_at: after(now, LEASE),
            }),
            blocked: None,
            execution_deadline: Some(after(now, Duration::from_secs(3600))),
            run_deadline: Some(after(now, Duration::from_secs(60))),
            run_timeout: Some(Duration::from_secs(60)),
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
        }
    );
    assert_eq!(stored.attributes, start.attributes);
    assert_eq!(stored.events, []);
}

async fn a_start_writes_its_keys(w: &World) {
    let run_id = w
        .start_one(StartRun {
            business_id: Some("order-1".into()),
            idempotency_key: Some("key-1".into()),
            ..w.new_start()
        })
        .await;
    let key = |kind, key: &str| KeyRecord {
        kind,
        key: key.into(),
        run_id,
        created_at: w.instant(),
    };
    assert_eq!(
        w.everything().await.keys,
        [
            key(KeyKind::Idempotency, "key-1"),
            key(KeyKind::Business, "order-1")
        ]
    );
}

async fn starting_the_same_run_twice_is_one_start(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    let before = w.everything().await;
    w.advance(Duration::from_secs(1));
    assert_eq!(w.try_start(start).await, StartOutcome::Existing { run_id });
    assert_eq!(w.everything().await, before);
}

async fn a_repeated_start_after_the_end_answers_the_ended_run(w: &World) {
    let start = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    w.complete(run_id).await;
    let again = StartRun {
        run_id: w.id(),
        ..start
    };
    assert_eq!(w.try_start(again).await, StartOutcome::Existing { run_id });
    assert_eq!(w.run(run_id).await.status, WorkflowStatus::Completed);
}

/// Sends each start from a client of its own, all at once, and answers the outcomes.
async fn start_at_once(w: &World, starts: Vec<StartRun>) -> Vec<StartOutcome> {
    let clients = starts.into_iter().map(|start| {
        let (store, now) = (w.store.clone(), w.now());
        async move { one(patient(|| store.start_runs(vec![start.clone()], now)).await) }
    });
    at_once(clients.collect()).await
}

fn started(outcomes: &[StartOutcome]) -> Uuid {
    let ids: Vec<Uuid> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            StartOutcome::Started { run_id } => Some(*run_id),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 1, "one start wins: {outcomes:?}");
    ids[0]
}

async fn one_key_is_one_run_for_64_clients(w: &World) {
    let starts = (0..64).map(|_| StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    });
    let outcomes = start_at_once(w, starts.collect()).await;
    let run_id = started(&outcomes);
    let existing = StartOutcome::Existing { run_id };
    assert_eq!(outcomes.iter().filter(|o| **o == existing).count(), 63);
    assert_eq!(w.everything().await.runs.len(), 1);
}

async fn one_run_id_is_one_run_for_64_clients(w: &World) {
    let outcomes = start_at_once(w, vec![w.new_start(); 64]).await;
    let run_id = started(&outcomes);
    let existing = StartOutcome::Existing { run_id };
    assert_eq!(outcomes.iter().filter(|o| **o == existing).count(), 63);
    assert_eq!(w.everything().await.runs.len(), 1);
}

async fn one_business_id_is_one_run_for_64_clients_that_reject_duplicates(w: &World) {
    let starts = (0..64).map(|_| w.reusing("order-1", ReusePolicy::RejectDuplicate));
    let outcomes = start_at_once(w, starts.collect()).await;
    let refused = StartOutcome::Rejected(StartRejection::DuplicateBusinessId {
        run_id: started(&outcomes),
        status: WorkflowStatus::Pending,
    });
    assert_eq!(outcomes.iter().filter(|o| **o == refused).count(), 63);
    assert_eq!(w.everything().await.runs.len(), 1);
}

async fn a_key_with_another_input_type_or_version_is_a_conflict(w: &World) {
    let start = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    let before = w.everything().await;
    let others = [
        StartRun {
            input: json("{ }"),
            ..start.clone()
        },
        StartRun {
            workflow_type: "other".into(),
            ..start.clone()
        },
        StartRun {
            version: "v2".into(),
            ..start
        },
    ];
    for other in others {
        let other = StartRun {
            run_id: w.id(),
            ..other
        };
        assert_eq!(
            w.try_start(other).await,
            StartOutcome::Rejected(StartRejection::KeyConflict { run_id })
        );
    }
    assert_eq!(w.everything().await, before);
}

async fn a_run_id_with_another_input_is_a_conflict(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    let other = StartRun {
        input: json("[]"),
        ..start
    };
    assert_eq!(
        w.try_start(other).await,
        StartOutcome::Rejected(StartRejection::KeyConflict { run_id })
    );
}

async fn a_key_or_run_id_of_another_type_takes_no_signal(w: &World) {
    let start = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let run_id = w.start_one(start.clone()).await;
    let before = w.everything().await;
    let by_key = StartRun {
        run_id: w.id(),
        workflow_type: "other".into(),
        signals: vec![w.new_signal("hello")],
        ..start.clone()
    };
    let by_id = StartRun {
        run_id,
        idempotency_key: None,
        ..by_key.clone()
    };
    for other in [by_key, by_id] {
        assert_eq!(
            w.try_start(other).await,
            StartOutcome::Rejected(StartRejection::KeyConflict { run_id })
        );
    }
    assert_eq!(w.everything().await, before);
}

async fn the_key_decides_before_the_run_id(w: &World) {
    let with_key = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let keyed = w.start_one(with_key.clone()).await;
    let other = w.start().await;
    let both = StartRun {
        run_id: other,
        ..with_key
    };
    let outcome = w.try_start(both).await;
    assert_eq!(outcome, StartOutcome::Existing { run_id: keyed });
}

async fn starts_of_one_call_see_each_other(w: &World) {
    let first = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.reusing("order-1", ReusePolicy::AllowDuplicate)
    };
    let run_id = first.run_id;
    let repeated = StartRun {
        run_id: w.id(),
        ..first.clone()
    };
    let refused = w.reusing("order-1", ReusePolicy::RejectDuplicate);
    let replacing = w.reusing("order-1", ReusePolicy::TerminateIfRunning);
    let replaced_by = replacing.run_id;

    let starts = vec![first, repeated, refused, replacing];
    let outcomes = w.store.start_runs(starts, w.now()).await;
    assert_eq!(
        outcomes.expect("start_runs"),
        [
            StartOutcome::Started { run_id },
            StartOutcome::Existing { run_id },
            StartOutcome::Rejected(StartRejection::DuplicateBusinessId {
                run_id,
                status: WorkflowStatus::Pending,
            }),
            StartOutcome::Started {
                run_id: replaced_by
            },
        ]
    );
    assert_eq!(w.run(run_id).await.status, WorkflowStatus::Failed);
}

async fn a_refused_start_leaves_no_trace_and_its_neighbours_alone(w: &World) {
    let first = w
        .start_one(w.reusing("order-1", ReusePolicy::AllowDuplicate))
        .await;
    let before = w.everything().await;
    let refused = StartRun {
        idempotency_key: Some("key-1".into()),
        attributes: Attributes::from([("a".to_owned(), AttributeValue::Bool(true))]),
        ..w.reusing("order-1", ReusePolicy::RejectDuplicate)
    };
    let neighbours = [w.new_start(), w.new_start()];
    let ids = [neighbours[0].run_id, neighbours[1].run_id];
    let [left, right] = neighbours;
    let outcomes = w
        .store
        .start_runs(vec![left, refused, right], w.now())
        .await;
    let rejection = StartRejection::DuplicateBusinessId {
        run_id: first,
        status: WorkflowStatus::Pending,
    };
    assert_eq!(
        outcomes.expect("start_runs"),
        [
            StartOutcome::Started { run_id: ids[0] },
            StartOutcome::Rejected(rejection),
            StartOutcome::Started { run_id: ids[1] },
        ]
    );
    let mut now = w.everything().await;
    now.runs.retain(|run| !ids.contains(&run.run.id));
    // Where whoever asks is noted, the neighbours have left rows.
    let neighbours = ids.map(|id| id.to_string());
    now.audit.retain(|row| !neighbours.contains(&row.target.id));
    assert_eq!(now, before);
}

async fn allow_duplicate_starts_another_run(w: &World) {
    let first = w
        .start_one(w.reusing("order-1", ReusePolicy::AllowDuplicate))
        .await;
    let second = w
        .start_one(w.reusing("order-1", ReusePolicy::AllowDuplicate))
        .await;
    assert_eq!(w.run(first).await.status, WorkflowStatus::Pending);
    assert_eq!(w.run(second).await.status, WorkflowStatus::Pending);
    let keys = w.everything().await.keys;
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].run_id, second, "the key names the last run");
}

async fn reject_duplicate_refuses_whatever_became_of_the_last_run(w: &World) {
    for status in [
        WorkflowStatus::Pending,
        WorkflowStatus::Completed,
        WorkflowStatus::Failed,
        WorkflowStatus::Cancelled,
    ] {
        let id = format!("order-{status}");
        let run_id = w.last_run_of(&id, status).await;
        let outcome = w
            .try_start(w.reusing(&id, ReusePolicy::RejectDuplicate))
            .await;
        let rejection = StartRejection::DuplicateBusinessId { run_id, status };
        assert_eq!(outcome, StartOutcome::Rejected(rejection));
    }
}

async fn allow_duplicate_failed_only_looks_at_how_the_last_run_ended(w: &World) {
    let policy = ReusePolicy::AllowDuplicateFailedOnly;
    for status in [
        WorkflowStatus::Pending,
        WorkflowStatus::Completed,
        WorkflowStatus::Cancelled,
    ] {
        let id = format!("order-{status}");
        let run_id = w.last_run_of(&id, status).await;
        let rejection = StartRejection::DuplicateBusinessId { run_id, status };
        assert_eq!(
            w.try_start(w.reusing(&id, policy)).await,
            StartOutcome::Rejected(rejection)
        );
    }
    w.last_run_of("failed", WorkflowStatus::Failed).await;
    w.start_one(w.reusing("failed", policy)).await;
    w.start_one(w.reusing("never used", policy)).await;
}

async fn terminate_if_running_ends_the_last_run_and_starts(w: &World) {
    let first = w
        .start_one(w.reusing("order-1", ReusePolicy::AllowDuplicate))
        .await;
    w.queue(first, vec![w.task("a")]).await;
    w.signal(first, "hello").await;
    w.start_one(w.reusing("order-1", ReusePolicy::TerminateIfRunning))
        .await;

    let ended = w.dump(first).await;
    assert_eq!(ended.run.status, WorkflowStatus::Failed);
    let error = ended.run.error.expect("a failed run has an error");
    assert_eq!(error.error_type, "WorkflowTerminated");
    assert_eq!(
        error.message,
        "replaced by a new run with the same workflow id"
    );
    assert_eq!(ended.run.completed_at, w.now());
    assert_eq!(ended.tasks, []);
    let last: Vec<&str> = ended.events[1..]
        .iter()
        .map(|e| e.event.event_type())
        .collect();
    assert_eq!(last, ["signal.received", "workflow.failed"]);
}

async fn terminate_if_running_leaves_an_ended_run_alone(w: &World) {
    let first = w.last_run_of("order-1", WorkflowStatus::Completed).await;
    let before = w.dump(first).await;
    w.start_one(w.reusing("order-1", ReusePolicy::TerminateIfRunning))
        .await;
    assert_eq!(w.dump(first).await, before);
}

async fn the_reuse_policy_looks_only_at_the_last_run(w: &World) {
    w.last_run_of("order-1", WorkflowStatus::Completed).await;
    w.last_run_of("order-1", WorkflowStatus::Failed).await;
    w.start_one(w.reusing("order-1", ReusePolicy::AllowDuplicateFailedOnly))
        .await;
}

async fn a_deleted_run_id_is_refused(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    w.complete(run_id).await;
    assert_eq!(w.purge().await, 1);
    let with_signal = StartRun {
        signals: vec![w.new_signal("hello")],
        ..start.clone()
    };
    for again in [start, with_signal] {
        assert_eq!(
            w.try_start(again).await,
            StartOutcome::Rejected(StartRejection::Deleted { run_id })
        );
    }
    assert_eq!(w.everything().await.runs, []);
}

async fn a_key_is_free_again_when_its_run_is_deleted(w: &World) {
    let start = StartRun {
        idempotency_key: Some("key-1".into()),
        ..w.new_start()
    };
    let first = w.start_one(start.clone()).await;
    w.complete(first).await;
    assert_eq!(w.purge().await, 1);
    let other = StartRun {
        run_id: w.id(),
        input: json("[]"),
        ..start
    };
    let second = w.start_one(other.clone()).await;
    let repeated = StartRun {
        run_id: w.id(),
        ..other
    };
    assert_eq!(
        w.try_start(repeated).await,
        StartOutcome::Existing { run_id: second }
    );
}

async fn a_business_id_is_free_again_when_its_last_run_is_deleted(w: &World) {
    w.last_run_of("order-1", WorkflowStatus::Completed).await;
    assert_eq!(w.purge().await, 1);
    w.start_one(w.reusing("order-1", ReusePolicy::RejectDuplicate))
        .await;
}

impl World {
    /// A start with a business id.
    pub(super) fn reusing(&self, business_id: &str, reuse_policy: ReusePolicy) -> StartRun {
        StartRun {
            business_id: Some(business_id.into()),
            reuse_policy,
            ..self.new_start()
        }
    }

    /// Starts a run with this business id and brings it to this status.
    pub(super) async fn last_run_of(&self, business_id: &str, status: WorkflowStatus) -> Uuid {
        let run_id = self
            .start_one(self.reusing(business_id, ReusePolicy::AllowDuplicate))
            .await;
        match status {
            WorkflowStatus::Pending => {}
            WorkflowStatus::Running => drop(self.queue(run_id, vec![]).await),
            WorkflowStatus::Completed => self.complete(run_id).await,
            WorkflowStatus::Failed => self.fail_run(run_id).await,
            WorkflowStatus::Cancelled => self.cancel_run(run_id).await,
        }
        run_id
    }
}
