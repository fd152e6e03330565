//! Reads and the small tables.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, CircuitState, Payload};
use everruns_durable::persistence::model::{
    BreakerRecord, CountLimit, DeadLetterState, DlqFilter, Page, RunFilter, TaskFilter, TaskStatus,
    WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus, WorkflowStatus,
};
use everruns_durable::persistence::sql::rows::{Changes, RegistryWrite};
use everruns_durable::persistence::sql::tx::Database;
use uuid::Uuid;

use crate::intents::{write, write_registry};
use crate::samples::{
    bare_run, bare_task, codec_payload, full_fact, full_run, full_task, id, letter, messages,
    odd_payload, outbox, schedule, t,
};
use crate::server::open;

fn page(limit: usize, offset: usize) -> Page {
    Page { limit, offset }
}

#[tokio::test]
async fn runs_are_listed_newest_first_over_all_shards_and_by_every_filter() {
    let (store, _) = open(4).await;
    let mut runs: Vec<_> = (1..=9).map(|n| bare_run(id(n))).collect();
    runs[0] = full_run(id(1));
    runs[1].status = WorkflowStatus::Completed;
    runs[2].workflow_type = "other".into();
    runs[3].created_at = t(50);
    let attributes = vec![
        (id(5), "n".to_owned(), Some(AttributeValue::Int(1))),
        (
            id(5),
            "s".to_owned(),
            Some(AttributeValue::Text("x".into())),
        ),
        (
            id(6),
            "n".to_owned(),
            Some(AttributeValue::Text("1".into())),
        ),
        (id(6), "d".to_owned(), Some(AttributeValue::Double(0.5))),
        (id(6), "b".to_owned(), Some(AttributeValue::Bool(true))),
        (id(6), "t".to_owned(), Some(AttributeValue::Time(t(1)))),
    ];
    let changes = Changes {
        now: t(0),
        insert_runs: runs.iter().cloned().map(Into::into).collect(),
        attributes,
        ..Changes::default()
    };
    write(&store, changes).await;
    let mut order: Vec<Uuid> = runs.iter().map(|run| run.id).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let list = async |filter: RunFilter, page| {
        let found = store.list_runs(filter.clone(), page).await.unwrap().runs;
        if page.offset == 0 && page.limit >= 50 && filter.before.is_none() {
            for limit in [CountLimit::Capped, CountLimit::Exact] {
                let counted = store.count_runs(filter.clone(), limit).await.unwrap();
                assert_eq!((counted.count, counted.exact), (found.len() as u64, true));
            }
        }
        found.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let all = RunFilter::default();
    assert_eq!(list(all.clone(), page(50, 0)).await, order);
    assert_eq!(list(all.clone(), page(3, 2)).await, order[2..5]);
    assert_eq!(
        list(all.clone(), page(0, 0)).await,
        order[..1],
        "the limit is at least 1"
    );
    let after = RunFilter {
        before: Some(order[4]),
        ..all.clone()
    };
    assert_eq!(list(after, page(50, 0)).await, order[5..]);
    let only = |n: u128| vec![id(n)];
    let by = |filter: RunFilter| list(filter, page(50, 0));
    let statuses = vec![WorkflowStatus::Completed, WorkflowStatus::Failed];
    assert_eq!(
        by(RunFilter {
            statuses,
            ..all.clone()
        })
        .await,
        only(2)
    );
    let workflow_type = Some("other".to_owned());
    assert_eq!(
        by(RunFilter {
            workflow_type,
            ..all.clone()
        })
        .await,
        only(3)
    );
    assert_eq!(
        by(RunFilter {
            created_from: Some(t(50)),
            ..all.clone()
        })
        .await,
        only(4)
    );
    assert_eq!(
        by(RunFilter {
            created_until: Some(t(50)),
            ..all.clone()
        })
        .await
        .len(),
        8
    );
    assert_eq!(
        by(RunFilter {
            blocked: true,
            ..all.clone()
        })
        .await,
        only(1)
    );
    assert_eq!(
        by(RunFilter {
            parent: Some(id(999)),
            ..all.clone()
        })
        .await,
        only(1)
    );
    let business_id = full_run(id(1)).business_id;
    assert_eq!(
        by(RunFilter {
            business_id,
            ..all.clone()
        })
        .await,
        only(1)
    );
    for (name, value, expected) in [
        ("n", AttributeValue::Int(1), only(5)),
        ("n", AttributeValue::Text("1".into()), only(6)),
        ("d", AttributeValue::Double(0.5), only(6)),
        ("b", AttributeValue::Bool(true), only(6)),
        ("t", AttributeValue::Time(t(1)), only(6)),
        ("n", AttributeValue::Int(2), vec![]),
    ] {
        let attributes = [(name.to_owned(), value)].into();
        assert_eq!(
            by(RunFilter {
                attributes,
                ..all.clone()
            })
            .await,
            expected,
            "{name}"
        );
    }
    let both = [
        ("n".to_owned(), AttributeValue::Int(1)),
        ("s".to_owned(), AttributeValue::Text("x".into())),
    ];
    assert_eq!(
        by(RunFilter {
            attributes: both.into(),
            ..all
        })
        .await,
        only(5)
    );
}

#[tokio::test]
async fn turns_are_loaded_in_the_order_asked_with_gaps() {
    let (store, _) = open(4).await;
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(1)).into(), full_run(id(2)).into()],
        insert_facts: vec![(id(1), full_fact(2)), (id(1), full_fact(1))],
        ..Changes::default()
    };
    write(&store, changes).await;
    let turns = store
        .load_turns(vec![id(2), id(9), id(1), id(2)])
        .await
        .unwrap();
    let ids: Vec<_> = turns
        .iter()
        .map(|turn| turn.as_ref().map(|turn| turn.run.id))
        .collect();
    assert_eq!(ids, [Some(id(2)), None, Some(id(1)), Some(id(2))]);
    assert_eq!(
        turns[2].as_ref().unwrap().facts,
        [full_fact(1), full_fact(2)]
    );
    assert!(store.load_turns(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn tasks_are_listed_in_queue_order_and_counted_by_type_and_status() {
    let (store, _) = open(4).await;
    let mut urgent = bare_task(id(2), 11);
    urgent.options.priority = 9;
    let mut early = bare_task(id(3), 12);
    early.visible_at = t(-5);
    early.activity_type = "ship".into();
    let tasks = vec![bare_task(id(1), 10), urgent, early, full_task(id(1), 13)];
    let changes = Changes {
        now: t(0),
        insert_tasks: tasks,
        ..Changes::default()
    };
    write(&store, changes).await;
    let list = async |filter| {
        let found = store.list_tasks(filter, Page::default()).await.unwrap();
        found.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(
        list(TaskFilter::default()).await,
        [id(11), id(12), id(10), id(13)]
    );
    let of_run = TaskFilter {
        run_id: Some(id(1)),
        ..TaskFilter::default()
    };
    assert_eq!(list(of_run).await, [id(10), id(13)]);
    let claimed = TaskFilter {
        status: Some(TaskStatus::Claimed),
        ..TaskFilter::default()
    };
    assert_eq!(list(claimed).await, [id(13)]);
    let ship = TaskFilter {
        activity_type: Some("ship".into()),
        ..TaskFilter::default()
    };
    assert_eq!(list(ship).await, [id(12)]);
    let counts = store.counts().await.unwrap();
    assert_eq!(counts.tasks["charge"][&TaskStatus::Pending], 2);
    assert_eq!(counts.tasks["charge"][&TaskStatus::Claimed], 1);
    assert_eq!(counts.oldest_pending_at, Some(t(-5)));
}

#[tokio::test]
async fn what_waits_is_counted() {
    let (store, _) = open(1).await;
    let mut decided = letter(id(1), 2);
    decided.state = DeadLetterState::Discarded;
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(1)).into(), full_run(id(2)).into()],
        put_letters: vec![letter(id(1), 1), decided],
        insert_messages: messages(id(1)),
        insert_outbox: vec![outbox(id(1), 1, t(0))],
        ..Changes::default()
    };
    write(&store, changes).await;
    let counts = store.counts().await.unwrap();
    assert_eq!(counts.runs[&WorkflowStatus::Pending], 1);
    assert_eq!(
        (counts.dead_letters, counts.messages, counts.outbox_pending),
        (1, 4, 1)
    );
    assert_eq!(counts.blocked_runs, 1);
    assert_eq!(counts.oldest_pending_at, None);
}

#[tokio::test]
async fn letters_are_listed_newest_first_and_purged_unless_a_run_waits() {
    let (store, _) = open(4).await;
    let mut letters: Vec<_> = (1..=4).map(|n| letter(id(n), n)).collect();
    letters[1].dead_at = t(20);
    letters[2].state = DeadLetterState::Completed;
    letters[3].activity_type = "ship".into();
    // The run waits for the first one: its task is still there.
    let changes = Changes {
        now: t(0),
        insert_tasks: vec![full_task(id(1), 1)],
        put_letters: letters,
        ..Changes::default()
    };
    write(&store, changes).await;
    let list = async |filter| {
        let found = store.list_dlq(filter, Page::default()).await.unwrap();
        found
            .into_iter()
            .map(|letter| letter.run_id)
            .collect::<Vec<_>>()
    };
    let mut same_time = [id(1), id(3), id(4)];
    same_time.sort_unstable();
    let all = DlqFilter::default();
    assert_eq!(list(all.clone()).await, [&[id(2)], &same_time[..]].concat());
    assert_eq!(
        list(DlqFilter {
            run_id: Some(id(3)),
            ..all.clone()
        })
        .await,
        [id(3)]
    );
    let completed = DlqFilter {
        state: Some(DeadLetterState::Completed),
        ..all.clone()
    };
    assert_eq!(list(completed).await, [id(3)]);
    let ship = DlqFilter {
        activity_type: Some("ship".into()),
        ..all.clone()
    };
    assert_eq!(list(ship).await, [id(4)]);
    assert_eq!(
        list(DlqFilter {
            dead_before: Some(t(20)),
            ..all.clone()
        })
        .await,
        same_time
    );
    assert_eq!(
        write_registry(&store, RegistryWrite::PurgeLetters(all.clone(), 1)).await,
        1
    );
    assert_eq!(list(all.clone()).await, same_time, "newest first");
    assert_eq!(
        write_registry(&store, RegistryWrite::PurgeLetters(all.clone(), 10)).await,
        2
    );
    assert_eq!(list(all).await, [id(1)]);
}

#[tokio::test]
async fn schedules_that_are_due_come_in_order_and_paused_ones_do_not() {
    let (store, _) = open(1).await;
    for (schedule_id, next, paused) in [
        ("b", Some(5), false),
        ("a", Some(5), false),
        ("c", Some(1), true),
        ("d", None, false),
        ("e", Some(9), false),
    ] {
        let mut record = schedule(schedule_id, true);
        record.next_fire_at = next.map(t);
        record.paused = paused;
        write_registry(&store, RegistryWrite::PutSchedule(record)).await;
    }
    let ids = |found: Vec<everruns_durable::persistence::model::ScheduleRecord>| {
        found.into_iter().map(|s| s.id).collect::<Vec<_>>()
    };
    assert_eq!(
        ids(store.due_schedules(10, Some(t(5))).await.unwrap()),
        ["a", "b"]
    );
    assert_eq!(
        ids(store.due_schedules(1, Some(t(5))).await.unwrap()),
        ["a"]
    );
    assert_eq!(
        ids(store
            .list_schedules(Default::default(), page(2, 1))
            .await
            .unwrap()),
        ["b", "c"]
    );
    let delete = || RegistryWrite::DeleteSchedule("b".into());
    assert_eq!(write_registry(&store, delete()).await, 1);
    assert_eq!(write_registry(&store, delete()).await, 0);
}

fn worker(worker_id: &str) -> WorkerInfo {
    WorkerInfo {
        id: worker_id.into(),
        worker_group: "g".into(),
        activity_types: vec!["a".into(), "b\"'".into()],
        max_concurrency: u32::MAX,
        current_load: 3,
        status: WorkerStatus::Active,
        accepting_tasks: true,
        backpressure_reason: Some("hot".into()),
        started_at: t(0),
        last_heartbeat_at: t(0),
        hostname: Some("h".into()),
        version: None,
        metadata: odd_payload(),
        tasks_completed: 1 << 40,
        tasks_failed: 2,
        avg_task_duration_ms: 0.1,
    }
}

#[tokio::test]
async fn workers_register_beat_drain_and_go() {
    let (store, _) = open(1).await;
    store
        .register_worker(worker("b"), Some(t(0)))
        .await
        .unwrap();
    store
        .register_worker(worker("a"), Some(t(5)))
        .await
        .unwrap();
    let everyone = store.list_workers(WorkerFilter::default()).await.unwrap();
    assert_eq!(everyone[1], worker("b"));
    assert_eq!(
        (everyone[0].started_at, everyone[0].last_heartbeat_at),
        (t(5), t(5))
    );
    let drain = RegistryWrite::SetWorkerStatus("b".into(), WorkerStatus::Draining);
    assert_eq!(write_registry(&store, drain).await, 1);
    let beat = |worker_id: &str| WorkerBeat {
        worker_id: worker_id.into(),
        current_load: 9,
        accepting_tasks: false,
        backpressure_reason: None,
        tasks_completed: 7,
        tasks_failed: 8,
        avg_task_duration_ms: 1.5,
    };
    let beats = vec![beat("b"), beat("x")];
    let statuses = store.worker_heartbeats(beats, Some(t(9))).await.unwrap();
    assert_eq!(
        statuses,
        BTreeMap::from([("b".to_owned(), WorkerStatus::Draining)])
    );
    let draining = WorkerFilter {
        status: Some(WorkerStatus::Draining),
        ..WorkerFilter::default()
    };
    let found = store.list_workers(draining).await.unwrap();
    assert_eq!(
        (
            found[0].current_load,
            found[0].last_heartbeat_at,
            found[0].tasks_failed
        ),
        (9, t(9), 8)
    );
    let recent = WorkerFilter {
        heartbeat_since: Some(t(6)),
        ..WorkerFilter::default()
    };
    assert_eq!(store.list_workers(recent).await.unwrap().len(), 1);
    assert_eq!(store.stop_silent_workers(t(6)).await.unwrap(), ["a"]);
    assert!(store.stop_silent_workers(t(6)).await.unwrap().is_empty());
    let forget = || RegistryWrite::DeleteWorker("a".into());
    assert_eq!(write_registry(&store, forget()).await, 1);
    assert_eq!(write_registry(&store, forget()).await, 0);
    let back = RegistryWrite::SetWorkerStatus("a".into(), WorkerStatus::Active);
    assert_eq!(write_registry(&store, back).await, 0);
}

#[tokio::test]
async fn breakers_are_saved_by_version() {
    let (store, _) = open(1).await;
    let breaker = |version| BreakerRecord {
        key: "activity:charge".into(),
        state: CircuitState::HalfOpen,
        failure_count: u32::MAX,
        success_count: 1,
        opened_at: Some(t(1)),
        data: odd_payload(),
        version,
        updated_at: t(0),
    };
    assert!(
        !store.save_breaker(breaker(1), Some(t(2))).await.unwrap(),
        "there is none yet"
    );
    assert!(store.save_breaker(breaker(0), Some(t(2))).await.unwrap());
    assert!(!store.save_breaker(breaker(0), Some(t(3))).await.unwrap());
    let expected = BreakerRecord {
        updated_at: t(2),
        ..breaker(1)
    };
    assert_eq!(
        store.get_breaker("activity:charge".into()).await.unwrap(),
        Some(expected)
    );
    assert!(store.save_breaker(breaker(1), Some(t(4))).await.unwrap());
    assert_eq!(store.list_breakers().await.unwrap()[0].version, 2);
    let reset = || RegistryWrite::DeleteBreaker("activity:charge".into());
    assert_eq!(write_registry(&store, reset()).await, 1);
    assert_eq!(write_registry(&store, reset()).await, 0);
}

#[tokio::test]
async fn the_first_result_under_a_key_wins() {
    let (store, _) = open(1).await;
    assert_eq!(store.get_once("k".into()).await.unwrap(), None);
    let first = store
        .put_once("k".into(), codec_payload(), Some(t(1)))
        .await
        .unwrap();
    let second = store
        .put_once("k".into(), odd_payload(), Some(t(2)))
        .await
        .unwrap();
    assert_eq!((first, second), (codec_payload(), codec_payload()));
    store
        .put_once("empty".into(), Payload::ABSENT, None)
        .await
        .unwrap();
    assert_eq!(
        store.get_once("empty".into()).await.unwrap(),
        Some(Payload::ABSENT)
    );
    assert_eq!(store.dump().await.unwrap().dedup.len(), 2);
}
