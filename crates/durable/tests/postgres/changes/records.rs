//! Attributes, keys, letters, outbox, logs, schedules, totals.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Payload};
use everruns_durable::persistence::model::{
    KeyKind, KeyRecord, Page, RollupKind, RollupOutcome, RollupRecord, StepLogFilter,
};
use everruns_durable::persistence::sql::rows::{Changes, Load, RegistryWrite, RunUpdate};
use everruns_durable::persistence::sql::tx::Database;
use uuid::Uuid;

use super::{at, two_runs};
use crate::intents::{load, write, write_registry};
use crate::samples::{full_run, head, id, letter, log, outbox, schedule, t};
use crate::server::open;

#[tokio::test]
async fn attributes_of_every_type_are_set_changed_and_removed() {
    let (store, first, _) = two_runs(1).await;
    let value = |name: &str, value| (first, name.to_owned(), Some(value));
    let set = vec![
        value("text", AttributeValue::Text("x'\n".into())),
        value("int", AttributeValue::Int(i64::MIN)),
        value("double", AttributeValue::Double(-0.1)),
        value("bool", AttributeValue::Bool(false)),
        value("time", AttributeValue::Time(t(3))),
        value("gone", AttributeValue::Bool(true)),
    ];
    write(
        &store,
        Changes {
            attributes: set.clone(),
            ..at(1)
        },
    )
    .await;
    let expected: BTreeMap<_, _> = set
        .into_iter()
        .map(|(_, name, value)| (name, value.unwrap()))
        .collect();
    assert_eq!(store.get_attributes(first).await.unwrap(), expected);
    let changed = vec![
        value("int", AttributeValue::Text("1".into())),
        (first, "gone".into(), None),
        (first, "text".into(), None),
        value("text", AttributeValue::Int(1)),
        (first, "never".into(), None),
    ];
    write(
        &store,
        Changes {
            attributes: changed,
            ..at(2)
        },
    )
    .await;
    let found = store.get_attributes(first).await.unwrap();
    assert_eq!(found["int"], AttributeValue::Text("1".into()));
    assert_eq!(
        found["text"],
        AttributeValue::Int(1),
        "the last change of a call counts"
    );
    assert_eq!(found.len(), 5);
}

#[tokio::test]
async fn keys_are_reserved_written_moved_and_deleted_only_by_their_run() {
    let (store, _) = open(4).await;
    let record = |kind, run_id| KeyRecord {
        kind,
        key: "k".into(),
        run_id,
        created_at: t(1),
    };
    let names: Vec<_> = KeyKind::ALL
        .into_iter()
        .map(|kind| (kind, "k".to_owned()))
        .collect();
    let all = Load {
        keys: names,
        ..Load::default()
    };
    assert!(load(&store, all.clone()).await.keys.is_empty());
    assert!(
        store.dump().await.unwrap().keys.is_empty(),
        "a reservation leaves nothing behind"
    );

    let put = vec![
        record(KeyKind::Idempotency, id(1)),
        record(KeyKind::Business, id(1)),
        record(KeyKind::Business, id(2)),
        record(KeyKind::CronSlot, Uuid::nil()),
        record(KeyKind::Tombstone, id(3)),
    ];
    write(
        &store,
        Changes {
            put_keys: put,
            ..at(1)
        },
    )
    .await;
    let loaded = load(&store, all.clone()).await.keys;
    assert_eq!(loaded.len(), 4);
    assert_eq!(
        loaded[&(KeyKind::Business, "k".into())],
        record(KeyKind::Business, id(2))
    );
    assert_eq!(loaded[&(KeyKind::CronSlot, "k".into())].run_id, Uuid::nil());

    let delete = vec![
        (KeyKind::Idempotency, "k".to_owned(), id(9)),
        (KeyKind::Business, "k".to_owned(), id(2)),
    ];
    write(
        &store,
        Changes {
            delete_keys: delete,
            ..at(2)
        },
    )
    .await;
    let left = load(&store, all).await.keys;
    assert_eq!(left.len(), 3);
    assert!(!left.contains_key(&(KeyKind::Business, "k".into())));
}

#[tokio::test]
async fn letters_outbox_and_logs_come_back_and_repeats_are_passed_over() {
    let (store, first, _) = two_runs(1).await;
    let wrote = Changes {
        put_letters: vec![letter(first, 10)],
        insert_outbox: vec![outbox(first, 20, t(1)), outbox(first, 21, t(2))],
        insert_logs: vec![log(first, 30), log(first, 31)],
        ..at(1)
    };
    write(&store, wrote.clone()).await;
    let wanted = Load {
        letters: vec![(first, id(10)), (first, id(11))],
        outbox: vec![(first, id(20)), (first, id(21)), (first, id(22))],
        ..Load::default()
    };
    let loaded = load(&store, wanted.clone()).await;
    assert_eq!(
        loaded.letters.into_values().collect::<Vec<_>>(),
        wrote.put_letters
    );
    assert_eq!(loaded.outbox[&(first, id(20))], outbox(first, 20, t(1)));
    assert_eq!(loaded.outbox[&(first, id(21))], outbox(first, 21, t(2)));
    let page = Page::default();
    let mut logs = wrote.insert_logs.clone();
    logs.sort_by_key(|log| log.id);
    assert_eq!(
        store
            .list_step_logs(StepLogFilter::of_run(first), page)
            .await
            .unwrap()
            .lines,
        logs
    );

    let mut requeued = letter(first, 10);
    requeued.requeued_at = Some(t(3));
    requeued.requeue_count = 1;
    let mut changed = outbox(first, 21, t(2));
    changed.attempts = 9;
    changed.last_error = Some("no".into());
    changed.token = Some(id(5));
    let again = Changes {
        put_letters: vec![requeued.clone()],
        insert_outbox: vec![outbox(first, 20, t(99))],
        update_outbox: vec![changed.clone()],
        insert_logs: vec![log(first, 30)],
        ..at(3)
    };
    write(&store, again).await;
    // A second death: when it was put back before is kept.
    write(
        &store,
        Changes {
            put_letters: vec![letter(first, 10)],
            ..at(4)
        },
    )
    .await;
    let loaded = load(&store, wanted).await;
    assert_eq!(loaded.outbox[&(first, id(20))].available_at, t(1));
    assert_eq!(loaded.outbox[&(first, id(21))], changed);
    let kept = &loaded.letters[&(first, id(10))];
    assert_eq!((kept.requeued_at, kept.requeue_count), (Some(t(3)), 0));
}

#[tokio::test]
async fn schedules_are_written_whole_by_a_tick_and_in_part_by_a_user() {
    let (store, _) = open(1).await;
    write_registry(&store, RegistryWrite::PutSchedule(schedule("a", true))).await;
    write_registry(&store, RegistryWrite::PutSchedule(schedule("b", false))).await;
    let loaded = load(
        &store,
        Load {
            schedules: vec!["b".into(), "a".into(), "c".into()],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(
        loaded.schedules.into_values().collect::<Vec<_>>(),
        [schedule("a", true), schedule("b", false)]
    );
    let mut ticked = schedule("b", true);
    ticked.created_at = t(5);
    write(
        &store,
        Changes {
            put_schedules: vec![ticked],
            ..at(1)
        },
    )
    .await;
    assert_eq!(
        store.get_schedule("b".into()).await.unwrap(),
        Some(schedule("b", true))
    );
    let mut replaced = schedule("b", false);
    replaced.created_at = t(6);
    write_registry(&store, RegistryWrite::PutSchedule(replaced)).await;
    let found = store.get_schedule("b".into()).await.unwrap().unwrap();
    let kept = schedule("b", true);
    assert_eq!(
        (found.created_at, found.last_fire_at, found.last_run),
        (kept.created_at, kept.last_fire_at, kept.last_run)
    );
    assert_eq!((found.input, found.next_fire_at), (Payload::ABSENT, None));
}

#[tokio::test]
async fn totals_add_up_within_a_commit_and_over_commits() {
    let (store, first, _) = two_runs(4).await;
    let total = |name: &str, count| RollupRecord {
        hour: t(0),
        kind: RollupKind::Activity,
        name: name.into(),
        outcome: RollupOutcome::Completed,
        duration_exp: 3,
        count,
        total_ms: count * 5,
        wait_ms: count * 3,
    };
    let add = |seconds| Changes {
        add_rollups: vec![total("b", 1), total("a", 2), total("b", 4)],
        update_runs: vec![RunUpdate {
            head: head(&full_run(first)),
            input: None,
            outcome: None,
        }],
        ..at(seconds)
    };
    write(&store, add(1)).await;
    write(&store, add(2)).await;
    let expected = [total("a", 4), total("b", 10)];
    assert_eq!(store.rollups(t(0)).await.unwrap(), expected);
    assert!(store.rollups(t(1)).await.unwrap().is_empty());
    assert_eq!(store.dump().await.unwrap().rollups, expected);
}
