//! What engines do in the background: old runs, samples, processes that died.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use durable_core::Payload;
use everruns_durable::persistence::model::{
    WorkerFilter, WorkerInfo, WorkerStatus, WorkflowStatus,
};
use everruns_durable::runtime::{Life, Runtime, SystemClock};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "chores":
    retention_deletes_old_runs_and_leaves_the_others,
    runs_are_kept_by_default,
    counts_are_sampled_where_asked_for,
    a_silent_worker_counts_as_stopped_and_its_tasks_run_elsewhere,
    a_worker_taken_for_dead_registers_again,
    a_worker_that_shuts_down_says_so_and_beats_on,
    a_worker_drains_and_goes_on_as_an_operator_says,
}

/// Looks again and again, until it is so.
async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    while !so().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn retention_deletes_old_runs_and_leaves_the_others(arena: &Arena) {
    let keeper = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = keeper.client();
    let waits = Script::of([Step::Signal {
        name: "go".to_owned(),
    }]);
    let open = client.start::<Scripted>(waits).await.expect("starts");
    let mut old = Vec::new();
    for n in 0..5 {
        let run = client
            .start::<Scripted>(Script::of([Step::activity("echo", json!(n))]))
            .await
            .expect("starts");
        run.result().await.expect("completes");
        old.push(run);
    }
    let builder = arena.engine(&Effects::new());
    let engine = builder
        .configure(|settings| {
            settings.chores.retention = Some(Duration::ZERO);
            settings.chores.retention_interval = Duration::from_millis(20);
        })
        .start()
        .await
        .expect("starts");
    for run in &old {
        until(|| async { run.get().await.is_err_and(|error| error.is_not_found()) }).await;
    }
    assert!(!open.get().await.expect("still there").status.is_terminal());
    engine.shutdown().await.expect("stops");
    open.signal("go", &"on").await.expect("taken");
    open.result().await.expect("completes");
    keeper.shutdown().await.expect("stops");
}

async fn runs_are_kept_by_default(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).configure(|settings| {
        assert_eq!(
            settings.chores.retention,
            Some(Duration::from_secs(30 * 24 * 60 * 60))
        );
        settings.chores.retention_interval = Duration::from_millis(1);
        settings.chores.sample_interval = Some(Duration::from_millis(1));
    });
    let engine = engine.start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::default())
        .await
        .expect("starts");
    run.result().await.expect("completes");
    // Samples are taken beside: the chores have had their turns.
    let sampled = engine.metrics_history().len();
    until(|| async { engine.metrics_history().len() > sampled + 5 }).await;
    run.get().await.expect("still there");
    engine.shutdown().await.expect("stops");
}

async fn counts_are_sampled_where_asked_for(arena: &Arena) {
    let plain = arena.engine(&Effects::new()).start().await.expect("starts");
    plain
        .run::<Scripted>(Script::default())
        .await
        .expect("completes");
    assert!(plain.metrics_history().is_empty());
    // One that has ended and one that stays open.
    let open = plain
        .client()
        .start_named("hosted nowhere", Payload::null());
    open.await.expect("starts");
    plain.shutdown().await.expect("stops");
    let builder = arena.engine(&Effects::new());
    let engine = builder
        .configure(|settings| settings.chores.sample_interval = Some(Duration::from_millis(5)))
        .start()
        .await
        .expect("starts");
    until(|| async { engine.metrics_history().len() > 2 }).await;
    let points = engine.metrics_history();
    assert!(points.is_sorted_by_key(|point| point.at));
    let open = BTreeMap::from([(WorkflowStatus::Pending, 1)]);
    assert_eq!(points[0].counts.runs, open, "ended runs are not counted");
    engine.shutdown().await.expect("stops");
}

async fn a_silent_worker_counts_as_stopped_and_its_tasks_run_elsewhere(arena: &Arena) {
    let effects = Effects::new();
    let life = Life::new();
    let runtime = Runtime::seeded(7, Arc::new(SystemClock), life.clone());
    let doomed = arena.engine(&effects).worker_id("doomed").runtime(runtime);
    let doomed = doomed.start().await.expect("starts");
    let script = Script::of([Step::activity("gated", json!(1))]);
    let run = doomed
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    let status_of = async |worker: &str| {
        let workers = arena
            .store
            .list_workers(WorkerFilter::default())
            .await
            .expect("lists");
        workers
            .into_iter()
            .find(|info| info.id == worker)
            .map(|info| info.status)
    };
    until(|| async { status_of("doomed").await.is_some() }).await;
    life.kill();
    let survivor = arena
        .engine(&effects)
        .worker_id("survivor")
        .configure(|settings| {
            settings.worker.heartbeat_interval = Duration::from_millis(50);
            settings.worker.stale_after = Duration::from_secs(1);
        });
    let survivor = survivor.start().await.expect("starts");
    until(|| async { status_of("doomed").await == Some(WorkerStatus::Stopped) }).await;
    effects.reached("gated began", 2).await;
    effects.open_gate();
    let handle = survivor.client().run::<Scripted>(run.id());
    assert_eq!(handle.result().await.expect("completes"), json!([1]));
    assert_eq!(status_of("survivor").await, Some(WorkerStatus::Active));
    survivor.shutdown().await.expect("stops");
    drop(doomed);
}

async fn a_worker_taken_for_dead_registers_again(arena: &Arena) {
    let builder = arena.engine(&Effects::new()).worker_id("sleeper");
    let engine = builder
        // By its own clock it was never silent for long: a suspended machine's stands still meanwhile.
        .configure(|settings| settings.worker.heartbeat_interval = Duration::from_millis(50))
        .start()
        .await
        .expect("starts");
    let status = async || {
        let workers = arena
            .store
            .list_workers(WorkerFilter::default())
            .await
            .expect("lists");
        workers.first().map(|info| info.status)
    };
    until(|| async { status().await.is_some() }).await;
    arena
        .store
        .set_worker_status("sleeper", WorkerStatus::Stopped)
        .await
        .expect("sets");
    until(|| async { status().await == Some(WorkerStatus::Active) }).await;
    engine
        .run::<Scripted>(Script::of([Step::activity("echo", json!(1))]))
        .await
        .expect("still takes tasks");
    assert!(engine.pool().accepting_tasks());
    engine.shutdown().await.expect("stops");
}

async fn worker_of(arena: &Arena, id: &str) -> Option<WorkerInfo> {
    let all = arena.store.list_workers(WorkerFilter::default());
    let mut workers = all.await.expect("lists").into_iter();
    workers.find(|worker| worker.id == id)
}

async fn a_worker_that_shuts_down_says_so_and_beats_on(arena: &Arena) {
    let effects = Effects::new();
    let builder = arena.engine(&effects).worker_id("leaving");
    let engine = builder
        .configure(|settings| settings.worker.heartbeat_interval = Duration::from_millis(20))
        .start()
        .await
        .expect("starts");
    let script = Script::of([Step::activity("gated", json!(1))]);
    let run = engine.client().start::<Scripted>(script);
    run.await.expect("starts");
    effects.reached("gated began", 1).await;
    until(|| async { worker_of(arena, "leaving").await.is_some() }).await;
    let watched = async {
        let status = async || {
            worker_of(arena, "leaving")
                .await
                .map(|worker| worker.status)
        };
        until(|| async { status().await == Some(WorkerStatus::Draining) }).await;
        let seen = worker_of(arena, "leaving").await.expect("is listed");
        assert!(!seen.accepting_tasks);
        let beaten = async || {
            let worker = worker_of(arena, "leaving").await;
            worker.is_some_and(|now| now.last_heartbeat_at > seen.last_heartbeat_at)
        };
        until(|| async { beaten().await }).await;
        effects.open_gate();
    };
    let (stopped, ()) = tokio::join!(engine.shutdown(), watched);
    stopped.expect("stops");
    let left = worker_of(arena, "leaving").await;
    assert!(left.is_none_or(|worker| worker.status == WorkerStatus::Stopped));
}

async fn a_worker_drains_and_goes_on_as_an_operator_says(arena: &Arena) {
    let effects = Effects::new();
    let builder = arena.engine(&effects).worker_id("drained");
    let engine = builder
        .configure(|settings| settings.worker.heartbeat_interval = Duration::from_millis(20))
        .start()
        .await
        .expect("starts");
    until(|| async { worker_of(arena, "drained").await.is_some() }).await;
    let set = async |status| {
        let set = arena.store.set_worker_status("drained", status).await;
        assert!(set.expect("sets"), "it is known");
    };
    set(WorkerStatus::Draining).await;
    until(|| async { !engine.pool().accepting_tasks() }).await;
    let script = Script::of([Step::activity("echo", json!(1))]);
    let start = engine.client().start::<Scripted>(script);
    let run = start.await.expect("starts");
    let queued = async || {
        let counts = arena.store.counts().await.expect("counts");
        !counts.tasks.is_empty()
    };
    until(|| async { queued().await }).await;
    // Runs without activities come and go meanwhile.
    for _ in 0..5 {
        let other = engine.run::<Scripted>(Script::default());
        other.await.expect("completes");
    }
    assert!(effects.all().is_empty(), "it takes no task");
    set(WorkerStatus::Active).await;
    assert_eq!(run.result().await.expect("completes"), json!([1]));
    assert!(engine.pool().accepting_tasks());
    engine.shutdown().await.expect("stops");
}
