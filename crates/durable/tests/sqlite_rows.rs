//! What is written is what is read: runs, histories, tasks, timers and inboxes, every option and every odd payload of them.
#![cfg(feature = "sqlite")]

mod sqlite_fixture;

use std::collections::BTreeMap;

use everruns_durable::core::{AttributeValue, Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::StoreResult;
use everruns_durable::persistence::model::{
    Fact, Message, MessageRecord, Owner, RunRecord, TaskRecord, TaskStatus, UpdateState,
    WorkflowStatus,
};
use everruns_durable::persistence::sql::rows::{
    Changes, EventRow, Load, PurgeRecord, RunHead, RunUpdate, Slice, SliceLimit, TaskUpdate,
};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions};
use sqlite_fixture::records::{
    attempts, bare_fact, bare_letter, bare_outbox, bare_run, bare_task, failure, full_fact,
    full_run, full_task, json, log, micros, odd_payloads, signal, timer, trace, update,
};
use sqlite_fixture::{at, folder, get, open, put};
use uuid::Uuid;

const RUN: Uuid = Uuid::from_u128(1);

fn changes() -> Changes {
    Changes {
        now: at(10),
        ..Changes::default()
    }
}

/// The head that a record says, with these counts.
fn head(run: &RunRecord, task_count: i32, line_count: i32) -> RunHead {
    RunHead {
        id: run.id,
        workflow_type: run.workflow_type.clone(),
        business_id: run.business_id.clone(),
        idempotency_key: run.idempotency_key.clone(),
        fingerprint: run.fingerprint,
        status: run.status,
        parent: run.parent.clone(),
        has_children: run.has_children,
        sequence: run.sequence,
        history_start: run.history_start,
        iteration: run.iteration,
        epoch: run.epoch,
        arrivals: run.arrivals,
        consumed: run.consumed,
        last_turn: run.last_turn,
        ready_at: run.ready_at,
        owner: run.owner.clone(),
        blocked: run.blocked.clone(),
        execution_deadline: run.execution_deadline,
        run_deadline: run.run_deadline,
        run_timeout_ms: run
            .run_timeout
            .map(|t| i64::try_from(t.as_millis()).unwrap()),
        created_at: run.created_at,
        updated_at: run.updated_at,
        started_at: run.started_at,
        completed_at: run.completed_at,
        task_count,
        line_count,
    }
}

/// All queued tasks, whole, by run and id.
async fn whole_tasks(db: &Sqlite) -> BTreeMap<(Uuid, Uuid), TaskRecord> {
    let runs = db.dump().await.unwrap().runs.into_iter();
    let tasks = runs.flat_map(|run| run.tasks);
    tasks.map(|task| ((task.run_id, task.id), task)).collect()
}

/// A task as the rules see it: its input and the details of its heartbeat stay in the database.
fn ruled(task: &TaskRecord) -> TaskRecord {
    TaskRecord {
        input: Payload::ABSENT,
        heartbeat_details: Payload::ABSENT,
        ..task.clone()
    }
}

#[tokio::test]
async fn runs_come_back_whole_and_as_heads() {
    let folder = folder();
    let db = open(&folder);
    let runs = [bare_run(1), full_run(2)];
    put(
        &db,
        Changes {
            insert_runs: runs.iter().cloned().map(Into::into).collect(),
            ..changes()
        },
    )
    .await;
    let ids: Vec<Uuid> = runs.iter().map(|run| run.id).collect();
    let loaded = get(
        &db,
        Load {
            runs: [ids.clone(), vec![Uuid::from_u128(3)]].concat(),
            ..Load::default()
        },
    )
    .await;
    let heads: BTreeMap<Uuid, RunHead> = runs.iter().map(|run| (run.id, head(run, 0, 0))).collect();
    assert_eq!(loaded.runs, heads);
    for run in &runs {
        assert_eq!(db.get_run(run.id).await.unwrap().as_ref(), Some(run));
    }
    assert_eq!(db.get_run(Uuid::from_u128(3)).await.unwrap(), None);
}

#[tokio::test]
async fn a_changed_run_keeps_what_the_change_does_not_name() {
    let folder = folder();
    let db = open(&folder);
    let (old, mut new) = (bare_run(1), full_run(1));
    put(
        &db,
        Changes {
            insert_runs: vec![
                RunRecord {
                    memo: json("1"),
                    trace: Some(trace()),
                    input: json("2"),
                    ..old.clone()
                }
                .into(),
            ],
            ..changes()
        },
    )
    .await;
    new.status = WorkflowStatus::Running;
    let changed = head(&new, 5, 4);
    put(
        &db,
        Changes {
            update_runs: vec![RunUpdate {
                head: changed.clone(),
                input: None,
                outcome: None,
            }],
            ..changes()
        },
    )
    .await;
    let loaded = get(
        &db,
        Load {
            runs: vec![RUN],
            ..Load::default()
        },
    )
    .await;
    // What a run is never changes; how it stands does.
    let expected = RunHead {
        business_id: None,
        idempotency_key: None,
        fingerprint: 0,
        parent: None,
        run_timeout_ms: None,
        created_at: old.created_at,
        ..changed.clone()
    };
    assert_eq!(loaded.runs[&RUN], expected);
    let run = db.get_run(RUN).await.unwrap().unwrap();
    assert_eq!((run.input, run.memo), (json("2"), json("1")));

    put(
        &db,
        Changes {
            update_runs: vec![RunUpdate {
                head: changed,
                input: Some(json("3")),
                outcome: Some((json("4"), Some(failure()))),
            }],
            ..changes()
        },
    )
    .await;
    let run = db.get_run(RUN).await.unwrap().unwrap();
    assert_eq!((run.input, run.result), (json("3"), json("4")));
    assert_eq!((run.error, run.memo), (Some(failure()), json("1")));
}

#[tokio::test]
async fn a_run_that_goes_on_moves_its_counters_and_nothing_else() {
    let folder = folder();
    let db = open(&folder);
    let run = full_run(1);
    let begun = Changes {
        insert_runs: vec![run.clone().into()],
        ..changes()
    };
    put(&db, begun).await;
    let found = head(&run, 0, 0);
    let advanced = RunHead {
        sequence: 70,
        arrivals: 71,
        consumed: 72,
        last_turn: Some(Uuid::from_u128(73)),
        updated_at: run.created_at,
        task_count: 76,
        line_count: 77,
        ..found
    };
    let gone_on = Changes {
        advance_runs: vec![advanced.clone()],
        ..changes()
    };
    put(&db, gone_on).await;
    let wanted = Load {
        runs: vec![RUN],
        ..Load::default()
    };
    assert_eq!(get(&db, wanted).await.runs[&RUN], advanced);
}

#[tokio::test]
async fn odd_payloads_come_back_byte_for_byte() {
    let folder = folder();
    let db = open(&folder);
    let payloads = odd_payloads();
    let completed = |payload: &Payload| WorkflowEvent::ActivityCompleted {
        activity_id: "a".into(),
        result: payload.clone(),
    };
    let numbered = || (1_i64..).zip(&payloads);
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            insert_events: numbered()
                .map(|(n, payload)| EventRow {
                    run_id: RUN,
                    sequence_num: n,
                    event: completed(payload).encode(),
                })
                .collect(),
            insert_facts: numbered()
                .map(|(n, payload)| (RUN, full_fact(n, payload.clone())))
                .collect(),
            ..changes()
        },
    )
    .await;
    let history = db.load_history(RUN, 0).await.unwrap().unwrap();
    let events: Vec<_> = history.events.iter().map(|e| e.event.clone()).collect();
    assert_eq!(events, payloads.iter().map(completed).collect::<Vec<_>>());
    assert!(history.events.iter().all(|e| e.created_at == at(10)));
    let later = db.load_history(RUN, 3).await.unwrap().unwrap();
    assert_eq!(later.events, history.events[3..]);
    let turns = db.load_turns(vec![Uuid::nil(), RUN]).await.unwrap();
    assert_eq!(turns[0], None);
    let facts = turns[1].clone().unwrap().facts;
    let expected: Vec<_> = numbered().map(|(n, p)| full_fact(n, p.clone())).collect();
    assert_eq!(facts, expected);
}

#[tokio::test]
async fn tasks_come_back_and_change() {
    let folder = folder();
    let db = open(&folder);
    let tasks = [bare_task(1, 1), full_task(1, 2), bare_task(2, 1)];
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into(), bare_run(2).into()],
            insert_tasks: tasks.to_vec(),
            ..changes()
        },
    )
    .await;
    let all = Load {
        tasks: vec![
            (Uuid::from_u128(2), Uuid::from_u128(1)),
            (RUN, Uuid::nil()),
            (RUN, Uuid::from_u128(1)),
            (RUN, Uuid::from_u128(2)),
        ],
        ..Load::default()
    };
    let by_run = Load {
        queued_of: vec![RUN],
        activities: vec![(RUN, tasks[1].activity_id.clone())],
        lines_of: vec![RUN],
        ..Load::default()
    };
    let loaded = get(&db, by_run).await;
    assert!(loaded.tasks.is_empty(), "nothing that may be large");
    let queued = tasks[..2]
        .iter()
        .map(|task| ((RUN, task.id), task.activity_id.clone()));
    assert_eq!(loaded.queued, queued.collect());
    let standing = &loaded.standing[&(RUN, tasks[1].id)];
    assert_eq!(
        (standing.status, standing.sequential),
        (tasks[1].status, tasks[1].options.sequential)
    );
    let in_line = tasks[..2].iter().filter(|task| task.options.sequential);
    assert_eq!(
        loaded.lines.get(&RUN).copied(),
        in_line.map(|task| task.line).min()
    );
    let expected: BTreeMap<_, _> = tasks
        .iter()
        .map(|task| ((task.run_id, task.id), task.clone()))
        .collect();
    assert_eq!(whole_tasks(&db).await, expected);
    let seen = expected.iter().map(|(key, task)| (*key, ruled(task)));
    assert_eq!(get(&db, all.clone()).await.tasks, seen.collect());
    let leases = Load {
        leases: vec![(RUN, tasks[1].id)],
        ..Load::default()
    };
    let without_attempts = TaskRecord {
        attempts: Vec::new(),
        ..ruled(&tasks[1])
    };
    let leased = get(&db, leases).await.tasks;
    assert_eq!(leased[&(RUN, tasks[1].id)], without_attempts);

    // All that may change goes from none to some and back.
    let mut there = full_task(1, 1);
    let mut back = bare_task(1, 2);
    for (task, stored) in [(&mut there, &tasks[0]), (&mut back, &tasks[1])] {
        task.input = stored.input.clone();
        task.options = stored.options.clone();
        task.line = stored.line;
        task.epoch = stored.epoch;
        task.scheduled_at = stored.scheduled_at;
        task.trace = stored.trace.clone();
    }
    let update = |task: &TaskRecord, whole: bool| TaskUpdate {
        task: task.clone(),
        heartbeat: whole,
        attempts: whole,
    };
    put(
        &db,
        Changes {
            update_tasks: vec![update(&there, true), update(&back, true)],
            ..changes()
        },
    )
    .await;
    let stored = whole_tasks(&db).await;
    assert_eq!(stored[&(RUN, there.id)], there);
    assert_eq!(stored[&(RUN, back.id)], back);
    // What an update does not say to write stays, whatever stands in its record.
    put(
        &db,
        Changes {
            update_tasks: vec![update(&ruled(&there), false)],
            ..changes()
        },
    )
    .await;
    assert_eq!(whole_tasks(&db).await, stored);

    let mut buried = bare_letter(1, 1);
    put(
        &db,
        Changes {
            bury_tasks: vec![buried.clone()],
            delete_tasks: vec![(RUN, there.id)],
            delete_tasks_of: vec![Uuid::from_u128(2)],
            ..changes()
        },
    )
    .await;
    let left: Vec<_> = whole_tasks(&db).await.into_values().collect();
    assert_eq!(left, [back]);
    let letters = Load {
        letters: vec![(RUN, there.id)],
        ..Load::default()
    };
    buried.input = there.input;
    let letters = get(&db, letters).await.letters;
    assert_eq!(letters[&(RUN, there.id)], buried, "its input moved");
}

#[tokio::test]
async fn a_line_moves_up_by_one() {
    let folder = folder();
    let db = open(&folder);
    let in_line = |run: u128, id: u128, visible: i64| {
        let mut task = bare_task(run, id);
        task.status = TaskStatus::InLine;
        task.visible_at = at(visible);
        task
    };
    let mut beside = bare_task(2, 1);
    beside.options.sequential = false;
    let tasks = vec![
        in_line(1, 1, 0),
        in_line(1, 2, 0),
        beside,
        in_line(2, 2, 99),
        full_task(3, 1),
    ];
    put(
        &db,
        Changes {
            insert_tasks: tasks,
            release_lines: vec![RUN, Uuid::from_u128(2), Uuid::from_u128(3)],
            ..changes()
        },
    )
    .await;
    let loaded = get(
        &db,
        Load {
            tasks: [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
                .map(|(run, id)| (Uuid::from_u128(run), Uuid::from_u128(id)))
                .into(),
            ..Load::default()
        },
    )
    .await;
    let stands: Vec<_> = loaded
        .tasks
        .values()
        .map(|task| (task.status, task.visible_at))
        .collect();
    let expected = [
        (TaskStatus::Pending, at(10)),
        (TaskStatus::InLine, at(0)),
        (TaskStatus::Pending, at(0)),
        (TaskStatus::Delayed, at(99)),
        (TaskStatus::Claimed, full_task(3, 1).visible_at),
    ];
    assert_eq!(stands, expected);
}

#[tokio::test]
async fn timers_come_and_go() {
    let folder = folder();
    let db = open(&folder);
    let timers = [timer(1, "a"), timer(1, "b"), timer(2, "a")];
    put(
        &db,
        Changes {
            insert_timers: timers.to_vec(),
            ..changes()
        },
    )
    .await;
    let all = Load {
        timers: timers
            .iter()
            .map(|t| (t.run_id, t.timer_id.clone()))
            .collect(),
        ..Load::default()
    };
    let found: Vec<_> = get(&db, all.clone()).await.timers.into_values().collect();
    assert_eq!(found, timers);
    put(
        &db,
        Changes {
            delete_timers: vec![(RUN, "a".into())],
            delete_timers_of: vec![Uuid::from_u128(2)],
            ..changes()
        },
    )
    .await;
    let left: Vec<_> = get(&db, all).await.timers.into_values().collect();
    assert_eq!(left, [timer(1, "b")]);
}

/// What waits for the run.
async fn waiting(db: &Sqlite) -> Vec<Fact> {
    let turns = db.load_turns(vec![RUN]).await.unwrap();
    turns
        .into_iter()
        .flatten()
        .flat_map(|turn| turn.facts)
        .collect()
}

#[tokio::test]
async fn a_turn_takes_facts_and_marks_their_signals() {
    let folder = folder();
    let db = open(&folder);
    let mut marked_before = signal(1, 1, json("1"));
    marked_before.processed_at = Some(micros(1));
    let signals = [
        marked_before,
        signal(1, 2, Payload::ABSENT),
        signal(1, 3, json("3")),
    ];
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            insert_facts: (1..=3).map(|n| (RUN, bare_fact(n))).collect(),
            put_signals: signals.to_vec(),
            ..changes()
        },
    )
    .await;
    let all = Load {
        signals: signals.iter().map(|s| (RUN, s.signal_id)).collect(),
        ..Load::default()
    };
    let loaded = get(&db, all.clone()).await;
    assert_eq!(loaded.signals.into_values().collect::<Vec<_>>(), signals);
    put(
        &db,
        Changes {
            consume_facts: vec![(RUN, 2)],
            ..changes()
        },
    )
    .await;
    let loaded = get(&db, all.clone()).await;
    assert_eq!(waiting(&db).await, [bare_fact(3)]);
    let marks: Vec<_> = loaded.signals.values().map(|s| s.processed_at).collect();
    assert_eq!(marks, [Some(micros(1)), Some(at(10)), None]);

    // Continue-as-new carries a signal over.
    let mut carried = signal(1, 2, Payload::ABSENT);
    carried.arrival = 4;
    put(
        &db,
        Changes {
            put_signals: vec![carried.clone()],
            ..changes()
        },
    )
    .await;
    let loaded = get(&db, all).await;
    assert_eq!(loaded.signals[&(RUN, carried.signal_id)], carried);
}

#[tokio::test]
async fn a_reset_drops_facts_of_activities_and_timers_only() {
    let folder = folder();
    let db = open(&folder);
    let mut kept = bare_fact(3);
    kept.event = WorkflowEvent::UpdateAccepted {
        update_id: "u".into(),
        name: "n".into(),
        input: Payload::ABSENT,
    };
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            insert_facts: vec![
                (RUN, bare_fact(1)),
                (RUN, full_fact(2, Payload::null())),
                (RUN, kept.clone()),
            ],
            ..changes()
        },
    )
    .await;
    put(
        &db,
        Changes {
            drop_stale_facts: vec![RUN],
            ..changes()
        },
    )
    .await;
    assert_eq!(waiting(&db).await, [kept]);
}

/// One of everything that belongs to a run.
fn belongings(run: u128) -> Changes {
    let run_id = Uuid::from_u128(run);
    Changes {
        insert_runs: vec![full_run(run).into()],
        insert_events: vec![EventRow {
            run_id,
            sequence_num: 1,
            event: bare_fact(1).event.encode(),
        }],
        insert_timers: vec![timer(run, "t")],
        insert_tasks: vec![full_task(run, 1)],
        insert_facts: vec![(run_id, bare_fact(1))],
        put_signals: vec![signal(run, 1, Payload::ABSENT)],
        insert_updates: vec![update(run, "u", UpdateState::Pending)],
        attributes: vec![(run_id, "n".into(), Some(AttributeValue::Int(1)))],
        insert_messages: vec![MessageRecord {
            sender: run_id,
            sequence_num: 1,
            idx: 0,
            message: Message::CloseChildren,
        }],
        put_letters: vec![bare_letter(run, 1)],
        insert_outbox: vec![bare_outbox(run, 1)],
        insert_logs: vec![log(run, 1, Payload::ABSENT)],
        ..changes()
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
        let purge = PurgeRecord {
            run_id: self.0,
            idempotency_key: None,
            business_id: None,
            failures: 0,
            events_through: 0,
        };
        let (slice, _) = tx.delete_belongings(shard, &[purge], limit).await?;
        Ok((slice, Changes::default()))
    }
}

#[tokio::test]
async fn a_purged_run_leaves_nothing_and_its_neighbour_alone() {
    let folder = folder();
    let db = open(&folder);
    put(&db, belongings(2)).await;
    let without = db.dump().await.unwrap();
    put(&db, belongings(1)).await;
    let with = db.dump().await.unwrap();
    assert_eq!(with.runs[1], without.runs[0]);
    assert_eq!(with.runs[0].tasks[0].attempts, attempts());
    put(
        &db,
        Changes {
            delete_runs: vec![RUN],
            ..changes()
        },
    )
    .await;
    // A run with messages on their way is not deleted, so that they are no belongings.
    let mut slices = 0;
    while db
        .write(Concern::Registry, Belongings(RUN))
        .await
        .unwrap()
        .more
    {
        slices += 1;
    }
    assert_eq!(slices, 10, "one row at a time");
    let mut dump = db.dump().await.unwrap();
    let of_messages = dump.orphans.drain(..).map(|orphan| orphan.table);
    assert_eq!(of_messages.collect::<Vec<_>>(), ["messages"]);
    assert_eq!(dump, without);
    let mut left = [1; 12];
    left[9] = 2;
    assert_eq!(count_rows(&db, &folder).await, left);
}

/// Rows in each table that belongs to runs.
async fn count_rows(db: &Sqlite, folder: &tempfile::TempDir) -> [i64; 12] {
    let raw = rusqlite::Connection::open_with_flags(
        folder.path().join("test.db"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    )
    .unwrap();
    assert_eq!(db.shards().count(), 1);
    [
        "workflow_instances",
        "workflow_events",
        "search_attributes",
        "task_queue",
        "timers",
        "dead_letter_queue",
        "inbox",
        "signals",
        "updates",
        "messages",
        "outbox",
        "step_logs",
    ]
    .map(|table| {
        let sql = format!("SELECT count(*) FROM durable_{table}");
        raw.query_row(&sql, [], |row| row.get(0)).unwrap()
    })
}

#[tokio::test]
async fn a_database_in_memory_does_the_same() {
    let db = Sqlite::open_in_memory(SqliteOptions::default()).unwrap();
    put(&db, belongings(1)).await;
    let run = db.get_run(RUN).await.unwrap().unwrap();
    assert_eq!(run, full_run(1));
    let owner = Owner {
        worker_id: "worker-1".into(),
        expires_at: micros(2),
    };
    assert_eq!(run.owner, Some(owner));
}
