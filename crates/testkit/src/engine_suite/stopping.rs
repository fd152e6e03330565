//! Engines that stop, and others that carry on.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::persistence::model::{
    Page, TaskFilter, TaskRecord, TaskStatus, WorkerFilter,
};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims, comes};
use crate::faults::{FaultRates, FaultyStore};

claims! { "stopping":
    a_shutdown_lets_running_activities_finish,
    a_shutdown_gives_back_what_does_not_finish_and_burns_no_attempt,
    a_run_is_carried_on_by_the_next_engine,
    two_engines_share_the_work_of_one_store,
    a_stopped_engine_is_no_longer_registered,
    a_task_that_a_commit_brings_during_a_shutdown_is_given_back,
    a_task_that_a_claim_brings_during_a_shutdown_is_given_back,
    a_shutdown_ends_though_the_store_is_out_of_reach,
}

async fn a_shutdown_lets_running_activities_finish(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([Step::activity("gated", json!(1))]))
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    let stopping = tokio::spawn(engine.shutdown());
    effects.open_gate();
    stopping.await.expect("joins").expect("stops");
    assert_eq!(effects.all(), ["gated began", "gated passed"]);
    let next = arena.engine(&effects).start().await.expect("starts");
    let handle = next.client().run::<Scripted>(run.id());
    assert_eq!(handle.result().await.expect("completes"), json!([1]));
    assert_eq!(effects.count("gated began"), 1, "it is not run again");
    next.shutdown().await.expect("stops");
}

async fn a_shutdown_gives_back_what_does_not_finish_and_burns_no_attempt(arena: &Arena) {
    let effects = Effects::new();
    let builder = arena.engine(&effects);
    let engine = builder
        .configure(|settings| settings.shutdown_grace = Duration::from_millis(20))
        .start()
        .await
        .expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([Step::tried("gated", json!(1), 1)]))
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    engine.shutdown().await.expect("stops");
    let filter = TaskFilter {
        run_id: Some(run.id()),
        ..TaskFilter::default()
    };
    let tasks = arena
        .store
        .list_tasks(filter, Page::default())
        .await
        .expect("lists");
    assert_eq!((tasks[0].attempt, tasks[0].deliveries), (0, 0));
    let next = arena.engine(&effects).start().await.expect("starts");
    effects.open_gate();
    let handle = next.client().run::<Scripted>(run.id());
    assert_eq!(handle.result().await.expect("completes"), json!([1]));
    next.shutdown().await.expect("stops");
}

async fn a_run_is_carried_on_by_the_next_engine(arena: &Arena) {
    let effects = Effects::new();
    let first = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([
        Step::activity("echo", json!(1)),
        Step::Signal {
            name: "go".to_owned(),
        },
        Step::activity("echo", json!(2)),
    ]);
    let run = first
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    effects.reached("echo 1", 1).await;
    // As a crash would: no farewell.
    drop(first);
    let second = arena.engine(&effects).start().await.expect("starts");
    let handle = second.client().run::<Scripted>(run.id());
    handle.signal("go", &"on").await.expect("taken");
    assert_eq!(
        handle.result().await.expect("completes"),
        json!([1, "on", 2])
    );
    second.shutdown().await.expect("stops");
}

async fn two_engines_share_the_work_of_one_store(arena: &Arena) {
    let effects = Effects::new();
    let first = arena
        .engine(&effects)
        .max_concurrent_tasks(2)
        .start()
        .await
        .expect("starts");
    let second = arena
        .engine(&effects)
        .max_concurrent_tasks(2)
        .start()
        .await
        .expect("starts");
    let client = first.client();
    let mut runs = Vec::new();
    for n in 0..30 {
        let script = Script::of([
            Step::Parallel {
                name: "echo".to_owned(),
                count: 4,
            },
            Step::activity("echo", json!(n)),
        ]);
        runs.push(client.start::<Scripted>(script).await.expect("starts"));
    }
    for run in &runs {
        run.result().await.expect("completes");
    }
    first.shutdown().await.expect("stops");
    second.shutdown().await.expect("stops");
}

async fn a_stopped_engine_is_no_longer_registered(arena: &Arena) {
    let engine = arena
        .engine(&Effects::new())
        .worker_id("w-1")
        .start()
        .await
        .expect("starts");
    while arena
        .store
        .list_workers(WorkerFilter::default())
        .await
        .expect("lists")
        .is_empty()
    {
        engine
            .run::<Scripted>(Script::default())
            .await
            .expect("completes");
    }
    engine.shutdown().await.expect("stops");
    let workers = arena
        .store
        .list_workers(WorkerFilter::default())
        .await
        .expect("lists");
    assert!(workers.is_empty(), "{workers:?}");
}

async fn only_task(arena: &Arena, run_id: uuid::Uuid) -> TaskRecord {
    let filter = TaskFilter {
        run_id: Some(run_id),
        ..TaskFilter::default()
    };
    let tasks = arena.store.list_tasks(filter, Page::default()).await;
    tasks.expect("lists").remove(0)
}

async fn a_task_that_a_commit_brings_during_a_shutdown_is_given_back(arena: &Arena) {
    let effects = Effects::new();
    let slow = Arc::new(FaultyStore::new(arena.store.clone(), 0, FaultRates::NONE));
    let builder = arena.on(slow.clone()).engine(&effects);
    let engine = builder.start().await.expect("starts");
    slow.hold("commit_turns");
    let script = Script::of([Step::activity("echo", json!(1))]);
    let client = engine.client();
    let run = client.start::<Scripted>(script).await.expect("starts");
    slow.holds_one().await;
    // Polled in this order: the shutdown has begun when the commit goes on.
    let (stopped, ()) = tokio::join!(engine.shutdown(), async { slow.let_go() });
    stopped.expect("stops");
    assert_unrun(arena, run.id(), &effects).await;
}

async fn a_task_that_a_claim_brings_during_a_shutdown_is_given_back(arena: &Arena) {
    let effects = Effects::new();
    let slow = Arc::new(FaultyStore::new(arena.store.clone(), 0, FaultRates::NONE));
    slow.hold("claim_tasks");
    let builder = arena.on(slow.clone()).engine(&effects);
    let engine = builder.start().await.expect("starts");
    slow.holds_one().await;
    // Queued by somebody who runs no activities, so that only a claim can bring it.
    let other = Engine::on(arena.store.clone()).workflow::<Scripted>();
    let other = other.start().await.expect("starts");
    let script = Script::of([Step::activity("echo", json!(1))]);
    let client = other.client();
    let run = client.start::<Scripted>(script).await.expect("starts");
    while run.get().await.expect("there").sequence == 0 {
        tokio::task::yield_now().await;
    }
    let (stopped, ()) = tokio::join!(engine.shutdown(), async { slow.let_go() });
    stopped.expect("stops");
    assert_unrun(arena, run.id(), &effects).await;
    other.shutdown().await.expect("stops");
}

async fn assert_unrun(arena: &Arena, run_id: uuid::Uuid, effects: &Effects) {
    let task = only_task(arena, run_id).await;
    assert_eq!(task.status, TaskStatus::Pending);
    assert_eq!((task.attempt, task.deliveries), (0, 0));
    assert!(effects.all().is_empty(), "{:?}", effects.all());
}

async fn a_shutdown_ends_though_the_store_is_out_of_reach(arena: &Arena) {
    let effects = Effects::new();
    let store = Arc::new(FaultyStore::new(arena.store.clone(), 0, FaultRates::NONE));
    let builder = arena.on(store.clone()).engine(&effects);
    let engine = builder
        .configure(|settings| settings.shutdown_grace = Duration::from_millis(50))
        .start()
        .await
        .expect("starts");
    let script = Script::of([Step::activity("gated", json!(1))]);
    let client = engine.client();
    let run = client.start::<Scripted>(script).await.expect("starts");
    effects.reached("gated began", 1).await;
    store.set_rates(FaultRates {
        failed_before: 100,
        ..FaultRates::NONE
    });
    effects.open_gate();
    let stopped = comes("the end of the shutdown", engine.shutdown()).await;
    let error = stopped.expect_err("nothing could be stored");
    assert!(error.to_string().contains("50ms"), "{error}");
    // What it held comes back by itself.
    let next = arena.engine(&effects).start().await.expect("starts");
    let handle = next.client().run::<Scripted>(run.id());
    assert_eq!(handle.result().await.expect("completes"), json!([1]));
    next.shutdown().await.expect("stops");
}
