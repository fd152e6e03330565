//! Many tasks, shared by processes and within the memory of one.

use durable_testkit::engine_suite::{Script, Scripted, Step};
use durable_testkit::process::open_store;
use everruns_durable::prelude::*;

use crate::ground::Ground;

fn parallel(name: &str, count: usize) -> Script {
    let name = name.to_owned();
    Script::of([Step::Parallel { name, count }])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_worker_processes_share_the_work() -> anyhow::Result<()> {
    const TASKS: usize = 600;
    let ground = Ground::postgres().await?;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(ground.worker(&[&["--slots", "4"]]).await?);
    }
    let engine = Engine::on(open_store(&ground.url).await?)
        .workflow::<Scripted>()
        .start()
        .await?;
    engine.run::<Scripted>(parallel("paced", TASKS)).await?;
    engine.shutdown().await?;
    for worker in workers {
        worker.stop().await?;
    }
    let shares = ground.effects.by_process();
    assert_eq!(shares.len(), 3, "{shares:?}");
    let fair = TASKS / 3;
    assert!(
        shares
            .values()
            .all(|share| share.abs_diff(fair) <= fair / 5),
        "{shares:?}"
    );
    ground.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_go_through_one_worker_in_bounded_memory() -> anyhow::Result<()> {
    const MEMORY_MIB_MAX: u64 = 512;
    let ground = Ground::postgres().await?;
    let worker = ground.worker(&[&["--workflows", "--slots", "200"]]).await?;
    let client = ground.client().await?;
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(client.start::<Scripted>(parallel("effect", 100)).await?);
    }
    for run in runs {
        assert_eq!(run.ended().await?.status.as_str(), "completed");
    }
    let memory = worker.peak_memory_mib()?;
    assert!(memory < MEMORY_MIB_MAX, "{memory} MiB");
    worker.stop().await?;
    assert_eq!(ground.effects.count(), 10_000);
    ground.close().await
}
