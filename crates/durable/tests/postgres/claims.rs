//! Claims: order, limits, what they change; and what becomes due.

use std::time::Duration;

use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::StoreResult;
use everruns_durable::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, HostedType, OutboxState, Owner, RunRecord, TaskRecord,
    TaskStatus,
};
use everruns_durable::persistence::postgres::Postgres;
use everruns_durable::persistence::sql::rows::{Changes, TaskFound};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use uuid::Uuid;

use crate::intents::{OutboxClaim, TasksClaim, TurnsClaim, whole_tasks, write};
use crate::samples::{
    bare_run, bare_task, full_fact, full_options, full_run, full_task, id, outbox, signal_fact, t,
    timer,
};
use crate::server::{connect, open};

fn task_claim(types: &[&str], max: usize, now: Option<Timestamp>) -> ClaimTasks {
    ClaimTasks {
        worker_id: "w".into(),
        activity_types: types.iter().map(|&t| t.to_owned()).collect(),
        max,
        lease: Duration::from_micros(15_000_001),
        token: id(4242),
        first_shard: 0,
        now,
    }
}

async fn claim(store: &Postgres, claim: ClaimTasks) -> (Timestamp, Vec<TaskRecord>) {
    store
        .write(Concern::Tasks, TasksClaim(0, claim))
        .await
        .unwrap()
}

/// Pending tasks: (n, type, priority, visible_at).
async fn queue(store: &Postgres, tasks: &[(u128, &str, i32, i64)]) {
    let insert_tasks = tasks.iter().map(|&(n, activity_type, priority, visible)| {
        let mut task = bare_task(id(1), n);
        task.activity_type = activity_type.into();
        task.options.priority = priority;
        task.visible_at = t(visible);
        task
    });
    let changes = Changes {
        now: t(0),
        insert_tasks: insert_tasks.collect(),
        ..Changes::default()
    };
    write(store, changes).await;
}

#[tokio::test]
async fn tasks_are_claimed_by_priority_then_visibility_then_id_over_all_types() {
    let (store, _) = open(1).await;
    let tasks = [
        (1, "a", 0, 1),
        (2, "b", 5, 9),
        (3, "a", 5, 8),
        (4, "c", 9, 0),
        (5, "b", 0, 0),
        (6, "a", 0, 1),
    ];
    queue(&store, &tasks).await;
    let (_, claimed) = claim(&store, task_claim(&["a", "b", "a"], 4, Some(t(10)))).await;
    let ids: Vec<Uuid> = claimed.iter().map(|task| task.id).collect();
    assert_eq!(ids, [id(3), id(2), id(5), id(1).min(id(6))]);
    let (_, rest) = claim(&store, task_claim(&["a", "b"], 4, Some(t(10)))).await;
    assert_eq!(rest.len(), 1, "none is claimed twice");
    assert!(
        claim(&store, task_claim(&["none"], 4, Some(t(10))))
            .await
            .1
            .is_empty()
    );
}

#[tokio::test]
async fn a_claim_changes_what_the_rules_say_and_its_clocks_are_those_of_the_record() {
    let (store, url) = open(1).await;
    let mut queued = full_task(id(1), 1);
    queued.status = TaskStatus::Pending;
    queued.options = full_options();
    let plain = bare_task(id(1), 2);
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(1)).into()],
        insert_tasks: vec![queued.clone(), plain.clone()],
        ..Changes::default()
    };
    write(&store, changes).await;
    let (now, mut claimed) = claim(&store, task_claim(&["charge"], 10, Some(t(20)))).await;
    assert_eq!(now, t(20));
    claimed.sort_by_key(|task| task.activity_id.clone());
    for (before, found) in [queued, plain].iter().zip(&claimed) {
        let expected = TaskRecord {
            status: TaskStatus::Claimed,
            attempt: before.attempt + 1,
            deliveries: before.deliveries + 1,
            claimed_by: Some("w".into()),
            claimed_at: Some(t(20)),
            token: Some(id(4242)),
            lease_expires_at: Some(
                t(20)
                    .checked_add(Duration::from_micros(15_000_001))
                    .unwrap(),
            ),
            heartbeat_at: None,
            ..before.clone()
        };
        assert_eq!(found, &expected);
        assert_eq!(whole_tasks(&store).await[&(id(1), found.id)], expected);
        let row = connect(&url).await;
        let row = row
            .query_one(
                "SELECT (EXTRACT(EPOCH FROM timeout_at) * 1000000)::BIGINT,
                        (EXTRACT(EPOCH FROM due_at) * 1000000)::BIGINT
                 FROM durable.durable_task_queue WHERE id = $1",
                &[&found.id],
            )
            .await
            .unwrap();
        assert_eq!(
            row.get::<_, i64>(0),
            expected.timeout_at().unwrap().as_microsecond()
        );
        assert_eq!(
            row.get::<_, i64>(1),
            expected.due_at().unwrap().as_microsecond()
        );
    }
}

#[tokio::test]
async fn without_an_instant_the_databases_clock_is_the_transactions() {
    let (store, _) = open(1).await;
    queue(&store, &[(1, "a", 0, 0)]).await;
    let (now, claimed) = claim(&store, task_claim(&["a"], 1, None)).await;
    assert_eq!(claimed[0].claimed_at, Some(now));
    assert!(now > t(-100_000_000), "a clock that runs");
}

#[tokio::test]
async fn many_claimers_at_once_share_the_tasks_and_none_is_handed_out_twice() {
    let (store, _) = open(1).await;
    let tasks: Vec<_> = (0..200).map(|n| (n, "a", 0, 0)).collect();
    queue(&store, &tasks).await;
    let claims = (0..16).map(|_| async {
        let mut mine = Vec::new();
        loop {
            let (_, claimed) = claim(&store, task_claim(&["a"], 7, Some(t(1)))).await;
            if claimed.is_empty() {
                return mine;
            }
            mine.extend(claimed.into_iter().map(|task| task.id));
        }
    });
    let mut all: Vec<Uuid> = futures_util::future::join_all(claims).await.concat();
    all.sort_unstable();
    let distinct = {
        let mut d = all.clone();
        d.dedup();
        d.len()
    };
    assert_eq!((all.len(), distinct), (200, 200));
}

fn turn_claim(max: usize) -> ClaimTurns {
    ClaimTurns {
        worker_id: "me".into(),
        build: "b1".into(),
        hosted: vec![
            HostedType {
                workflow_type: "order".into(),
                version: String::new(),
            },
            HostedType {
                workflow_type: "order".into(),
                version: "v2".into(),
            },
        ],
        max,
        lease: Duration::from_secs(15),
        first_shard: 0,
        now: Some(t(20)),
    }
}

#[tokio::test]
async fn turns_are_claimed_longest_ready_first_with_their_facts() {
    let (store, _) = open(1).await;
    let ready = |n, seconds| {
        let mut run = bare_run(id(n));
        run.ready_at = Some(t(seconds));
        run
    };
    let mut versioned = full_run(id(3));
    versioned.blocked = None;
    versioned.ready_at = Some(t(2));
    let mut owned = ready(4, 0);
    owned.owner = Some(Owner {
        worker_id: "other".into(),
        expires_at: t(21),
    });
    let mut blocked = full_run(id(5));
    blocked.owner = None;
    let mut foreign = ready(6, 0);
    foreign.workflow_type = "other".into();
    let runs = vec![
        ready(1, 3),
        ready(2, 1),
        versioned.clone(),
        owned,
        blocked,
        foreign,
        bare_run(id(7)),
        ready(8, 9),
    ];
    let changes = Changes {
        now: t(0),
        insert_runs: runs.into_iter().map(Into::into).collect(),
        insert_facts: vec![
            (id(2), signal_fact(2)),
            (id(2), full_fact(1)),
            (id(4), full_fact(1)),
        ],
        ..Changes::default()
    };
    write(&store, changes).await;
    let (_, claimed) = store
        .write(Concern::Tasks, TurnsClaim(0, turn_claim(3)))
        .await
        .unwrap();
    let ids: Vec<Uuid> = claimed.iter().map(|turn| turn.run.id).collect();
    assert_eq!(ids, [id(2), id(3), id(1)]);
    assert_eq!(claimed[0].facts, [full_fact(1), signal_fact(2)]);
    assert!(claimed[1].facts.is_empty());
    let owner = Some(Owner {
        worker_id: "me".into(),
        expires_at: t(35),
    });
    versioned.owner.clone_from(&owner);
    // A run that has begun is claimed without its input, which its history has.
    let without_input = RunRecord {
        input: Payload::ABSENT,
        ..versioned.clone()
    };
    assert_eq!(claimed[1].run, without_input);
    assert_eq!(store.get_run(id(3)).await.unwrap(), Some(versioned));
    let (_, rest) = store
        .write(Concern::Tasks, TurnsClaim(0, turn_claim(10)))
        .await
        .unwrap();
    assert_eq!(
        rest.iter().map(|turn| turn.run.id).collect::<Vec<_>>(),
        [id(8)]
    );
}

#[tokio::test]
async fn outbox_events_are_claimed_in_the_order_in_which_they_became_due() {
    let (store, _) = open(1).await;
    let mut stuck = outbox(id(1), 3, t(1));
    stuck.state = OutboxState::InFlight;
    let mut over = outbox(id(1), 4, t(0));
    over.state = OutboxState::Published;
    let events = vec![
        outbox(id(1), 1, t(5)),
        outbox(id(1), 2, t(3)),
        stuck,
        over,
        outbox(id(1), 5, t(11)),
    ];
    write(
        &store,
        Changes {
            now: t(0),
            insert_outbox: events,
            ..Changes::default()
        },
    )
    .await;
    let claim = ClaimOutbox {
        max: 2,
        lease: Duration::from_secs(30),
        token: id(9),
        first_shard: 0,
        now: Some(t(10)),
    };
    let (_, claimed) = store
        .write(Concern::Tasks, OutboxClaim(0, claim.clone()))
        .await
        .unwrap();
    assert_eq!(
        claimed.iter().map(|event| event.id).collect::<Vec<_>>(),
        [id(3), id(2)]
    );
    let first = &claimed[0];
    assert_eq!(
        (first.state, first.attempts, first.token),
        (OutboxState::InFlight, 3, Some(id(9)))
    );
    assert_eq!(first.available_at, t(40));
    let (_, rest) = store
        .write(Concern::Tasks, OutboxClaim(0, claim))
        .await
        .unwrap();
    assert_eq!(
        rest.iter().map(|event| event.id).collect::<Vec<_>>(),
        [id(1)]
    );
}

/// Everything that a shard and the store have due.
struct LookAtDue;

type Due = (
    Vec<Uuid>,
    Vec<(Uuid, String)>,
    Vec<(Uuid, Uuid)>,
    Vec<(Uuid, Uuid)>,
    Option<Timestamp>,
);

fn keys(found: &[TaskFound]) -> Vec<(Uuid, Uuid)> {
    found.iter().map(TaskFound::key).collect()
}

impl Intent for LookAtDue {
    type Answer = Due;

    fn at(&self) -> Option<Timestamp> {
        Some(t(100))
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Due, Changes)> {
        let due = (
            tx.due_runs(0, 10, &[]).await?,
            tx.due_timers(0, 10, &[]).await?,
            keys(&tx.due_tasks(0, 10, &[]).await?),
            keys(&tx.expired_leases(0, 10, &[]).await?),
            tx.next_due(&[]).await?,
        );
        Ok((due, Changes::default()))
    }
}

#[tokio::test]
async fn what_is_due_is_found_in_order_and_the_next_instant_is_the_smallest_of_all() {
    let (store, _) = open(1).await;
    let run = |n, deadline| {
        let mut run = bare_run(id(n));
        run.run_deadline = Some(t(deadline));
        run
    };
    let leased = |n, lease, close| {
        let mut task = full_task(id(1), n);
        task.options.heartbeat_timeout = None;
        task.options.start_to_close_timeout = Duration::from_secs(100_000);
        task.lease_expires_at = Some(t(lease));
        task.close_deadline = Some(t(close));
        task
    };
    let mut delayed = bare_task(id(1), 23);
    delayed.status = TaskStatus::Delayed;
    delayed.visible_at = t(99);
    let mut dead = bare_task(id(1), 24);
    dead.status = TaskStatus::Dead;
    let mut ended = run(13, 5);
    ended.status = everruns_durable::persistence::model::WorkflowStatus::Failed;
    let changes = Changes {
        now: t(0),
        insert_runs: vec![
            run(10, 98).into(),
            run(11, 97).into(),
            run(12, 101).into(),
            ended.into(),
        ],
        insert_timers: vec![
            timer(id(1), "b", t(100)),
            timer(id(1), "a", t(100)),
            timer(id(1), "c", t(101)),
        ],
        insert_tasks: vec![
            leased(20, 50, 98),
            leased(21, 40, 5_000),
            leased(22, 101, 96),
            delayed,
            dead,
        ],
        ..Changes::default()
    };
    write(&store, changes).await;
    let (runs, timers, tasks, leases, next) =
        store.write(Concern::Events, LookAtDue).await.unwrap();
    assert_eq!(runs, [id(11), id(10)]);
    assert_eq!(timers, [(id(1), "a".to_owned()), (id(1), "b".to_owned())]);
    assert_eq!(tasks, [(id(1), id(22)), (id(1), id(20)), (id(1), id(23))]);
    assert_eq!(leases, [(id(1), id(21)), (id(1), id(20))]);
    assert_eq!(next, Some(t(96)));
}
