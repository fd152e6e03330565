//! What is put is what is loaded: every field of every change.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Payload, WorkflowEvent};
use everruns_durable::persistence::Shards;
use everruns_durable::persistence::model::{
    KeyKind, KeyRecord, RollupKind, RollupOutcome, RollupRecord, TaskStatus, UpdateState,
    WorkflowStatus,
};
use everruns_durable::persistence::sql::rows::{
    Changes, EventRow, Load, RunUpdate, UpdateAnswerRow,
};
use everruns_durable::persistence::sql::tx::Database;
use uuid::Uuid;

use crate::intents::{load, write};
use crate::samples::{
    bare_run, bare_task, codec_payload, failure, full_fact, full_run, full_task, head, id, letter,
    log, messages, odd_payload, outbox, schedule, signal, signal_fact, t, timer, update,
};
use crate::server::open;

fn at(seconds: i64) -> Changes {
    Changes {
        now: t(seconds),
        ..Changes::default()
    }
}

/// A store with `shards` shards and two runs in it, which are in different shards where there are several.
async fn two_runs(
    shards: u16,
) -> (
    everruns_durable::persistence::postgres::Postgres,
    Uuid,
    Uuid,
) {
    let (store, _) = open(shards).await;
    let first = id(1);
    let place = |run_id| Shards::new(shards).of_run(run_id);
    let second = (2..)
        .map(id)
        .find(|id| shards == 1 || place(*id) != place(first))
        .unwrap();
    let changes = Changes {
        insert_runs: vec![full_run(first), bare_run(second)],
        ..at(0)
    };
    write(&store, changes).await;
    (store, first, second)
}

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
        event: event.clone().encode(),
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

#[tokio::test]
async fn tasks_come_back_one_by_one_and_by_run() {
    let (store, first, second) = two_runs(4).await;
    let tasks = [
        full_task(first, 10),
        bare_task(first, 11),
        bare_task(second, 12),
    ];
    write(
        &store,
        Changes {
            insert_tasks: tasks.to_vec(),
            ..at(1)
        },
    )
    .await;
    let wanted = Load {
        tasks: vec![(first, id(10)), (second, id(12)), (second, id(10))],
        ..Load::default()
    };
    let loaded = load(&store, wanted).await;
    let expected = BTreeMap::from([
        ((first, id(10)), tasks[0].clone()),
        ((second, id(12)), tasks[2].clone()),
    ]);
    assert_eq!(loaded.tasks, expected);
    let loaded = load(
        &store,
        Load {
            tasks_of: vec![first],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(loaded.tasks.into_values().collect::<Vec<_>>(), {
        let mut both = tasks[..2].to_vec();
        both.sort_by_key(|task| task.id);
        both
    });
}

#[tokio::test]
async fn a_task_update_changes_all_but_what_is_fixed() {
    let (store, first, _) = two_runs(1).await;
    write(
        &store,
        Changes {
            insert_tasks: vec![full_task(first, 10), bare_task(first, 11)],
            ..at(1)
        },
    )
    .await;
    let mut emptied = bare_task(first, 10);
    let mut filled = full_task(first, 11);
    for (changed, stored) in [
        (&mut emptied, full_task(first, 10)),
        (&mut filled, bare_task(first, 11)),
    ] {
        changed.input = stored.input;
        changed.options = stored.options;
        changed.line = stored.line;
        changed.epoch = stored.epoch;
        changed.scheduled_at = stored.scheduled_at;
        changed.trace = stored.trace;
    }
    let updates = vec![filled.clone(), emptied.clone()];
    write(
        &store,
        Changes {
            update_tasks: updates,
            ..at(2)
        },
    )
    .await;
    let loaded = load(
        &store,
        Load {
            tasks_of: vec![first],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(loaded.tasks[&(first, id(10))], emptied);
    assert_eq!(loaded.tasks[&(first, id(11))], filled);
}

#[tokio::test]
async fn tasks_leave_one_by_one_and_by_run_and_may_come_back_in_the_same_commit() {
    let (store, first, second) = two_runs(4).await;
    let tasks = vec![
        bare_task(first, 10),
        bare_task(first, 11),
        bare_task(second, 12),
    ];
    write(
        &store,
        Changes {
            insert_tasks: tasks,
            ..at(1)
        },
    )
    .await;
    let again = Changes {
        delete_tasks: vec![(first, id(10)), (second, id(10))],
        delete_tasks_of: vec![second],
        insert_tasks: vec![full_task(second, 12)],
        ..at(2)
    };
    write(&store, again).await;
    let loaded = load(
        &store,
        Load {
            tasks_of: vec![first, second],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(
        loaded.tasks.keys().collect::<Vec<_>>(),
        [&(first, id(11)), &(second, id(12))]
    );
    assert_eq!(loaded.tasks[&(second, id(12))], full_task(second, 12));
}

#[tokio::test]
async fn a_line_moves_up_only_if_its_first_task_stands_in_it() {
    let (store, first, second) = two_runs(4).await;
    let task = |run_id, n, line, status, sequential| {
        let mut task = bare_task(run_id, n);
        task.line = line;
        task.status = status;
        task.options.sequential = sequential;
        task
    };
    let mut later = task(id(3), 30, 1, TaskStatus::InLine, true);
    later.visible_at = t(60);
    let tasks = vec![
        task(first, 10, 1, TaskStatus::Claimed, false),
        task(first, 11, 2, TaskStatus::InLine, true),
        task(first, 12, 3, TaskStatus::InLine, true),
        task(second, 20, 1, TaskStatus::Claimed, true),
        task(second, 21, 2, TaskStatus::InLine, true),
        later,
    ];
    write(
        &store,
        Changes {
            insert_tasks: tasks,
            ..at(1)
        },
    )
    .await;
    let runs = vec![first, second, id(3)];
    write(
        &store,
        Changes {
            release_lines: runs.clone(),
            ..at(7)
        },
    )
    .await;
    let loaded = load(
        &store,
        Load {
            tasks_of: runs,
            ..Load::default()
        },
    )
    .await
    .tasks;
    let status = |run_id, n| {
        let task = &loaded[&(run_id, id(n))];
        (task.status, task.visible_at)
    };
    assert_eq!(status(first, 11), (TaskStatus::Pending, t(7)));
    assert_eq!(status(first, 12), (TaskStatus::InLine, t(0)));
    assert_eq!(status(second, 21), (TaskStatus::InLine, t(0)));
    assert_eq!(status(id(3), 30), (TaskStatus::Delayed, t(60)));
}

#[tokio::test]
async fn timers_are_set_read_and_forgotten() {
    let (store, first, second) = two_runs(4).await;
    let timers = vec![
        timer(first, "a", t(9)),
        timer(first, "b'", t(8)),
        timer(second, "a", t(7)),
    ];
    write(
        &store,
        Changes {
            insert_timers: timers.clone(),
            ..at(1)
        },
    )
    .await;
    let all = vec![
        (first, "a".to_owned()),
        (first, "b'".into()),
        (second, "a".into()),
        (second, "b'".into()),
    ];
    let loaded = load(
        &store,
        Load {
            timers: all.clone(),
            ..Load::default()
        },
    )
    .await;
    let mut found: Vec<_> = loaded.timers.into_values().collect();
    found.sort_by_key(|timer| std::cmp::Reverse(timer.fire_at));
    assert_eq!(found, timers);
    let gone = Changes {
        delete_timers: vec![(first, "b'".into())],
        delete_timers_of: vec![second],
        ..at(2)
    };
    write(&store, gone).await;
    let loaded = load(
        &store,
        Load {
            timers: all,
            ..Load::default()
        },
    )
    .await;
    assert_eq!(
        loaded.timers.into_keys().collect::<Vec<_>>(),
        [(first, "a".into())]
    );
}

#[tokio::test]
async fn facts_are_taken_by_arrival_and_their_signals_marked() {
    let (store, first, second) = two_runs(4).await;
    let arrived = Changes {
        insert_facts: vec![
            (first, full_fact(1)),
            (first, signal_fact(2)),
            (first, signal_fact(3)),
            (second, signal_fact(1)),
        ],
        put_signals: vec![
            signal(first, 21, 2),
            signal(first, 22, 3),
            signal(second, 21, 1),
        ],
        ..at(1)
    };
    write(&store, arrived).await;
    let wanted = Load {
        facts_of: vec![first, second],
        signals: vec![
            (first, id(21)),
            (first, id(22)),
            (second, id(21)),
            (second, id(22)),
        ],
        ..Load::default()
    };
    let loaded = load(&store, wanted.clone()).await;
    assert_eq!(loaded.facts[&(first, 1)], full_fact(1));
    assert_eq!(loaded.facts.len(), 4);
    assert_eq!(loaded.signals.len(), 3);
    assert_eq!(loaded.signals[&(first, id(22))], signal(first, 22, 3));

    write(
        &store,
        Changes {
            consume_facts: vec![(first, 2)],
            ..at(6)
        },
    )
    .await;
    let loaded = load(&store, wanted.clone()).await;
    assert_eq!(loaded.facts.into_keys().collect::<Vec<_>>().len(), 2);
    assert_eq!(loaded.signals[&(first, id(21))].processed_at, Some(t(6)));
    assert_eq!(loaded.signals[&(first, id(22))].processed_at, None);
    assert_eq!(loaded.signals[&(second, id(21))].processed_at, None);

    let carried = signal(first, 21, 9);
    write(
        &store,
        Changes {
            put_signals: vec![signal(first, 21, 8), carried.clone()],
            ..at(7)
        },
    )
    .await;
    assert_eq!(
        load(&store, wanted).await.signals[&(first, id(21))],
        carried
    );
}

#[tokio::test]
async fn a_reset_drops_ends_of_activities_and_timers_and_keeps_the_rest() {
    let (store, first, second) = two_runs(1).await;
    let fired = |arrival| everruns_durable::persistence::model::Fact {
        event: WorkflowEvent::TimerFired {
            timer_id: "t".into(),
        },
        ..signal_fact(arrival)
    };
    let facts = vec![
        (first, full_fact(1)),
        (first, signal_fact(2)),
        (first, fired(3)),
        (second, full_fact(1)),
    ];
    write(
        &store,
        Changes {
            insert_facts: facts,
            ..at(1)
        },
    )
    .await;
    write(
        &store,
        Changes {
            drop_stale_facts: vec![first],
            ..at(2)
        },
    )
    .await;
    let loaded = load(
        &store,
        Load {
            facts_of: vec![first, second],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(loaded.facts.into_keys().collect::<Vec<_>>(), {
        let mut left = vec![(first, 2), (second, 1)];
        left.sort_unstable();
        left
    });
}

#[tokio::test]
async fn updates_are_answered_once_and_fail_when_the_run_ends() {
    let (store, first, _) = two_runs(1).await;
    let updates = vec![
        update(first, "open", UpdateState::Pending),
        update(first, "asked", UpdateState::Pending),
        update(first, "done", UpdateState::Completed(odd_payload())),
        update(first, "empty", UpdateState::Completed(Payload::ABSENT)),
        update(first, "failed", UpdateState::Failed(failure())),
    ];
    write(
        &store,
        Changes {
            insert_updates: updates.clone(),
            ..at(1)
        },
    )
    .await;
    let keys: Vec<_> = updates
        .iter()
        .map(|u| (first, u.update_id.clone()))
        .collect();
    let loaded = load(
        &store,
        Load {
            updates: keys,
            ..Load::default()
        },
    )
    .await;
    for update in &updates {
        assert_eq!(&loaded.updates[&(first, update.update_id.clone())], update);
    }
    let answer = |update_id: &str| UpdateAnswerRow {
        run_id: first,
        update_id: update_id.into(),
        state: UpdateState::Completed(codec_payload()),
    };
    let answers = Changes {
        answer_updates: vec![answer("asked"), answer("failed")],
        fail_open_updates: vec![(first, failure())],
        ..at(3)
    };
    write(&store, answers).await;
    let state = async |update_id: &str| {
        let update = store
            .get_update(first, update_id.into())
            .await
            .unwrap()
            .unwrap();
        (update.state, update.completed_at)
    };
    assert_eq!(
        state("asked").await,
        (UpdateState::Completed(codec_payload()), Some(t(3)))
    );
    assert_eq!(
        state("failed").await,
        (UpdateState::Failed(failure()), Some(t(2)))
    );
    assert_eq!(
        state("open").await,
        (UpdateState::Failed(failure()), Some(t(3)))
    );
    assert_eq!(
        state("done").await,
        (UpdateState::Completed(odd_payload()), Some(t(2)))
    );
}

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
async fn messages_of_every_kind_keep_their_payloads_to_the_byte() {
    let (store, first, _) = two_runs(1).await;
    write(
        &store,
        Changes {
            insert_messages: messages(first),
            ..at(1)
        },
    )
    .await;
    let dump = store.dump().await.unwrap();
    let run = dump.runs.iter().find(|r| r.run.id == first).unwrap();
    assert_eq!(run.messages, messages(first));
    let delivered = vec![(first, 5, 0), (first, 5, 2), (first, 6, 1)];
    write(
        &store,
        Changes {
            delete_messages: delivered,
            ..at(2)
        },
    )
    .await;
    let dump = store.dump().await.unwrap();
    let run = dump.runs.iter().find(|r| r.run.id == first).unwrap();
    assert_eq!(
        run.messages,
        [messages(first)[1].clone(), messages(first)[3].clone()]
    );
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
    let page = everruns_durable::persistence::model::Page::default();
    let mut logs = wrote.insert_logs.clone();
    logs.sort_by_key(|log| log.id);
    assert_eq!(store.list_step_logs(first, page).await.unwrap(), logs);

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
    store.put_schedule(schedule("a", true)).await.unwrap();
    store.put_schedule(schedule("b", false)).await.unwrap();
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
    store.put_schedule(replaced).await.unwrap();
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
        insert_messages: messages(run_id),
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
            purge_runs: vec![first],
            ..at(2)
        },
    )
    .await;
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
        insert_runs: vec![full_run(first)],
        ..filled(first)
    };
    write(&store, again).await;
    assert_eq!(store.dump().await.unwrap().runs.len(), 2);
}
