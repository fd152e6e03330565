//! Runs and their events.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::StoreResult;
use everruns_durable::persistence::model::{Owner, RunRecord, UpdateState, WorkflowStatus};
use everruns_durable::persistence::sql::rows::{
    Changes, EventRow, Load, PurgeRecord, RunHead, RunUpdate, Slice, SliceLimit,
};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use uuid::Uuid;

use super::{at, two_runs};
use crate::intents::{load, write};
use crate::samples::{
    bare_run, codec_payload, failure, full_fact, full_run, full_task, head, id, letter, log,
    messages, odd_payload, outbox, signal, t, timer, update,
};

#[tokio::test]
async fn runs_come_back_as_they_were_inserted() {
    let (store, first, second) = two_runs(4).await;
    assert_eq!(store.get_run(first).await.unwrap(), Some(full_run(first)));
    assert_eq!(store.get_run(second).await.unwrap(), Some(bare_run(second)));
    assert_eq!(store.get_run(id(77)).await.unwrap(), None);
    let loaded = load(
        &store,
        Load {
            runs: vec![second, first, id(77), first],
            ..Load::default()
        },
    )
    .await;
    let expected = BTreeMap::from([
        (first, head(&full_run(first))),
        (second, head(&bare_run(second))),
    ]);
    assert_eq!(loaded.runs, expected);
}

#[tokio::test]
async fn an_update_changes_every_column_and_keeps_what_it_does_not_name() {
    let (store, first, second) = two_runs(4).await;
    // The full run becomes bare and the bare one full, but for what never changes.
    let mut emptied = head(&bare_run(first));
    let whole = full_run(first);
    emptied.workflow_type.clone_from(&whole.workflow_type);
    emptied.business_id.clone_from(&whole.business_id);
    emptied.idempotency_key.clone_from(&whole.idempotency_key);
    emptied.fingerprint = whole.fingerprint;
    emptied.parent.clone_from(&whole.parent);
    emptied.run_timeout_ms = Some(50_001);
    let mut filled = head(&full_run(second));
    let bare = bare_run(second);
    filled.business_id.clone_from(&bare.business_id);
    filled.idempotency_key.clone_from(&bare.idempotency_key);
    filled.fingerprint = bare.fingerprint;
    filled.parent.clone_from(&bare.parent);
    filled.run_timeout_ms = None;
    filled.task_count = 3;
    filled.line_count = 2;
    let updates = vec![
        RunUpdate {
            head: emptied.clone(),
            input: None,
            outcome: None,
        },
        RunUpdate {
            head: filled.clone(),
            input: Some(codec_payload()),
            outcome: Some((odd_payload(), Some(failure()))),
        },
    ];
    write(
        &store,
        Changes {
            update_runs: updates,
            ..at(1)
        },
    )
    .await;

    let loaded = load(
        &store,
        Load {
            runs: vec![first, second],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(loaded.runs[&first], emptied);
    assert_eq!(loaded.runs[&second], filled);
    let kept = store.get_run(first).await.unwrap().unwrap();
    assert_eq!(
        (kept.input, kept.result, kept.error),
        (whole.input, whole.result, whole.error)
    );
    let new = store.get_run(second).await.unwrap().unwrap();
    assert_eq!(
        (new.input, new.result, new.error),
        (codec_payload(), odd_payload(), Some(failure()))
    );

    let cleared = RunUpdate {
        head: filled,
        input: Some(Payload::ABSENT),
        outcome: Some((Payload::ABSENT, None)),
    };
    write(
        &store,
        Changes {
            update_runs: vec![cleared],
            ..at(2)
        },
    )
    .await;
    let run = store.get_run(second).await.unwrap().unwrap();
    assert_eq!(
        (run.input, run.result, run.error),
        (Payload::ABSENT, Payload::ABSENT, None)
    );
}

#[tokio::test]
async fn a_run_that_goes_on_moves_its_counters_and_nothing_else() {
    let (store, first, second) = two_runs(4).await;
    let advanced = |run: &RunRecord| RunHead {
        sequence: 70,
        arrivals: 71,
        consumed: 72,
        last_turn: Some(id(73)),
        owner: run.owner.clone().map(|owner| Owner {
            expires_at: t(74),
            ..owner
        }),
        updated_at: t(75),
        task_count: 76,
        line_count: 77,
        ..head(run)
    };
    let runs = [advanced(&full_run(first)), advanced(&bare_run(second))];
    write(
        &store,
        Changes {
            advance_runs: runs.to_vec(),
            ..at(1)
        },
    )
    .await;
    let wanted = Load {
        runs: vec![first, second],
        ..Load::default()
    };
    let loaded = load(&store, wanted).await;
    assert!(loaded.runs.into_values().eq(runs));
}

#[tokio::test]
async fn a_large_set_of_events_comes_back_as_it_was_sent() {
    let (store, first, second) = two_runs(4).await;
    let payloads = [
        odd_payload(),
        Payload::ABSENT,
        codec_payload(),
        Payload::null(),
    ];
    let event = |n: usize| WorkflowEvent::ActivityCompleted {
        activity_id: format!("größe {n}"),
        result: payloads[n % payloads.len()].clone(),
    };
    let rows = (0..200).map(|n| EventRow {
        run_id: [first, second][n % 2],
        sequence_num: 1 + i64::try_from(n / 2).unwrap(),
        event: event(n).encode(),
    });
    write(
        &store,
        Changes {
            insert_events: rows.collect(),
            ..at(5)
        },
    )
    .await;
    for (place, run_id) in [first, second].into_iter().enumerate() {
        let history = store.load_history(run_id, 0).await.unwrap().unwrap();
        assert!(history.events.iter().all(|e| e.created_at == t(5)));
        let found = history
            .events
            .into_iter()
            .map(|e| (e.sequence_num, e.event));
        let sent = (1..=100).zip((place..200).step_by(2).map(event));
        assert!(found.eq(sent), "{place}");
    }
}

#[tokio::test]
async fn events_come_back_in_order_with_their_payloads() {
    let (store, first, _) = two_runs(1).await;
    let events = [
        WorkflowEvent::WorkflowStarted {
            input: odd_payload(),
        },
        WorkflowEvent::TimerFired {
            timer_id: "t\u{0}".into(),
        },
        WorkflowEvent::ActivityCompleted {
            activity_id: "a".into(),
            result: Payload::ABSENT,
        },
        WorkflowEvent::WorkflowCompleted {
            result: codec_payload(),
        },
    ];
    let rows = (1..).zip(&events).map(|(sequence_num, event)| EventRow {
        run_id: first,
        sequence_num,
        event: event.encode(),
    });
    write(
        &store,
        Changes {
            insert_events: rows.collect(),
            ..at(5)
        },
    )
    .await;
    let history = store.load_history(first, 1).await.unwrap().unwrap();
    assert_eq!(history.run, full_run(first));
    let found: Vec<_> = history
        .events
        .iter()
        .map(|e| (e.sequence_num, &e.event))
        .collect();
    assert_eq!(found, [(2, &events[1]), (3, &events[2]), (4, &events[3])]);
    assert!(history.events.iter().all(|e| e.created_at == t(5)));
    assert!(store.load_history(id(77), 0).await.unwrap().is_none());
}

fn deleted(run_id: Uuid) -> PurgeRecord {
    PurgeRecord {
        run_id,
        idempotency_key: None,
        business_id: None,
        failures: 0,
        events_through: 0,
    }
}

/// Deletes a slice of what belongs to a run.
struct Belongings(Uuid);

impl Intent for Belongings {
    type Answer = Slice;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Slice, Changes)> {
        let shard = tx.shards().of_run(self.0);
        let limit = SliceLimit {
            rows: 1,
            bytes: 1 << 20,
        };
        let purge = deleted(self.0);
        let (slice, _) = tx.delete_belongings(shard, &[purge], limit).await?;
        Ok((slice, Changes::default()))
    }
}

#[tokio::test]
async fn a_purged_run_leaves_nothing_and_its_neighbour_everything() {
    let (store, first, second) = two_runs(4).await;
    let filled = |run_id| Changes {
        insert_events: vec![EventRow {
            run_id,
            sequence_num: 1,
            event: WorkflowEvent::WorkflowStarted {
                input: Payload::null(),
            }
            .encode(),
        }],
        insert_timers: vec![timer(run_id, "t", t(1))],
        insert_tasks: vec![full_task(run_id, 10)],
        insert_facts: vec![(run_id, full_fact(1))],
        put_signals: vec![signal(run_id, 20, 1)],
        insert_updates: vec![update(run_id, "u", UpdateState::Pending)],
        attributes: vec![(run_id, "a".into(), Some(AttributeValue::Int(1)))],
        // A run with messages on their way is not deleted.
        insert_messages: if run_id == second {
            messages(run_id)
        } else {
            Vec::new()
        },
        put_letters: vec![letter(run_id, 30)],
        insert_outbox: vec![outbox(run_id, 40, t(1))],
        insert_logs: vec![log(run_id, 50)],
        ..at(1)
    };
    write(&store, filled(first)).await;
    write(&store, filled(second)).await;
    let before = store.dump().await.unwrap();
    write(
        &store,
        Changes {
            delete_runs: vec![first],
            insert_purges: vec![deleted(first)],
            ..at(2)
        },
    )
    .await;
    // One row of each kind at a time: it says that there may be more.
    let slice = store
        .write(Concern::Registry, Belongings(first))
        .await
        .unwrap();
    assert_eq!((slice.rows, slice.more), (10, true), "a row of each kind");
    let slice = store
        .write(Concern::Registry, Belongings(first))
        .await
        .unwrap();
    assert_eq!((slice.rows, slice.more), (0, false));
    let after = store.dump().await.unwrap();
    assert_eq!(
        after.runs,
        before
            .runs
            .into_iter()
            .filter(|r| r.run.id == second)
            .collect::<Vec<_>>()
    );
    assert_eq!(after.dead_letters, [letter(second, 30)]);
    assert!(after.runs[0].run.status == WorkflowStatus::Pending && !after.runs[0].facts.is_empty());
    // Nothing is left under the id either: the same things can be written again.
    let again = Changes {
        insert_runs: vec![full_run(first).into()],
        ..filled(first)
    };
    write(&store, again).await;
    assert_eq!(store.dump().await.unwrap().runs.len(), 2);
}
