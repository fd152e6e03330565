//! The worker registry.

use std::time::Duration;

use durable_core::Timestamp;
use everruns_durable::persistence::model::{WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus};

use crate::World;
use crate::world::{ACTIVITY, json};

claims! { "workers":
    a_registered_worker_is_kept_as_it_announced_itself,
    registering_again_replaces_what_was_known,
    a_heartbeat_updates_what_a_worker_does_and_answers_its_status,
    heartbeats_of_many_workers_are_answered_one_by_one,
    an_unknown_worker_is_told_to_register_again,
    a_worker_asked_to_drain_hears_it_at_its_next_heartbeat,
    a_deregistered_worker_is_gone,
    silent_workers_are_stopped_once_and_named_in_order,
    workers_are_listed_by_id_by_every_filter,
}

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn worker(w: &World, id: &str) -> WorkerInfo {
    WorkerInfo {
        id: id.into(),
        worker_group: "default".into(),
        activity_types: vec![ACTIVITY.into(), "other; drop table".into()],
        max_concurrency: 10,
        current_load: 0,
        status: WorkerStatus::Active,
        accepting_tasks: true,
        backpressure_reason: None,
        started_at: w.instant(),
        last_heartbeat_at: w.instant(),
        hostname: Some("host-1".into()),
        version: Some("1.2.3".into()),
        metadata: json("{\"a\":1,\"a\":2}"),
        tasks_completed: 0,
        tasks_failed: 0,
        avg_task_duration_ms: 0.0,
    }
}

pub(super) async fn register(w: &World, worker: WorkerInfo) -> WorkerInfo {
    let registered = w.store.register_worker(worker.clone(), w.now()).await;
    registered.expect("register_worker");
    worker
}

fn beat(worker_id: &str) -> WorkerBeat {
    WorkerBeat {
        worker_id: worker_id.into(),
        current_load: 7,
        accepting_tasks: false,
        backpressure_reason: Some("full".into()),
        tasks_completed: 40,
        tasks_failed: 2,
        avg_task_duration_ms: 12.5,
    }
}

async fn heartbeat(w: &World, worker_id: &str) -> Option<WorkerStatus> {
    let answers = w.store.worker_heartbeats(vec![beat(worker_id)], w.now());
    let mut answers = answers.await.expect("worker_heartbeats");
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

async fn list(w: &World, filter: WorkerFilter) -> Vec<WorkerInfo> {
    w.store.list_workers(filter).await.expect("list_workers")
}

async fn ids(w: &World, filter: WorkerFilter) -> Vec<String> {
    let workers = list(w, filter).await;
    workers.into_iter().map(|worker| worker.id).collect()
}

async fn a_registered_worker_is_kept_as_it_announced_itself(w: &World) {
    let mut announced = worker(w, "w1");
    announced.started_at = Timestamp::UNIX_EPOCH;
    announced.last_heartbeat_at = Timestamp::UNIX_EPOCH;
    register(w, announced).await;
    let known = list(w, WorkerFilter::default()).await;
    assert_eq!(known, [worker(w, "w1")], "with the store's instants");
}

async fn registering_again_replaces_what_was_known(w: &World) {
    register(w, worker(w, "w1")).await;
    heartbeat(w, "w1").await;
    w.advance(SECOND);
    let mut again = worker(w, "w1");
    again.worker_group = "gpu".into();
    again.activity_types = vec![];
    again.hostname = None;
    again.version = None;
    let again = register(w, again).await;
    assert_eq!(list(w, WorkerFilter::default()).await, [again]);
}

async fn a_heartbeat_updates_what_a_worker_does_and_answers_its_status(w: &World) {
    let before = register(w, worker(w, "w1")).await;
    w.advance(SECOND);
    assert_eq!(heartbeat(w, "w1").await, Some(WorkerStatus::Active));
    let expected = WorkerInfo {
        current_load: 7,
        accepting_tasks: false,
        backpressure_reason: Some("full".into()),
        tasks_completed: 40,
        tasks_failed: 2,
        avg_task_duration_ms: 12.5,
        last_heartbeat_at: w.instant(),
        ..before
    };
    assert_eq!(list(w, WorkerFilter::default()).await, [expected]);
}

async fn heartbeats_of_many_workers_are_answered_one_by_one(w: &World) {
    for id in ["w2", "w1"] {
        register(w, worker(w, id)).await;
    }
    let drain = w.store.set_worker_status("w2", WorkerStatus::Draining);
    assert!(drain.await.expect("set_worker_status"));
    w.advance(SECOND);
    let mut later = beat("w1");
    later.current_load = 8;
    let beats = vec![
        beat("w1"),
        beat("nobody"),
        beat("w2"),
        beat("bad\0id"),
        later,
    ];
    let answers = w.store.worker_heartbeats(beats, w.now()).await;
    let (active, draining) = (Some(WorkerStatus::Active), Some(WorkerStatus::Draining));
    let expected = [active, None, draining, None, active];
    assert_eq!(answers.expect("worker_heartbeats"), expected);
    let known = list(w, WorkerFilter::default()).await;
    let known: Vec<_> = known
        .iter()
        .map(|worker| (worker.current_load, worker.last_heartbeat_at))
        .collect();
    let now = w.instant();
    assert_eq!(known, [(8, now), (7, now)], "the last of two counts");
    let none = w.store.worker_heartbeats(Vec::new(), w.now()).await;
    assert_eq!(none.expect("worker_heartbeats"), []);
}

async fn an_unknown_worker_is_told_to_register_again(w: &World) {
    assert_eq!(heartbeat(w, "nobody").await, None);
    assert_eq!(list(w, WorkerFilter::default()).await, []);
    let set = w.store.set_worker_status("nobody", WorkerStatus::Draining);
    assert!(!set.await.expect("set_worker_status"));
}

async fn a_worker_asked_to_drain_hears_it_at_its_next_heartbeat(w: &World) {
    register(w, worker(w, "w1")).await;
    register(w, worker(w, "w2")).await;
    let set = w.store.set_worker_status("w1", WorkerStatus::Draining);
    assert!(set.await.expect("set_worker_status"));
    assert_eq!(heartbeat(w, "w1").await, Some(WorkerStatus::Draining));
    assert_eq!(heartbeat(w, "w2").await, Some(WorkerStatus::Active));
}

async fn a_deregistered_worker_is_gone(w: &World) {
    register(w, worker(w, "w1")).await;
    let deregister = || w.store.deregister_worker("w1");
    assert!(deregister().await.expect("deregister"));
    assert!(!deregister().await.expect("deregister"));
    assert_eq!(heartbeat(w, "w1").await, None);
}

async fn silent_workers_are_stopped_once_and_named_in_order(w: &World) {
    for id in ["silent-b", "silent-a", "draining", "on-time", "stopped"] {
        register(w, worker(w, id)).await;
    }
    for (id, status) in [
        ("draining", WorkerStatus::Draining),
        ("stopped", WorkerStatus::Stopped),
    ] {
        let set = w.store.set_worker_status(id, status).await;
        assert!(set.expect("set_worker_status"));
    }
    w.advance(SECOND);
    heartbeat(w, "on-time").await;
    let stop = || w.store.stop_silent_workers(w.instant());
    let stopped = stop().await.expect("stop_silent_workers");
    assert_eq!(stopped, ["draining", "silent-a", "silent-b"]);
    assert_eq!(
        stop().await.expect("stop_silent_workers"),
        Vec::<String>::new()
    );
    let active = WorkerFilter {
        status: Some(WorkerStatus::Active),
        ..WorkerFilter::default()
    };
    assert_eq!(ids(w, active).await, ["on-time"]);
    assert_eq!(
        heartbeat(w, "silent-a").await,
        Some(WorkerStatus::Stopped),
        "one that wakes up is told"
    );
}

async fn workers_are_listed_by_id_by_every_filter(w: &World) {
    for id in ["b", "a", "C"] {
        register(w, worker(w, id)).await;
    }
    w.advance(SECOND);
    let since = w.instant();
    let mut gpu = worker(w, "gpu-1");
    gpu.worker_group = "gpu".into();
    gpu.status = WorkerStatus::Draining;
    register(w, gpu).await;
    heartbeat(w, "b").await;
    let all = WorkerFilter::default;
    assert_eq!(ids(w, all()).await, ["C", "a", "b", "gpu-1"]);
    let by_group = WorkerFilter {
        worker_group: Some("gpu".into()),
        ..all()
    };
    assert_eq!(ids(w, by_group).await, ["gpu-1"]);
    let by_status = WorkerFilter {
        status: Some(WorkerStatus::Active),
        ..all()
    };
    assert_eq!(ids(w, by_status.clone()).await, ["C", "a", "b"]);
    let by_sign = WorkerFilter {
        heartbeat_since: Some(since),
        ..all()
    };
    assert_eq!(ids(w, by_sign).await, ["b", "gpu-1"]);
    let combined = WorkerFilter {
        worker_group: Some("default".into()),
        heartbeat_since: Some(since),
        ..by_status
    };
    assert_eq!(ids(w, combined).await, ["b"]);
}
