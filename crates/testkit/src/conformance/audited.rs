//! Audit rows: one for each change of an operator's, in its commit, and none for what changed nothing.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{CircuitState, Payload};
use everruns_durable::persistence::limits::{AUDIT_DAYS, ID_BYTES_MAX};
use everruns_durable::persistence::model::{
    AuditFilter, AuditKind, AuditNote, AuditNotes, AuditRecord, AuditTarget, BreakerRecord,
    DeadLetterDecision, DecisionOutcome, DlqFilter, Page, PurgeRuns, ReusePolicy, SendSignal,
    SendUpdate, StartOutcome, StartRun, TerminateOutcome, TerminateRun, TurnOutcome, WorkerStatus,
    after,
};
use everruns_durable::persistence::{StoreError, WorkflowEventStore};
use uuid::Uuid;

use super::dead_letters::{dead, parking};
use super::schedules::schedule;
use super::workers::{register, worker};
use crate::World;
use crate::world::{WORKFLOW, json, one};

claims! { "audited":
    a_row_says_who_changed_what_when_and_by_which_request,
    starts_signals_updates_and_ends_leave_a_row_for_each_run,
    a_start_that_replaces_a_run_names_it,
    a_reset_leaves_a_row_and_repeating_it_none,
    decisions_about_dead_letters_leave_a_row,
    purging_dead_letters_leaves_one_row_with_the_count,
    every_change_of_a_schedule_leaves_a_row,
    workers_and_breakers_leave_a_row_only_when_they_change,
    what_is_refused_or_repeated_leaves_no_row,
    a_call_that_fails_leaves_no_row,
    a_start_that_finds_its_run_leaves_a_row_only_if_it_brings_news,
    items_of_one_call_are_noted_for_whoever_asked,
    what_nobody_is_noted_for_leaves_no_row,
    rows_are_listed_newest_first_by_every_filter,
    rows_go_when_their_time_of_keeping_is_over,
    a_note_that_cannot_be_stored_is_refused,
}

fn note(w: &World, action: &str) -> AuditNote {
    AuditNote {
        now: w.now(),
        ..AuditNote::new(w.id(), "alice", "operator", action)
    }
}

/// The store for Alice.
fn view(w: &World, action: &str) -> Arc<dyn WorkflowEventStore> {
    noted(w, note(w, action))
}

fn noted(w: &World, notes: impl Into<AuditNotes>) -> Arc<dyn WorkflowEventStore> {
    let view = w.store.audited(notes.into()).expect("the notes fit");
    view.expect("the store keeps an audit")
}

async fn list(w: &World, filter: AuditFilter) -> Vec<AuditRecord> {
    let page = Page {
        limit: 1000,
        offset: 0,
    };
    w.store.list_audit(filter, page).await.expect("list_audit")
}

/// All rows, oldest first.
async fn rows(w: &World) -> Vec<AuditRecord> {
    let mut rows = list(w, AuditFilter::default()).await;
    rows.reverse();
    assert_eq!(w.everything().await.audit, rows, "the dump has them too");
    rows
}

/// Kind and id of what all rows are about, oldest first.
async fn targets(w: &World) -> Vec<(AuditKind, String)> {
    let rows = rows(w).await.into_iter();
    rows.map(|row| (row.target.kind, row.target.id)).collect()
}

fn run(run_id: Uuid) -> (AuditKind, String) {
    (AuditKind::Run, run_id.to_string())
}

fn end(run_id: Uuid) -> Vec<TerminateRun> {
    vec![TerminateRun {
        run_id,
        reason: "no longer needed".into(),
    }]
}

async fn a_row_says_who_changed_what_when_and_by_which_request(w: &World) {
    let run_id = w.start().await;
    w.advance(Duration::from_micros(1_500));
    let asked = AuditNote {
        idempotency_key: Some("k-1".into()),
        now: None,
        ..note(w, "terminate_workflow")
    };
    let store = noted(w, asked.clone());
    assert_eq!(
        one(store.terminate_runs(end(run_id), w.now()).await),
        TerminateOutcome::Terminated
    );
    let found = rows(w).await;
    let expected = AuditRecord {
        id: AuditRecord::id_of(w.instant(), asked.request_id, 0),
        at: w.instant(),
        request_id: asked.request_id,
        actor: "alice".into(),
        role: "operator".into(),
        action: "terminate_workflow".into(),
        idempotency_key: Some("k-1".into()),
        target: AuditTarget {
            kind: AuditKind::Run,
            id: run_id.to_string(),
        },
        detail: json("{\"reason\":\"no longer needed\"}"),
    };
    assert_eq!(found, [expected]);
}

async fn starts_signals_updates_and_ends_leave_a_row_for_each_run(w: &World) {
    let starts = vec![w.new_start(), w.new_start()];
    let ids: Vec<Uuid> = starts.iter().map(|start| start.run_id).collect();
    let store = view(w, "everything");
    let started = store.start_runs(starts, w.now()).await;
    assert_eq!(started.expect("start_runs").len(), 2);
    let signals = ids.iter().map(|run_id| SendSignal {
        run_id: *run_id,
        signal: w.new_signal("s"),
    });
    let sent = store.send_signals(signals.collect(), w.now()).await;
    sent.expect("send_signals");
    let update = SendUpdate {
        run_id: ids[0],
        update: w.new_update("u"),
    };
    one(store.send_updates(vec![update], w.now()).await);
    one(store.terminate_runs(end(ids[1]), w.now()).await);
    let (first, second) = (run(ids[0]), run(ids[1]));
    let expected = [
        first.clone(),
        second.clone(),
        first.clone(),
        second.clone(),
        first,
        second,
    ];
    assert_eq!(targets(w).await, expected);
    let requests: Vec<Uuid> = rows(w).await.iter().map(|row| row.request_id).collect();
    assert!(requests.iter().all(|request| *request == requests[0]));
}

async fn a_reset_leaves_a_row_and_repeating_it_none(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let reset = World::resetting(w.turn(run_id).await, 1);
    let store = view(w, "reset_workflow");
    for _ in 0..2 {
        let outcome = one(store.commit_turns(vec![reset.clone()], w.now()).await);
        assert!(matches!(outcome, TurnOutcome::Committed(_)), "{outcome:?}");
    }
    assert_eq!(targets(w).await, [run(run_id)]);
    let late = one(store
        .commit_turns(vec![World::resetting(reset, 1)], w.now())
        .await);
    drop(late);
    assert_eq!(rows(w).await.len(), 1, "an old turn changes nothing");
}

async fn decisions_about_dead_letters_leave_a_row(w: &World) {
    let run_id = w.start_with_tasks(vec![parking(w, "a")]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    let id = claimed.lease.task_id;
    let store = view(w, "requeue_dlq");
    let decide = || store.decide_dead_letter(run_id, id, DeadLetterDecision::Requeue, w.now());
    assert_eq!(decide().await.expect("decided"), DecisionOutcome::Done);
    let again = decide().await.expect("asked again");
    assert!(
        matches!(again, DecisionOutcome::AlreadyDecided(_)),
        "{again:?}"
    );
    assert_eq!(targets(w).await, [(AuditKind::DeadLetter, id.to_string())]);
}

async fn purging_dead_letters_leaves_one_row_with_the_count(w: &World) {
    for _ in 0..3 {
        dead(w).await;
    }
    let store = view(w, "purge_dlq");
    let purge = || store.purge_dlq(DlqFilter::default(), 2);
    assert_eq!(purge().await.expect("purged"), 2);
    assert_eq!(purge().await.expect("purged"), 1);
    assert_eq!(purge().await.expect("nothing left"), 0);
    let found = rows(w).await;
    let counts: Vec<u64> = found.iter().map(|row| count_of(&row.detail)).collect();
    assert_eq!(counts, [2, 1]);
    assert_eq!(found[0].target.kind, AuditKind::DeadLetters);
    assert_eq!(found[0].target.id, "*");
}

fn count_of(detail: &Payload) -> u64 {
    let detail: serde_json::Value = detail.to_value().expect("JSON");
    detail["count"].as_u64().expect("a count")
}

async fn every_change_of_a_schedule_leaves_a_row(w: &World) {
    let store = view(w, "schedules");
    let first = schedule(w, "s");
    assert!(
        store
            .swap_schedule(None, first.clone())
            .await
            .expect("created")
    );
    assert!(
        !store
            .swap_schedule(None, first.clone())
            .await
            .expect("asked"),
        "there is one"
    );
    let seen = store.get_schedule("s").await.expect("read");
    let mut paused = first.clone();
    paused.paused = true;
    assert!(
        store
            .swap_schedule(seen.clone(), paused.clone())
            .await
            .expect("swapped")
    );
    assert!(
        !store.swap_schedule(seen, paused).await.expect("asked"),
        "it is another now"
    );
    store.put_schedule(first).await.expect("put");
    assert!(store.delete_schedule("s").await.expect("deleted"));
    assert!(
        !store.delete_schedule("s").await.expect("asked"),
        "it is gone"
    );
    let expected = vec![(AuditKind::Schedule, "s".to_owned()); 4];
    assert_eq!(targets(w).await, expected);
}

async fn workers_and_breakers_leave_a_row_only_when_they_change(w: &World) {
    register(w, worker(w, "w-1")).await;
    let store = view(w, "drain_worker");
    for _ in 0..2 {
        let drained = store.set_worker_status("w-1", WorkerStatus::Draining).await;
        assert!(drained.expect("known"));
    }
    let unknown = store.set_worker_status("w-2", WorkerStatus::Draining).await;
    assert!(!unknown.expect("asked"));
    assert!(store.deregister_worker("w-1").await.expect("known"));
    assert!(!store.deregister_worker("w-1").await.expect("gone"));
    let breaker = BreakerRecord {
        key: "activity:a".into(),
        state: CircuitState::Open,
        failure_count: 5,
        success_count: 0,
        opened_at: w.now(),
        data: Payload::ABSENT,
        version: 0,
        updated_at: w.instant(),
    };
    assert!(store.save_breaker(breaker, w.now()).await.expect("saved"));
    assert!(store.reset_breaker("activity:a").await.expect("there"));
    assert!(!store.reset_breaker("activity:a").await.expect("gone"));
    let expected = [
        (AuditKind::Worker, "w-1".to_owned()),
        (AuditKind::Worker, "w-1".to_owned()),
        (AuditKind::Breaker, "activity:a".to_owned()),
    ];
    assert_eq!(targets(w).await, expected);
}

async fn what_is_refused_or_repeated_leaves_no_row(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    let signal = SendSignal {
        run_id,
        signal: w.new_signal("s"),
    };
    one(w.store.send_signals(vec![signal.clone()], w.now()).await);
    let update = SendUpdate {
        run_id,
        update: w.new_update("u"),
    };
    one(w.store.send_updates(vec![update.clone()], w.now()).await);
    let store = view(w, "again");
    one(store.start_runs(vec![start.clone()], w.now()).await);
    one(store.send_signals(vec![signal.clone()], w.now()).await);
    one(store.send_updates(vec![update.clone()], w.now()).await);
    one(store.terminate_runs(end(w.id()), w.now()).await);
    w.complete(run_id).await;
    let late = SendSignal {
        signal: w.new_signal("late"),
        ..signal
    };
    one(store.send_signals(vec![late], w.now()).await);
    one(store.terminate_runs(end(run_id), w.now()).await);
    let turn = w.turn(run_id).await;
    one(store.commit_turns(vec![turn], w.now()).await);
    let letter = store.decide_dead_letter(run_id, w.id(), DeadLetterDecision::Discard, w.now());
    assert_eq!(letter.await.expect("asked"), DecisionOutcome::NotFound);
    assert_eq!(targets(w).await, []);
}

async fn a_call_that_fails_leaves_no_row(w: &World) {
    let store = view(w, "start_workflow");
    let mut bad = w.new_start();
    bad.workflow_type = String::new();
    let refused = store.start_runs(vec![w.new_start(), bad], w.now()).await;
    assert!(
        matches!(refused, Err(StoreError::Invalid(_))),
        "{refused:?}"
    );
    assert_eq!(targets(w).await, []);
}

async fn a_start_that_finds_its_run_leaves_a_row_only_if_it_brings_news(w: &World) {
    let mut start = w.new_start();
    start.business_id = Some("order-1".into());
    start.signals = vec![w.new_signal("s")];
    let store = view(w, "signal_with_start");
    let run_id = start.run_id;
    one(store.start_runs(vec![start.clone()], w.now()).await);
    let mut next = w.new_start();
    next.business_id = Some("order-1".into());
    next.signals = vec![w.new_signal("s")];
    let outcomes = store
        .start_runs(vec![next.clone(), next, start], w.now())
        .await;
    let existing = StartOutcome::Existing { run_id };
    let outcomes = outcomes.expect("start_runs");
    assert_eq!(outcomes, vec![existing; 3]);
    let found = rows(w).await;
    let created: Vec<&Payload> = found.iter().map(|row| &row.detail).collect();
    let detail = |created: bool| {
        json(&format!(
            "{{\"created\":{created},\"workflow_type\":\"{WORKFLOW}\"}}"
        ))
    };
    assert_eq!(created, [&detail(true), &detail(false)]);
    assert_eq!(targets(w).await, [run(run_id), run(run_id)]);
}

async fn a_start_that_replaces_a_run_names_it(w: &World) {
    let store = view(w, "start");
    let replacing = || w.reusing("order-1", ReusePolicy::TerminateIfRunning);
    let starts = vec![replacing(), replacing(), replacing()];
    let ids: Vec<Uuid> = starts.iter().map(|start| start.run_id).collect();
    let mut joining = starts[2].clone();
    joining.signals = vec![w.new_signal("s")];
    let starts: Vec<StartRun> = starts.into_iter().chain([joining]).collect();
    let started = store.start_runs(starts.clone(), w.now()).await;
    assert_eq!(started.expect("start_runs").len(), 4);
    let again = store.start_runs(starts[2..3].to_vec(), w.now()).await;
    let run_id = ids[2];
    assert_eq!(
        again.expect("start_runs"),
        [StartOutcome::Existing { run_id }]
    );
    let details: Vec<Payload> = rows(w).await.into_iter().map(|row| row.detail).collect();
    let detail = |created: bool, replaced: String| {
        json(&format!(
            "{{\"created\":{created}{replaced},\"workflow_type\":\"{WORKFLOW}\"}}"
        ))
    };
    let replacing = |id: Uuid| detail(true, format!(",\"replaced\":\"{id}\""));
    let expected = [
        detail(true, String::new()),
        replacing(ids[0]),
        replacing(ids[1]),
        detail(false, String::new()),
    ];
    assert_eq!(details, expected);
}

async fn items_of_one_call_are_noted_for_whoever_asked(w: &World) {
    let starts = vec![w.new_start(), w.new_start(), w.new_start()];
    let ids: Vec<Uuid> = starts.iter().map(|start| start.run_id).collect();
    let bob = AuditNote {
        actor: "bob".into(),
        row: 7,
        ..note(w, "start_workflow")
    };
    let alice = note(w, "start_workflow");
    let notes = AuditNotes::Each(vec![Some(alice), None, Some(bob)]);
    let started = noted(w, notes).start_runs(starts, w.now()).await;
    assert_eq!(started.expect("start_runs").len(), 3);
    let mut found: Vec<(String, String)> = rows(w)
        .await
        .into_iter()
        .map(|row| (row.actor, row.target.id))
        .collect();
    found.sort();
    let expected = [
        ("alice".to_owned(), ids[0].to_string()),
        ("bob".to_owned(), ids[2].to_string()),
    ];
    assert_eq!(found, expected);
}

async fn what_nobody_is_noted_for_leaves_no_row(w: &World) {
    let store = view(w, "look");
    let run_id = w.start().await;
    w.signal(run_id, "s").await;
    w.terminate(run_id, "done").await;
    register(w, worker(w, "w-1")).await;
    // Chores and workers' work leave none through a view either.
    let worker = store.register_worker(worker(w, "w-2"), w.now()).await;
    worker.expect("registered");
    store.put_once("k", json("1"), w.now()).await.expect("put");
    assert_eq!(targets(w).await, []);
}

async fn rows_are_listed_newest_first_by_every_filter(w: &World) {
    let mut ids = Vec::new();
    for (actor, action) in [("alice", "start"), ("bob", "start"), ("alice", "other")] {
        let asked = AuditNote {
            actor: actor.into(),
            ..note(w, action)
        };
        let start = w.new_start();
        ids.push(run(start.run_id).1);
        one(noted(w, asked).start_runs(vec![start], w.now()).await);
        w.advance(Duration::from_micros(700));
    }
    let found = list(w, AuditFilter::default()).await;
    let of = |rows: &[AuditRecord]| -> Vec<String> {
        rows.iter().map(|row| row.target.id.clone()).collect()
    };
    let [first, second, third] = [&ids[0], &ids[1], &ids[2]];
    let newest = of(&found);
    assert_eq!(newest.len(), 3);
    assert!(found.is_sorted_by(|a, b| a.id > b.id), "{found:?}");
    let all = AuditFilter::default;
    let by = |filter: AuditFilter| async move {
        let mut ids = of(&list(w, filter).await);
        ids.sort();
        ids
    };
    let sorted = |ids: &[&String]| {
        let mut ids: Vec<String> = ids.iter().map(|id| (*id).clone()).collect();
        ids.sort();
        ids
    };
    let actor = Some("alice".to_owned());
    assert_eq!(
        by(AuditFilter { actor, ..all() }).await,
        sorted(&[first, third])
    );
    let action = Some("start".to_owned());
    assert_eq!(
        by(AuditFilter { action, ..all() }).await,
        sorted(&[first, second])
    );
    let target_id = Some(second.clone());
    assert_eq!(
        by(AuditFilter { target_id, ..all() }).await,
        sorted(&[second])
    );
    let kind = Some(AuditKind::Run);
    assert_eq!(by(AuditFilter { kind, ..all() }).await.len(), 3);
    let kind = Some(AuditKind::Worker);
    assert_eq!(
        by(AuditFilter { kind, ..all() }).await,
        Vec::<String>::new()
    );
    let middle = found
        .iter()
        .find(|row| row.target.id == *second)
        .expect("listed");
    let request_id = Some(middle.request_id);
    assert_eq!(
        by(AuditFilter {
            request_id,
            ..all()
        })
        .await,
        sorted(&[second])
    );
    let from = Some(middle.at);
    assert_eq!(
        by(AuditFilter { from, ..all() }).await,
        sorted(&[second, third])
    );
    let until = Some(middle.at);
    assert_eq!(by(AuditFilter { until, ..all() }).await, sorted(&[first]));
    let actor = Some("no\0body".to_owned());
    assert_eq!(
        by(AuditFilter { actor, ..all() }).await,
        Vec::<String>::new()
    );
    let mut paged = Vec::new();
    while paged.len() < 3 {
        let before = paged.last().map(|row: &AuditRecord| row.id);
        let page = Page {
            limit: 1,
            offset: 0,
        };
        let next = w
            .store
            .list_audit(AuditFilter { before, ..all() }, page)
            .await;
        paged.push(one(next));
    }
    assert_eq!(of(&paged), newest);
}

async fn rows_go_when_their_time_of_keeping_is_over(w: &World) {
    let kept = Duration::from_secs(AUDIT_DAYS.unsigned_abs() * 24 * 60 * 60);
    let begin = w.instant();
    one(view(w, "old")
        .start_runs(vec![w.new_start()], w.now())
        .await);
    w.advance(Duration::from_secs(1));
    one(view(w, "young")
        .start_runs(vec![w.new_start()], w.now())
        .await);
    let purge = |now| PurgeRuns {
        finished_before: begin,
        max: 10,
        first_shard: 0,
        now: Some(now),
    };
    let at_the_end = w.store.purge_runs(purge(after(begin, kept))).await;
    assert_eq!(at_the_end.expect("purged"), 0);
    assert_eq!(rows(w).await.len(), 2, "its time is not over yet");
    let past = after(begin, kept + Duration::from_micros(1));
    w.store.purge_runs(purge(past)).await.expect("purged");
    let left: Vec<String> = rows(w).await.into_iter().map(|row| row.action).collect();
    assert_eq!(left, ["young"]);
}

async fn a_note_that_cannot_be_stored_is_refused(w: &World) {
    let good = note(w, "start_workflow");
    let bad = [
        AuditNote {
            actor: String::new(),
            ..good.clone()
        },
        AuditNote {
            actor: "a".repeat(ID_BYTES_MAX + 1),
            ..good.clone()
        },
        AuditNote {
            role: "\0".into(),
            ..good.clone()
        },
        AuditNote {
            action: String::new(),
            ..good.clone()
        },
        AuditNote {
            idempotency_key: Some(String::new()),
            ..good.clone()
        },
    ];
    for bad in bad {
        let refused = w.store.audited(bad.clone().into()).err();
        assert!(refused.is_some_and(|error| error.is_refusal()), "{bad:?}");
        let each = AuditNotes::Each(vec![Some(good.clone()), Some(bad.clone())]);
        assert!(w.store.audited(each).is_err(), "{bad:?}");
    }
}
