//! One run is deleted on demand, and details of runs that go on are deleted by their age.

use std::time::Duration;

use durable_core::{Failure, RetryPolicy, Timestamp};
use everruns_durable::persistence::limits::ROLLUP_DAYS;
use everruns_durable::persistence::model::{
    AuditFilter, AuditNote, ClaimOutbox, DeadLetterDecision, DecisionOutcome, DeleteOutcome,
    KeyKind, LogLevel, NewOutboxEvent, NewStepLog, OutboxReport, OutboxResult, Page, PurgeOld,
    PurgedOld, Rejection, RollupRecord, SendOutcome, StartOutcome, StartRejection, TaskOutcome,
    TaskResult, WorkerFilter, WorkerStatus, WorkflowStatus,
};
use uuid::Uuid;

use super::workers::{register, worker};
use crate::World;
use crate::world::{json, one};

claims! { "erasure":
    a_deleted_run_is_gone_with_all_its_rows_and_its_id_is_refused,
    only_a_run_that_has_ended_can_be_deleted,
    a_run_with_messages_or_outbox_events_on_their_way_is_not_deleted,
    deleting_again_says_that_it_was_deleted,
    a_deletion_leaves_one_audit_row,
    the_keys_of_a_deleted_run_are_free_again,
    a_run_with_more_rows_than_a_slice_goes_whole,
    events_of_earlier_iterations_go_by_their_age_and_the_run_goes_on,
    a_run_that_continues_as_new_stays_small,
    a_reset_into_deleted_history_is_refused,
    signals_that_were_taken_go_by_their_age_and_may_then_be_sent_again,
    updates_that_were_answered_go_by_their_age,
    log_lines_and_published_outbox_events_go_by_their_age,
    decided_dead_letters_go_by_their_age,
    results_recorded_once_go_by_their_age,
    stopped_workers_go_by_their_age,
    old_totals_are_added_up_and_their_sums_stay,
    deleting_old_rows_is_bounded,
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn delete(w: &World, run_id: Uuid) -> DeleteOutcome {
    w.store
        .delete_run(run_id, w.now())
        .await
        .expect("delete_run")
}

async fn purge_old(w: &World, purge: PurgeOld) -> PurgedOld {
    let purge = PurgeOld {
        max: if purge.max == 0 { 1000 } else { purge.max },
        now: w.now(),
        ..purge
    };
    w.store.purge_old(purge).await.expect("purge_old")
}

fn outbox_event(w: &World) -> NewOutboxEvent {
    NewOutboxEvent {
        id: w.id(),
        event_type: "order.paid".into(),
        payload: json("1"),
        idempotency_key: None,
    }
}

async fn publish(w: &World) {
    let claim = ClaimOutbox {
        max: 10,
        lease: SECOND,
        token: w.id(),
        first_shard: 0,
        now: w.now(),
    };
    let token = claim.token;
    for event in w.store.claim_outbox(claim).await.expect("claim_outbox") {
        let report = OutboxReport {
            run_id: event.run_id,
            id: event.id,
            token,
            result: OutboxResult::Published,
        };
        assert!(one(w.store.finish_outbox(vec![report], w.now()).await));
    }
}

/// A run with rows in many tables.
async fn rich_run(w: &World) -> Uuid {
    let mut start = w.new_start();
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-1".into());
    let run_id = w.start_one(start).await;
    w.signal(run_id, "a").await;
    w.update(run_id, w.new_update("u")).await;
    let mut turn = w.turn(run_id).await;
    let mut task = w.task("a");
    task.options.retry_policy = RetryPolicy::never();
    turn.tasks = vec![task];
    turn.outbox = vec![outbox_event(w)];
    w.committed(turn).await;
    let claimed = w.claim_one().await;
    let result = TaskResult {
        lease: claimed.lease,
        outcome: TaskOutcome::Failed {
            failure: Failure::new("Boom", "it broke"),
        },
        jitter: 0.5,
        step_logs: vec![NewStepLog {
            id: w.id(),
            activity_id: "a".into(),
            attempt: 1,
            level: LogLevel::Info,
            message: "trying".into(),
            meta: json("{}"),
        }],
    };
    one(w.store.finish_tasks(vec![result], w.now()).await);
    publish(w).await;
    run_id
}

async fn a_deleted_run_is_gone_with_all_its_rows_and_its_id_is_refused(w: &World) {
    let run_id = rich_run(w).await;
    w.complete(run_id).await;
    assert_eq!(w.letters().await.len(), 1);
    assert_eq!(delete(w, run_id).await, DeleteOutcome::Deleted);
    let after = w.everything().await;
    assert_eq!(after.runs, []);
    assert_eq!(after.dead_letters, []);
    let kinds: Vec<_> = after.keys.iter().map(|key| key.kind).collect();
    assert_eq!(kinds, [KeyKind::Tombstone]);
    assert!(w.store.get_run(run_id).await.expect("get_run").is_none());
    let events = w.store.list_events(run_id, 0, 10).await;
    assert!(events.expect("list_events").is_none());
    let mut again = w.new_start();
    again.run_id = run_id;
    let refused = StartOutcome::Rejected(StartRejection::Deleted { run_id });
    assert_eq!(w.try_start(again).await, refused);
}

async fn only_a_run_that_has_ended_can_be_deleted(w: &World) {
    let run_id = w.start().await;
    let open = DeleteOutcome::Open(WorkflowStatus::Pending);
    assert_eq!(delete(w, run_id).await, open);
    assert_eq!(delete(w, w.id()).await, DeleteOutcome::NotFound);
    w.terminate(run_id, "no more").await;
    assert_eq!(delete(w, run_id).await, DeleteOutcome::Deleted);
}

async fn a_run_with_messages_or_outbox_events_on_their_way_is_not_deleted(w: &World) {
    let run_id = w.start().await;
    let mut turn = World::completing(w.turn(run_id).await);
    turn.outbox = vec![outbox_event(w)];
    w.committed(turn).await;
    assert_eq!(delete(w, run_id).await, DeleteOutcome::Undelivered);
    publish(w).await;
    assert_eq!(delete(w, run_id).await, DeleteOutcome::Deleted);
}

async fn deleting_again_says_that_it_was_deleted(w: &World) {
    let run_id = w.start().await;
    w.complete(run_id).await;
    assert_eq!(delete(w, run_id).await, DeleteOutcome::Deleted);
    assert_eq!(delete(w, run_id).await, DeleteOutcome::AlreadyDeleted);
}

async fn a_deletion_leaves_one_audit_row(w: &World) {
    let note = AuditNote {
        now: w.now(),
        ..AuditNote::new(w.id(), "alice", "operator", "delete_workflow")
    };
    let view = w.store.audited(note.into()).expect("the note fits");
    // A server's store keeps none.
    let Some(view) = view else {
        return;
    };
    let run_id = w.start().await;
    let refused = view.delete_run(run_id, w.now()).await.expect("delete_run");
    assert!(matches!(refused, DeleteOutcome::Open(_)));
    w.complete(run_id).await;
    for _ in 0..2 {
        view.delete_run(run_id, w.now()).await.expect("delete_run");
    }
    let rows = w
        .store
        .list_audit(AuditFilter::default(), Page::default())
        .await;
    let rows = rows.expect("list_audit");
    let targets: Vec<_> = rows.iter().map(|row| row.target.id.clone()).collect();
    assert_eq!(targets, [run_id.to_string()]);
}

async fn the_keys_of_a_deleted_run_are_free_again(w: &World) {
    let run_id = rich_run(w).await;
    w.complete(run_id).await;
    assert_eq!(delete(w, run_id).await, DeleteOutcome::Deleted);
    let mut start = w.new_start();
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-1".into());
    start.input = json("\"another\"");
    w.start_one(start).await;
}

async fn a_run_with_more_rows_than_a_slice_goes_whole(w: &World) {
    const SIGNALS: usize = 12_000;
    let (long, short) = (w.start().await, w.start().await);
    for _ in 0..SIGNALS / 500 {
        let signals = (0..500).map(|_| everruns_durable::persistence::model::SendSignal {
            run_id: long,
            signal: w.new_signal("a"),
        });
        let sent = w.store.send_signals(signals.collect(), w.now()).await;
        assert_eq!(sent.expect("send_signals").len(), 500);
    }
    w.terminate(long, "enough").await;
    w.complete(short).await;
    w.advance(SECOND);
    assert!(w.run(long).await.sequence > 10_000);
    assert_eq!(w.purge().await, 2);
    let after = w.everything().await;
    assert_eq!(after.runs, []);
    let lines = w.store.list_events(long, 0, 10).await;
    assert!(lines.expect("list_events").is_none());
    // The id is free after a while, and nothing of the former run is left under it.
    w.advance(DAY * 40);
    w.purge().await;
    let mut start = w.new_start();
    start.run_id = long;
    w.start_one(start).await;
    assert_eq!(w.stored_events(long).await, []);
    let dump = w.dump(long).await;
    assert_eq!((dump.events.len(), dump.signals.len()), (0, 0));
}

async fn continue_as_new(w: &World, run_id: Uuid) {
    let turn = World::continuing(w.turn(run_id).await, Vec::new());
    w.committed(turn).await;
}

async fn events_of_earlier_iterations_go_by_their_age_and_the_run_goes_on(w: &World) {
    let run_id = w.start().await;
    continue_as_new(w, run_id).await;
    w.advance(DAY);
    let young = w.instant();
    continue_as_new(w, run_id).await;
    w.signal(run_id, "a").await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    let before = w.stored_events(run_id).await;
    let purge = PurgeOld {
        history_before: Some(young),
        ..PurgeOld::default()
    };
    let gone = purge_old(w, purge.clone()).await.events;
    let after = w.stored_events(run_id).await;
    assert!(gone > 0 && !after.is_empty());
    assert_eq!(before.len() - after.len(), usize::try_from(gone).unwrap());
    assert!(after.iter().all(|event| event.created_at >= young));
    assert_eq!(after.as_slice(), &before[before.len() - after.len()..]);
    assert_eq!(purge_old(w, purge).await.events, 0);

    w.advance(DAY);
    let all = PurgeOld {
        history_before: w.now(),
        ..PurgeOld::default()
    };
    purge_old(w, all).await;
    let run = w.run(run_id).await;
    let left = w.stored_events(run_id).await;
    assert_eq!(
        left[0].sequence_num,
        run.history_start + 1,
        "this iteration's stay"
    );
    let history = w.store.load_history(run_id, run.history_start).await;
    let history = history.expect("load_history").expect("the run");
    assert_eq!(history.events, left);
    continue_as_new(w, run_id).await;
    w.complete(run_id).await;
}

async fn a_run_that_continues_as_new_stays_small(w: &World) {
    let run_id = w.start().await;
    let mut largest = 0;
    for _ in 0..60 {
        w.signal(run_id, "tick").await;
        continue_as_new(w, run_id).await;
        w.advance(DAY);
        let before = w.now().and_then(|now| now.checked_sub(DAY * 7).ok());
        let purge = PurgeOld {
            history_before: before,
            signals_before: before,
            ..PurgeOld::default()
        };
        purge_old(w, purge).await;
        let dump = w.dump(run_id).await;
        largest = largest.max(dump.events.len() + dump.signals.len());
    }
    assert!(w.run(run_id).await.sequence >= 60);
    assert!(largest < 40, "{largest} rows");
}

async fn a_reset_into_deleted_history_is_refused(w: &World) {
    let run_id = w.start().await;
    continue_as_new(w, run_id).await;
    w.signal(run_id, "a").await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    w.advance(DAY);
    let purge = PurgeOld {
        history_before: w.now(),
        ..PurgeOld::default()
    };
    assert!(purge_old(w, purge).await.events > 0);
    let start = w.run(run_id).await.history_start;
    let reset = World::resetting(w.turn(run_id).await, start);
    let refused = w.rejected(reset).await;
    assert!(matches!(refused, Rejection::ResetOutside { first, .. } if first == start + 1));
}

async fn signals_that_were_taken_go_by_their_age_and_may_then_be_sent_again(w: &World) {
    let run_id = w.start().await;
    let taken = w.new_signal("a");
    w.send(run_id, taken.clone()).await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    let waiting = w.new_signal("b");
    w.send(run_id, waiting.clone()).await;
    let repeated = w.send(run_id, taken.clone()).await;
    assert!(matches!(repeated, SendOutcome::Duplicate { .. }));
    w.advance(DAY);
    let purge = PurgeOld {
        signals_before: w.now(),
        ..PurgeOld::default()
    };
    assert_eq!(purge_old(w, purge).await.signals, 1);
    let repeated = w.send(run_id, waiting).await;
    assert!(
        matches!(repeated, SendOutcome::Duplicate { .. }),
        "it waits"
    );
    let again = w.send(run_id, taken).await;
    assert!(matches!(again, SendOutcome::Accepted { .. }), "{again:?}");
}

async fn updates_that_were_answered_go_by_their_age(w: &World) {
    let (run_id, open) = (w.start().await, w.start().await);
    w.update(run_id, w.new_update("u")).await;
    w.update(open, w.new_update("u")).await;
    w.complete(run_id).await;
    w.advance(DAY);
    let purge = PurgeOld {
        updates_before: w.now(),
        ..PurgeOld::default()
    };
    assert_eq!(purge_old(w, purge).await.updates, 1);
    let update = w.store.get_update(run_id, "u").await;
    assert_eq!(update.expect("get_update"), None);
    let update = w.store.get_update(open, "u").await;
    assert!(
        update.expect("get_update").is_some(),
        "nobody has answered it"
    );
}

async fn log_lines_and_published_outbox_events_go_by_their_age(w: &World) {
    let run_id = rich_run(w).await;
    let mut turn = w.turn(run_id).await;
    turn.outbox = vec![outbox_event(w)];
    w.committed(turn).await;
    let young = PurgeOld {
        logs_before: w.now(),
        outbox_before: w.now(),
        ..PurgeOld::default()
    };
    assert_eq!(
        purge_old(w, young).await.rows(),
        0,
        "they are of this instant"
    );
    w.advance(DAY);
    let purge = PurgeOld {
        logs_before: w.now(),
        outbox_before: w.now(),
        ..PurgeOld::default()
    };
    let purged = purge_old(w, purge).await;
    assert_eq!((purged.step_logs, purged.outbox), (1, 1));
    let dump = w.dump(run_id).await;
    assert_eq!((dump.step_logs.len(), dump.outbox.len()), (0, 1));
}

async fn decided_dead_letters_go_by_their_age(w: &World) {
    let run_id = rich_run(w).await;
    let letter = w.letters().await.remove(0);
    w.advance(DAY);
    let purge = || PurgeOld {
        letters_before: w.now(),
        ..PurgeOld::default()
    };
    assert_eq!(
        purge_old(w, purge()).await.dead_letters,
        0,
        "it is not decided"
    );
    let decision = DeadLetterDecision::Discard;
    let decided = w
        .store
        .decide_dead_letter(run_id, letter.id, decision, w.now());
    assert_eq!(decided.await.expect("decide"), DecisionOutcome::Done);
    assert_eq!(purge_old(w, purge()).await.dead_letters, 1);
    assert_eq!(w.letters().await, []);
}

async fn results_recorded_once_go_by_their_age(w: &World) {
    let put = |key: &'static str| w.store.put_once(key, json("1"), w.now());
    put("old").await.expect("put_once");
    w.advance(DAY);
    let before = w.now();
    put("young").await.expect("put_once");
    let purge = PurgeOld {
        results_before: before,
        ..PurgeOld::default()
    };
    assert_eq!(purge_old(w, purge).await.results, 1);
    assert_eq!(w.store.get_once("old").await.expect("get_once"), None);
    assert!(w.store.get_once("young").await.expect("get_once").is_some());
}

async fn stopped_workers_go_by_their_age(w: &World) {
    for id in ["stopped", "active"] {
        register(w, worker(w, id)).await;
    }
    let stop = w.store.set_worker_status("stopped", WorkerStatus::Stopped);
    assert!(stop.await.expect("set_worker_status"));
    let purge = || PurgeOld {
        workers_before: w.now(),
        ..PurgeOld::default()
    };
    assert_eq!(purge_old(w, purge()).await.workers, 0, "not yet");
    w.advance(DAY);
    assert_eq!(purge_old(w, purge()).await.workers, 1);
    let left = w
        .store
        .list_workers(WorkerFilter::default())
        .await
        .expect("list");
    let ids: Vec<_> = left.iter().map(|worker| worker.id.as_str()).collect();
    assert_eq!(ids, ["active"]);
}

fn sums(totals: &[RollupRecord]) -> (i64, i64, i64) {
    let of = |field: fn(&RollupRecord) -> i64| totals.iter().map(field).sum();
    (of(|t| t.count), of(|t| t.total_ms), of(|t| t.wait_ms))
}

async fn old_totals_are_added_up_and_their_sums_stay(w: &World) {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    for _ in 0..50 {
        let run_id = w.start().await;
        w.complete(run_id).await;
        w.advance(HOUR);
    }
    let everything = || w.store.rollups(Timestamp::UNIX_EPOCH);
    let by_the_hour = everything().await.expect("rollups");
    assert_eq!(by_the_hour.len(), 50);
    let fold = || PurgeOld {
        rollups_before: w.now(),
        ..PurgeOld::default()
    };
    while purge_old(w, fold()).await.rollups > 0 {}
    let by_the_day = everything().await.expect("rollups");
    assert!(by_the_day.len() <= 4, "{} rows", by_the_day.len());
    assert_eq!(sums(&by_the_day), sums(&by_the_hour));
    w.advance(DAY * u32::try_from(ROLLUP_DAYS + 3).expect("a small number"));
    while purge_old(w, fold()).await.rollups > 0 {}
    let at_last = everything().await.expect("rollups");
    assert_eq!(at_last.len(), 1);
    assert_eq!(sums(&at_last), sums(&by_the_hour));
}

async fn deleting_old_rows_is_bounded(w: &World) {
    for key in ["a", "b", "c"] {
        let put = w.store.put_once(key, json("1"), w.now()).await;
        put.expect("put_once");
    }
    w.advance(DAY);
    for (gone, more) in [(2, true), (1, false)] {
        let purge = PurgeOld {
            results_before: w.now(),
            max: 2,
            ..PurgeOld::default()
        };
        let purged = purge_old(w, purge).await;
        assert_eq!((purged.results, purged.more), (gone, more));
    }
}
