//! The writer: groups share a commit, a failing write hurts nobody, what was answered can be read.
#![cfg(feature = "sqlite")]

mod sqlite_fixture;

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, CountLimit, HostedType, TaskStatus,
};
use everruns_durable::persistence::sql::rows::{Changes, EventRow, Load};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use everruns_durable::persistence::{StoreError, StoreResult};
use sqlite_fixture::records::{bare_fact, bare_outbox, bare_run, bare_task};
use sqlite_fixture::{Put, Refuse, at, folder, get, open, put};
use uuid::Uuid;

const RUN: Uuid = Uuid::from_u128(1);

/// Holds the writer until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

static GATE: Gate = Gate {
    open: Mutex::new(false),
    opened: Condvar::new(),
};

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }
}

/// A write that takes until the gate is opened.
struct Slow;

impl Intent for Slow {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, _tx: &mut T) -> StoreResult<((), Changes)> {
        GATE.pass();
        Ok(((), Changes::default()))
    }
}

fn run(id: u128) -> Changes {
    Changes {
        now: at(0),
        insert_runs: vec![bare_run(id).into()],
        ..Changes::default()
    }
}

#[tokio::test]
async fn writes_that_wait_share_a_commit() {
    let folder = folder();
    let db = open(&folder);
    let slow = tokio::spawn({
        let db = db.clone();
        async move { db.write(Concern::Events, Slow).await }
    });
    let waiting: Vec<_> = (0..200)
        .map(|id| {
            let db = db.clone();
            tokio::spawn(async move { db.write(Concern::Events, Put(run(id))).await })
        })
        .collect();
    // One thread runs all tasks: when this one goes on, all others have queued their write.
    tokio::task::yield_now().await;
    let before = db.commits();
    GATE.open();
    slow.await.unwrap().unwrap();
    for write in waiting {
        write.await.unwrap().unwrap();
    }
    assert_eq!(
        db.count_runs(Default::default(), CountLimit::Exact)
            .await
            .unwrap()
            .count,
        200
    );
    let commits = db.commits() - before;
    assert!(commits <= 2, "200 writes took {commits} commits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_write_fails_alone() {
    let folder = folder();
    let db = open(&folder);
    put(
        &db,
        Changes {
            insert_tasks: vec![bare_task(1, 1)],
            ..run(1)
        },
    )
    .await;
    let mut writes = tokio::task::JoinSet::new();
    for id in 0..300_u128 {
        let db = db.clone();
        writes.spawn(async move {
            match id % 3 {
                0 => db.write(Concern::Events, Put(run(id + 10))).await,
                1 => db.write(Concern::Events, Refuse).await,
                // The run exists: the last of two statements fails, and the first must not stand.
                _ => {
                    let mut changes = run(1);
                    changes.insert_runs.insert(0, bare_run(id + 1000).into());
                    db.write(Concern::Events, Put(changes)).await
                }
            }
        });
    }
    let mut answers = (0, 0, 0);
    while let Some(answer) = writes.join_next().await {
        match answer.unwrap() {
            Ok(()) => answers.0 += 1,
            Err(StoreError::Invalid(_)) => answers.1 += 1,
            Err(StoreError::Conflict(_)) => answers.2 += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(answers, (100, 100, 100));
    assert_eq!(
        db.count_runs(Default::default(), CountLimit::Exact)
            .await
            .unwrap()
            .count,
        101
    );
    let load = Load {
        tasks: vec![(RUN, Uuid::from_u128(1))],
        ..Load::default()
    };
    let tasks = get(&db, load).await.tasks;
    assert_eq!(tasks.into_values().next(), Some(bare_task(1, 1)));
}

/// A rule with a bug.
struct Panics;

impl Intent for Panics {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, _tx: &mut T) -> StoreResult<((), Changes)> {
        panic!("a rule has a bug");
    }
}

#[tokio::test]
async fn a_panicking_write_leaves_the_writer_at_work() {
    let folder = folder();
    let db = open(&folder);
    let error = db.write(Concern::Events, Panics).await.unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    put(&db, run(1)).await;
    assert_eq!(
        db.count_runs(Default::default(), CountLimit::Exact)
            .await
            .unwrap()
            .count,
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_sees_every_write_that_was_answered_before() {
    let folder = folder();
    let db = open(&folder);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8_u128 {
        let db = db.clone();
        writers.spawn(async move {
            for n in 0..25 {
                let id = writer * 100 + n;
                put(&db, run(id)).await;
                let found = db.get_run(Uuid::from_u128(id)).await.unwrap();
                assert!(found.is_some(), "run {id} was answered and is not there");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn dropping_the_last_handle_finishes_what_is_queued() {
    let folder = folder();
    let db = open(&folder);
    let mut writes: Vec<_> = (0..50)
        .map(|id| {
            let db = db.clone();
            Box::pin(async move { db.write(Concern::Events, Put(run(id))).await })
        })
        .collect();
    for write in &mut writes {
        // Queued, and nobody will wait for the answer.
        assert!(futures_util::poll!(write.as_mut()).is_pending());
    }
    drop(writes);
    drop(db);
    let db = open(&folder);
    assert_eq!(
        db.count_runs(Default::default(), CountLimit::Exact)
            .await
            .unwrap()
            .count,
        50
    );
}

#[tokio::test]
async fn an_event_has_one_place() {
    let folder = folder();
    let db = open(&folder);
    let event = EventRow {
        run_id: RUN,
        sequence_num: 1,
        event: bare_fact(1).event.encode(),
    };
    let twice = Changes {
        insert_events: vec![event.clone(), event],
        ..run(1)
    };
    let error = db.write(Concern::Events, Put(twice)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    assert_eq!(db.get_run(RUN).await.unwrap(), None);
}

/// Claims of all kinds, in shard 0.
struct Claims;

impl Intent for Claims {
    type Answer = (Vec<u128>, Vec<u128>, Vec<u128>);

    fn at(&self) -> Option<Timestamp> {
        Some(at(100))
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let (worker_id, lease) = ("worker".to_owned(), Duration::from_secs(5));
        let tasks = ClaimTasks {
            worker_id: worker_id.clone(),
            activity_types: vec!["ship".into(), "charge".into(), "ship".into()],
            max: 3,
            lease,
            token: Uuid::from_u128(7),
            first_shard: 0,
            now: None,
        };
        let turns = ClaimTurns {
            worker_id,
            build: "b1".into(),
            hosted: vec![HostedType {
                workflow_type: "order".into(),
                version: String::new(),
            }],
            max: 9,
            lease,
            first_shard: 0,
            now: None,
        };
        let outbox = ClaimOutbox {
            max: 9,
            lease,
            token: Uuid::from_u128(8),
            first_shard: 0,
            now: None,
        };
        let tasks = tx.claim_tasks(0, &tasks, 3).await?;
        let turns = tx.claim_turns(0, &turns, 9).await?;
        let outbox = tx.claim_outbox(0, &outbox, 9).await?;
        let tasks = tasks.iter().map(|task| task.id.as_u128()).collect();
        let turns = turns.iter().map(|turn| turn.run.id.as_u128()).collect();
        let outbox = outbox.iter().map(|event| event.id.as_u128()).collect();
        Ok(((tasks, turns, outbox), Changes::default()))
    }
}

/// Tasks, runs and outbox events of which some may be claimed.
fn claimable() -> Changes {
    let task = |id, activity_type: &str, priority, visible| {
        let mut task = bare_task(1, id);
        task.activity_type = activity_type.into();
        task.options.priority = priority;
        task.visible_at = at(visible);
        task
    };
    let ready = |id, ready: i64, owner_until: Option<i64>, blocked: Option<&str>| {
        let mut run = bare_run(id);
        run.ready_at = Some(at(ready));
        run.owner = owner_until.map(|until| everruns_durable::persistence::model::Owner {
            worker_id: "other".into(),
            expires_at: at(until),
        });
        run.blocked = blocked.map(|build| everruns_durable::persistence::model::Blocked {
            build: build.into(),
            reason: "x".into(),
        });
        run
    };
    let event = |id, available| {
        let mut event = bare_outbox(1, id);
        event.available_at = at(available);
        event
    };
    Changes {
        now: at(0),
        insert_runs: vec![
            bare_run(1).into(),
            ready(2, 9, None, None).into(),
            ready(3, 8, Some(100), Some("b0")).into(),
            ready(4, 1, Some(101), None).into(),
            ready(5, 1, None, Some("b1")).into(),
        ],
        insert_tasks: vec![
            task(1, "charge", 0, 1),
            task(2, "ship", 0, 1),
            task(3, "charge", 5, 9),
            task(4, "ship", 0, 0),
            task(5, "other", 9, 0),
        ],
        insert_outbox: vec![event(1, 100), event(2, 50), event(3, 101)],
        ..Changes::default()
    }
}

#[tokio::test]
async fn claims_come_in_order_and_once() {
    let folder = folder();
    let db = open(&folder);
    put(&db, claimable()).await;
    let claimed = db.write(Concern::Tasks, Claims).await.unwrap();
    assert_eq!(claimed, (vec![3, 4, 1], vec![3, 2], vec![2, 1]));
    let again = db.write(Concern::Tasks, Claims).await.unwrap();
    assert_eq!(again, (vec![2], vec![], vec![]));
    let load = Load {
        tasks: vec![(RUN, Uuid::from_u128(3))],
        ..Load::default()
    };
    let task = get(&db, load).await.tasks.into_values().next().unwrap();
    assert_eq!(
        (task.status, task.attempt, task.deliveries),
        (TaskStatus::Claimed, 1, 1)
    );
    assert_eq!(
        (task.claimed_at, task.lease_expires_at),
        (Some(at(100)), Some(at(105)))
    );
}
