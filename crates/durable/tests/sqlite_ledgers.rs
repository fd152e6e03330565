//! What is written is what is read: what is kept beside the runs, every option and every odd payload of it.
#![cfg(feature = "sqlite")]

mod sqlite_fixture;

use std::collections::BTreeMap;

use everruns_durable::core::{AttributeValue, Payload};
use everruns_durable::persistence::Shards;
use everruns_durable::persistence::model::{
    DeadLetterState, KeyKind, KeyRecord, Message, MessageRecord, NewSignal, RollupKind,
    RollupOutcome, RollupRecord, StepLogFilter, StoredStart, UpdateState, WorkflowStatus,
};
use everruns_durable::persistence::sql::rows::{Changes, Load, UpdateAnswerRow};
use everruns_durable::persistence::sql::tx::Database;
use everruns_durable::persistence::sqlite::SqliteOptions;
use sqlite_fixture::records::{
    bare_letter, bare_outbox, bare_run, bare_schedule, failure, full_letter, full_outbox,
    full_schedule, json, log, micros, trace, update,
};
use sqlite_fixture::{at, folder, get, open, put, put_schedule, reopen};
use uuid::Uuid;

const RUN: Uuid = Uuid::from_u128(1);

fn changes() -> Changes {
    Changes {
        now: at(10),
        ..Changes::default()
    }
}

#[tokio::test]
async fn updates_are_answered_once() {
    let folder = folder();
    let db = open(&folder);
    let states = [
        UpdateState::Pending,
        UpdateState::Completed(Payload::ABSENT),
        UpdateState::Completed(json("1e400")),
        UpdateState::Failed(failure()),
        UpdateState::Pending,
    ];
    let updates: Vec<_> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .zip(states)
        .map(|(id, state)| update(1, id, state))
        .collect();
    put(
        &db,
        Changes {
            insert_updates: updates.clone(),
            ..changes()
        },
    )
    .await;
    for update in &updates {
        let found = db.get_update(RUN, update.update_id.clone()).await.unwrap();
        assert_eq!(found.as_ref(), Some(update));
    }
    let answer = |id: &str| UpdateAnswerRow {
        run_id: RUN,
        update_id: id.into(),
        state: UpdateState::Completed(json("7")),
    };
    put(
        &db,
        Changes {
            answer_updates: vec![answer("a"), answer("b")],
            fail_open_updates: vec![(RUN, failure())],
            ..changes()
        },
    )
    .await;
    let load = Load {
        updates: updates.iter().map(|u| (RUN, u.update_id.clone())).collect(),
        ..Load::default()
    };
    let found: Vec<_> = get(&db, load).await.updates.into_values().collect();
    assert_eq!(found[0].state, UpdateState::Completed(json("7")));
    assert_eq!(found[0].completed_at, Some(at(10)));
    assert_eq!(found[1..4], updates[1..4]);
    assert_eq!(found[4].state, UpdateState::Failed(failure()));
    assert_eq!(found[4].completed_at, Some(at(10)));
}

#[tokio::test]
async fn attributes_keep_their_types() {
    let folder = folder();
    let db = open(&folder);
    let values = [
        ("a", AttributeValue::Text("1".into())),
        ("b", AttributeValue::Int(i64::MIN)),
        ("c", AttributeValue::Double(1.0)),
        ("d", AttributeValue::Double(0.1)),
        ("e", AttributeValue::Bool(true)),
        ("f", AttributeValue::Time(micros(1))),
        ("g", AttributeValue::Text(String::new())),
    ];
    let set = |name: &str, value: Option<AttributeValue>| (RUN, name.to_owned(), value);
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            attributes: values
                .iter()
                .map(|(name, value)| set(name, Some(value.clone())))
                .collect(),
            ..changes()
        },
    )
    .await;
    let expected: BTreeMap<_, _> = values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    assert_eq!(db.get_attributes(RUN).await.unwrap(), expected);
    put(
        &db,
        Changes {
            attributes: vec![set("a", None), set("b", Some(AttributeValue::Bool(false)))],
            ..changes()
        },
    )
    .await;
    let left = db.get_attributes(RUN).await.unwrap();
    assert_eq!(left.get("a"), None);
    assert_eq!(left["b"], AttributeValue::Bool(false));
}

fn messages() -> Vec<MessageRecord> {
    let start = |input: Payload, memo: Payload| Message::StartChild {
        start: StoredStart {
            run_id: Uuid::from_u128(9),
            workflow_type: "child".into(),
            version: String::new(),
            input,
            business_id: Some("b".into()),
            reuse_policy: Default::default(),
            attributes: BTreeMap::from([("d".into(), AttributeValue::Double(0.5))]),
            memo,
            execution_timeout_ms: Some(u64::MAX),
            run_timeout_ms: None,
            trace: Some(trace()),
            sealed_fingerprint: Some(i64::MIN),
        },
        close_policy: Default::default(),
        child_id: "c".into(),
        epoch: 1,
        iteration: 2,
    };
    let encoded = || Payload::from_codec(vec![0, 1, 255]).unwrap();
    let finished = |result: Payload| Message::ChildFinished {
        parent: RUN,
        child_id: "c".into(),
        epoch: 1,
        iteration: 2,
        status: WorkflowStatus::Failed,
        result,
        error: Some(failure()),
    };
    let signal = |payload: Payload| Message::Signal {
        run_id: RUN,
        signal: NewSignal {
            signal_id: Uuid::from_u128(4),
            signal_type: "s".into(),
            payload,
        },
    };
    let all = [
        start(json("null"), encoded()),
        start(Payload::ABSENT, Payload::ABSENT),
        finished(Payload::ABSENT),
        finished(encoded()),
        signal(Payload::ABSENT),
        signal(json("[ 1 ]")),
        Message::CloseChildren,
    ];
    (0..)
        .zip(all)
        .map(|(idx, message)| MessageRecord {
            sender: RUN,
            sequence_num: 3,
            idx,
            message,
        })
        .collect()
}

#[tokio::test]
async fn messages_keep_their_payloads_and_leave_when_delivered() {
    let folder = folder();
    let db = open(&folder);
    let sent = messages();
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            insert_messages: sent.clone(),
            ..changes()
        },
    )
    .await;
    assert_eq!(db.dump().await.unwrap().runs[0].messages, sent);
    put(
        &db,
        Changes {
            delete_messages: vec![(RUN, 3, 0)],
            ..changes()
        },
    )
    .await;
    assert_eq!(db.dump().await.unwrap().runs[0].messages, sent[1..]);
    assert_eq!(db.counts().await.unwrap().messages, 6);
}

#[tokio::test]
async fn keys_move_and_only_their_run_deletes_them() {
    let folder = folder();
    let db = reopen(
        &folder,
        SqliteOptions {
            shards: Shards::new(4),
            ..SqliteOptions::default()
        },
    );
    let key = |kind, run: u128| KeyRecord {
        kind,
        key: "k".into(),
        run_id: Uuid::from_u128(run),
        created_at: micros(1),
    };
    let load = Load {
        keys: KeyKind::ALL.map(|kind| (kind, "k".to_owned())).into(),
        ..Load::default()
    };
    put(
        &db,
        Changes {
            put_keys: vec![key(KeyKind::Business, 1), key(KeyKind::Tombstone, 2)],
            ..changes()
        },
    )
    .await;
    put(
        &db,
        Changes {
            put_keys: vec![key(KeyKind::Business, 3)],
            delete_keys: vec![
                (KeyKind::Business, "k".into(), RUN),
                (KeyKind::Tombstone, "k".into(), Uuid::from_u128(2)),
            ],
            ..changes()
        },
    )
    .await;
    let found: Vec<_> = get(&db, load).await.keys.into_values().collect();
    assert_eq!(found, [key(KeyKind::Business, 3)]);
}

#[tokio::test]
async fn letters_remember_when_they_were_put_back() {
    let folder = folder();
    let db = open(&folder);
    let letters = [bare_letter(1, 1), full_letter(1, 2)];
    put(
        &db,
        Changes {
            put_letters: letters.to_vec(),
            ..changes()
        },
    )
    .await;
    let load = Load {
        letters: letters.iter().map(|l| (RUN, l.id)).collect(),
        ..Load::default()
    };
    let found: Vec<_> = get(&db, load.clone()).await.letters.into_values().collect();
    assert_eq!(found, letters);
    put(
        &db,
        Changes {
            put_letters: vec![full_letter(1, 1), bare_letter(1, 2)],
            ..changes()
        },
    )
    .await;
    let mut overwritten = bare_letter(1, 2);
    overwritten.requeued_at = letters[1].requeued_at;
    let found: Vec<_> = get(&db, load).await.letters.into_values().collect();
    assert_eq!(found, [full_letter(1, 1), overwritten]);
    assert_eq!(found[1].state, DeadLetterState::Dead);
}

#[tokio::test]
async fn outbox_events_and_log_lines_pass_over_ids_that_exist() {
    let folder = folder();
    let db = open(&folder);
    let events = [bare_outbox(1, 1), full_outbox(1, 2)];
    let logs = [log(1, 1, Payload::ABSENT), log(1, 2, json("{}"))];
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            insert_outbox: [events.to_vec(), vec![full_outbox(1, 1)]].concat(),
            insert_logs: [logs.to_vec(), vec![log(1, 1, json("1"))]].concat(),
            ..changes()
        },
    )
    .await;
    let load = Load {
        outbox: events.iter().map(|e| (RUN, e.id)).collect(),
        ..Load::default()
    };
    let found: Vec<_> = get(&db, load.clone()).await.outbox.into_values().collect();
    assert_eq!(found, events);
    let page = Default::default();
    assert_eq!(
        db.list_step_logs(StepLogFilter::of_run(RUN), page)
            .await
            .unwrap()
            .lines,
        logs
    );

    let mut changed = full_outbox(1, 1);
    changed.payload = Payload::ABSENT;
    changed.idempotency_key = None;
    changed.created_at = events[0].created_at;
    put(
        &db,
        Changes {
            update_outbox: vec![changed.clone()],
            ..changes()
        },
    )
    .await;
    let found = get(&db, load).await.outbox;
    assert_eq!(found[&(RUN, changed.id)], changed);
}

#[tokio::test]
async fn schedules_keep_their_past_unless_they_fire() {
    let folder = folder();
    let db = open(&folder);
    put_schedule(&db, full_schedule("a")).await;
    put_schedule(&db, bare_schedule("b")).await;
    let load = Load {
        schedules: vec!["a".into(), "b".into(), "c".into()],
        ..Load::default()
    };
    let found: Vec<_> = get(&db, load.clone())
        .await
        .schedules
        .into_values()
        .collect();
    assert_eq!(found, [full_schedule("a"), bare_schedule("b")]);

    put_schedule(&db, bare_schedule("a")).await;
    let mut replaced = bare_schedule("a");
    replaced.last_fire_at = full_schedule("a").last_fire_at;
    replaced.last_run = full_schedule("a").last_run;
    let found = db.get_schedule("a".into()).await.unwrap().unwrap();
    assert_eq!(found, replaced);

    let mut fired = full_schedule("b");
    fired.paused = false;
    put(
        &db,
        Changes {
            put_schedules: vec![fired.clone()],
            ..changes()
        },
    )
    .await;
    assert_eq!(get(&db, load).await.schedules["b"], fired);
}

#[tokio::test]
async fn totals_add_up() {
    let folder = folder();
    let db = open(&folder);
    let total = |outcome, count| RollupRecord {
        hour: at(0),
        kind: RollupKind::Activity,
        name: "charge".into(),
        outcome,
        duration_exp: 3,
        count,
        total_ms: count * 5,
        wait_ms: count * 3,
    };
    for _ in 0..2 {
        put(
            &db,
            Changes {
                add_rollups: vec![
                    total(RollupOutcome::Cancelled, 1),
                    total(RollupOutcome::Completed, 2),
                ],
                ..changes()
            },
        )
        .await;
    }
    let expected = [
        total(RollupOutcome::Completed, 4),
        total(RollupOutcome::Cancelled, 2),
    ];
    assert_eq!(db.rollups(at(0)).await.unwrap(), expected);
    assert_eq!(db.rollups(at(1)).await.unwrap(), []);
}
