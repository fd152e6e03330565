//! Many at once, in one process: a hundred workflows, a thousand workers.
//!
//! Activities that wait for each other prove it: they end only when all are under way at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use durable_testkit::audit::audit;
use durable_testkit::engine_suite::{Script, Scripted, Step};
use durable_testkit::flavour::Kind;
use durable_testkit::process::until;
use durable_testkit::{Flavour, StoreUnderTest};
use everruns_durable::persistence::model::TaskStatus;
use everruns_durable::prelude::*;
use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::sync::Barrier;

async fn store(kind: Kind) -> anyhow::Result<StoreUnderTest> {
    Flavour { kind, shards: 1 }.open().await
}

async fn close(under_test: StoreUnderTest) -> anyhow::Result<()> {
    let report = audit(&*under_test.store, None).await?;
    assert!(report.is_clean(), "{report}");
    under_test.close().await;
    Ok(())
}

async fn a_hundred_workflows_run_at_once(kind: Kind) -> anyhow::Result<()> {
    const WORKFLOWS: usize = 100;
    let under_test = store(kind).await?;
    let all_there = Arc::new(Barrier::new(WORKFLOWS));
    let engine = Engine::on(Arc::clone(&under_test.store))
        .workflow::<Scripted>()
        .activity_fn("meet", move |_ctx, input: Value| {
            let all_there = Arc::clone(&all_there);
            async move {
                all_there.wait().await;
                Ok(input)
            }
        })
        .start()
        .await?;
    let runs = (0..WORKFLOWS)
        .map(|n| engine.run::<Scripted>(Script::of([Step::activity("meet", json!(n))])));
    let results = try_join_all(runs).await?;
    assert!(
        (0..).zip(&results).all(|(n, result)| *result == json!([n])),
        "{results:?}"
    );
    engine.shutdown().await?;
    close(under_test).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workflows_run_at_once_in_memory() -> anyhow::Result<()> {
    a_hundred_workflows_run_at_once(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workflows_run_at_once_on_sqlite() -> anyhow::Result<()> {
    a_hundred_workflows_run_at_once(Kind::Sqlite).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workflows_run_at_once_on_postgres() -> anyhow::Result<()> {
    a_hundred_workflows_run_at_once(Kind::Postgres).await
}

/// A worker with one slot that runs `meet`. It gives signs of life rarely: a thousand of them share two cores here.
fn lonely_worker(
    under_test: &StoreUnderTest,
    all_there: &Arc<Barrier>,
    finished: &Arc<AtomicUsize>,
) -> EngineBuilder {
    let all_there = Arc::clone(all_there);
    let finished = Arc::clone(finished);
    Engine::on(Arc::clone(&under_test.store))
        .max_concurrent_tasks(1)
        .configure(|settings| {
            settings.worker.lease = Duration::from_secs(300);
            settings.worker.lease_renewal = Duration::from_secs(60);
            settings.worker.heartbeat_interval = Duration::from_secs(60);
            settings.worker.stale_after = Duration::from_secs(600);
            settings.chores.reap_interval = Duration::from_secs(60);
        })
        .activity_fn("meet", move |_ctx, input: Value| {
            let (all_there, finished) = (Arc::clone(&all_there), Arc::clone(&finished));
            async move {
                all_there.wait().await;
                finished.fetch_add(1, Ordering::SeqCst);
                Ok(input)
            }
        })
}

async fn a_thousand_live_workers_each_finish_a_task(kind: Kind) -> anyhow::Result<()> {
    const WORKERS: usize = 1_000;
    let under_test = store(kind).await?;
    let host = Engine::on(Arc::clone(&under_test.store))
        .workflow::<Scripted>()
        // Engines that share an open store cannot ring for each other: this one looks for results by itself.
        .configure(|settings| settings.chores.fallback_poll = Duration::from_millis(250))
        .start()
        .await?;
    let meet = Step::Parallel {
        name: "meet".to_owned(),
        count: WORKERS,
    };
    let run = host.client().start::<Scripted>(Script::of([meet])).await?;

    // Nobody rings for engines that come later; they look when they start.
    until("a task for everybody", async || {
        let counts = under_test.store.counts().await.expect("counts");
        let waiting = counts.tasks.get("meet")?.get(&TaskStatus::Pending)?;
        (*waiting == WORKERS as u64).then_some(())
    })
    .await;

    let all_there = Arc::new(Barrier::new(WORKERS));
    let finished: Vec<Arc<AtomicUsize>> = (0..WORKERS).map(|_| Arc::default()).collect();
    let workers = finished
        .iter()
        .map(|finished| lonely_worker(&under_test, &all_there, finished).start());
    let workers = try_join_all(workers).await?;
    let results = run.result().await?;
    assert_eq!(results.as_array().map(Vec::len), Some(WORKERS));
    // One slot each, and none was free before all had a task: each had exactly one.
    assert!(
        finished
            .iter()
            .all(|finished| finished.load(Ordering::SeqCst) == 1)
    );
    for stopped in join_all(workers.into_iter().map(Engine::shutdown)).await {
        stopped?;
    }
    host.shutdown().await?;
    close(under_test).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_live_workers_each_finish_a_task_in_memory() -> anyhow::Result<()> {
    a_thousand_live_workers_each_finish_a_task(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_live_workers_each_finish_a_task_on_sqlite() -> anyhow::Result<()> {
    a_thousand_live_workers_each_finish_a_task(Kind::Sqlite).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_live_workers_each_finish_a_task_on_postgres() -> anyhow::Result<()> {
    a_thousand_live_workers_each_finish_a_task(Kind::Postgres).await
}
