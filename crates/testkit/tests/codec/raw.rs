//! What an engine would carry on at once, left where it lies: facts in inboxes, tasks, messages, the outbox.

use std::time::Duration;

use durable_core::{Failure, Payload, Timestamp, WorkflowEvent};
use durable_testkit::World;
use durable_testkit::world::{LEASE, one};
use everruns_durable::persistence::model::{
    LeaseExtension, NewOutboxEvent, NewSignal, NewUpdate, OutSignal, OverlapPolicy, ScheduleRecord,
    TaskOutcome, TaskRecord, WorkerInfo, WorkerStatus,
};
use uuid::Uuid;

use crate::payload;

/// Writes all of it.
pub(crate) async fn write(w: &World) -> Uuid {
    let run_id = start(w).await;
    let mut turn = w.turn(run_id).await;
    turn.events = events();
    let names = ["beating", "retried", "failed"];
    let mut tasks = names.map(|name| w.parallel_task(name));
    for task in &mut tasks {
        task.input = payload("task");
    }
    turn.tasks = tasks.to_vec();
    let mut child = w.new_child("later", Default::default());
    child.start.input = payload("child start");
    child.start.memo = payload("child memo");
    turn.children = vec![child];
    turn.signals = vec![OutSignal {
        run_id: w.id(),
        signal: signal(w),
    }];
    turn.outbox = vec![NewOutboxEvent {
        id: w.id(),
        event_type: "told".into(),
        payload: payload("outbox"),
        idempotency_key: None,
    }];
    turn.facts_through = 0;
    w.committed(turn).await;
    try_tasks(w).await;
    records(w).await;
    run_id
}

async fn start(w: &World) -> Uuid {
    let mut start = w.new_start();
    start.input = payload("input");
    start.memo = payload("memo");
    start.signals = vec![signal(w)];
    start.updates = vec![NewUpdate {
        update_id: "u".into(),
        name: "ask".into(),
        input: payload("update"),
    }];
    w.start_one(start).await
}

fn signal(w: &World) -> NewSignal {
    NewSignal {
        signal_id: w.id(),
        signal_type: "news".into(),
        payload: payload("signal"),
    }
}

fn events() -> Vec<WorkflowEvent> {
    let error = Failure::new("Boom", "no secret").with_details(payload("local details"));
    vec![
        WorkflowEvent::SideEffectRecorded {
            effect_id: "e".into(),
            value: payload("side effect"),
        },
        WorkflowEvent::LocalActivityFailed {
            activity_id: "l".into(),
            activity_type: "local".into(),
            error,
        },
        WorkflowEvent::HumanTaskDecided {
            task_id: "h".into(),
            decision: "approved".into(),
            actor: "ada".into(),
            answer: payload("answer"),
        },
    ]
}

/// One attempt beats and goes on, one fails and is tried again, one fails for good.
async fn try_tasks(w: &World) {
    let [beating, retried, failed] = &w.claim(3).await[..] else {
        panic!("all tasks may be claimed");
    };
    let beat = LeaseExtension {
        lease: beating.lease.clone(),
        extend: LEASE,
        heartbeat: Some(payload("details")),
    };
    let beaten = w.store.extend_leases(vec![beat], w.now()).await;
    beaten.expect("extend_leases");
    let failure = Failure::new("Boom", "no secret").with_details(payload("attempt"));
    let end = failure.clone().non_retryable();
    for (task, failure) in [(retried, failure), (failed, end)] {
        w.report(&task.lease, TaskOutcome::Failed { failure }).await;
    }
}

/// What belongs to no run.
async fn records(w: &World) {
    let put = w.store.put_once("k", payload("once"), w.now()).await;
    assert_eq!(put.expect("put_once"), payload("once"));
    w.store
        .put_schedule(schedule(w.instant()))
        .await
        .expect("put_schedule");
    let worker = worker(w.instant());
    w.store
        .register_worker(worker, w.now())
        .await
        .expect("register_worker");
}

fn schedule(now: Timestamp) -> ScheduleRecord {
    ScheduleRecord {
        id: "s".into(),
        workflow_type: "secretive".into(),
        version: String::new(),
        input: payload("schedule"),
        cron: "0 0 * * *".into(),
        time_zone: "UTC".into(),
        overlap: OverlapPolicy::Allow,
        catchup_window_ms: 0,
        paused: true,
        next_fire_at: None,
        last_fire_at: None,
        last_run: None,
        created_at: now,
        updated_at: now,
    }
}

fn worker(now: Timestamp) -> WorkerInfo {
    WorkerInfo {
        id: "w".into(),
        worker_group: "g".into(),
        activity_types: vec![],
        max_concurrency: 1,
        current_load: 0,
        status: WorkerStatus::Active,
        accepting_tasks: true,
        backpressure_reason: None,
        started_at: now,
        last_heartbeat_at: now,
        hostname: None,
        version: None,
        metadata: payload("worker"),
        tasks_completed: 0,
        tasks_failed: 0,
        avg_task_duration_ms: 0.0,
    }
}

/// Reads some of it back, from each kind of read.
pub(crate) async fn read(w: &World, run_id: Uuid) {
    let run = w.run(run_id).await;
    assert_eq!((run.input, run.memo), (payload("input"), payload("memo")));
    let facts = w.waiting_events(run_id).await;
    let facts: Vec<&Payload> = facts.iter().filter_map(WorkflowEvent::payload).collect();
    assert_eq!(facts, [&payload("signal"), &payload("update")]);
    assert_eq!(w.history(run_id).await, events());
    let update = w.store.get_update(run_id, "u").await.expect("get_update");
    assert_eq!(update.expect("it was sent").input, payload("update"));
    let once = w.store.get_once("k").await.expect("get_once");
    assert_eq!(once, Some(payload("once")));
    let schedule = w.store.get_schedule("s").await.expect("get_schedule");
    assert_eq!(schedule.expect("it was put").input, payload("schedule"));
    let workers = w.store.list_workers(Default::default()).await;
    let worker = &workers.expect("list_workers")[0];
    assert_eq!(worker.metadata, payload("worker"));
    let runs = w.everything().await.runs.into_iter();
    let mut tasks: Vec<TaskRecord> = runs.flat_map(|run| run.tasks).collect();
    tasks.sort_by_key(|task| task.attempts.len());
    let [beating, failing]: [TaskRecord; 2] = tasks.try_into().expect("two tasks");
    assert_eq!(beating.heartbeat_details, payload("details"));
    assert_eq!(failing.attempts[0].failure.details, payload("attempt"));
    assert_eq!(outbox(w).await, payload("outbox"));
}

async fn outbox(w: &World) -> Payload {
    let claim = everruns_durable::persistence::model::ClaimOutbox {
        max: 10,
        lease: Duration::from_secs(1),
        token: w.id(),
        first_shard: 0,
        now: w.now(),
    };
    one(w.store.claim_outbox(claim).await).payload
}
