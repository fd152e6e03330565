//! J8: runs in flight, kill -9, restart: time until all move again.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everruns_durable::prelude::*;
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::Job;
use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::{Figures, histogram, note};
use crate::options::Mode;
use crate::output::Bar;
use crate::process::Ready;
use crate::raw;

/// One activity, within which the process is killed.
#[workflow]
async fn held(ctx: WorkflowContext, _input: ()) -> WorkflowResult<()> {
    ctx.activity_named::<()>("hold", ()).await
}

/// A worker that is nearly full claims no more: with room for twice as many all are in flight.
const ROOM: usize = 2;

/// Hosts the workflow; its activity does what the caller says, for all runs at once.
pub(crate) fn host<F>(
    builder: EngineBuilder,
    runs: usize,
    hold: impl Fn(Uuid) -> F + Send + Sync + 'static,
) -> EngineBuilder
where
    F: Future<Output = ()> + Send + 'static,
{
    builder
        .max_concurrent_tasks(runs.max(1) * ROOM)
        .workflow::<held>()
        .activity_fn("hold", move |ctx: ActivityContext, (): ()| {
            let hold = hold(ctx.workflow_id);
            async move {
                hold.await;
                Ok(())
            }
        })
}

/// Starts so many runs.
pub(crate) async fn start_all(client: &Client, runs: usize) -> anyhow::Result<()> {
    try_join_all((0..runs).map(|_| client.start::<held>(()).into_future())).await?;
    Ok(())
}

/// Where something outlives the process.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    if bench.kind() == Kind::Memory {
        return bench.skipped(Job::J8, "memory: does not outlive its process");
    }
    let runs = bench.options.in_flight();
    bench
        .case(async |database| measure(database, runs).await)
        .await?;
    Ok(())
}

async fn measure(database: &Database, runs: usize) -> anyhow::Result<Figures> {
    let bar = Bar::new(format!("J8, {runs} runs in flight"), runs);
    let victim = Ready::start(&["child-victim", &database.url, &runs.to_string()]).await?;
    let killed = Instant::now();
    victim.kill().await?;
    let moved: Arc<Mutex<HashSet<Uuid>>> = Arc::default();
    let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let all = Arc::new(Notify::new());
    let (seen, times, rings) = (Arc::clone(&moved), Arc::clone(&waits), Arc::clone(&all));
    let lease = Settings::default().worker.lease;
    let engine = host(Engine::open(&database.url), runs, move |run| {
        let mut seen = seen.lock();
        if seen.insert(run) {
            times.lock().push(killed.elapsed());
            if seen.len() == runs {
                rings.notify_one();
            }
        }
        std::future::ready(())
    })
    .start()
    .await?;
    let done = all.notified();
    tokio::pin!(done);
    loop {
        tokio::select! {
            () = &mut done => break,
            () = tokio::time::sleep(Duration::from_millis(200)) => bar.set(moved.lock().len()),
        }
    }
    let waits = std::mem::take(&mut *waits.lock());
    let took = waits.iter().max().copied().unwrap_or_default();
    engine.shutdown().await?;
    let mut latency = histogram()?;
    for wait in waits {
        note(&mut latency, wait);
    }
    let after_lease = took.as_secs_f64() - lease.as_secs_f64();
    let mut figures =
        Figures::time("J8", Mode::Embedded, "seconds", took.as_secs_f64()).with("runs", runs);
    figures.add("lease_s", lease.as_secs_f64());
    figures.add("seconds_after_lease", after_lease);
    figures.add_latency("moved_", latency);
    if database.kind == Kind::Postgres {
        // Bare statements also have to wait until nobody holds a lease.
        let raw = raw::recovery::took(&database.url, runs).await? + lease;
        figures.raw = Some(raw.as_secs_f64());
    }
    Ok(figures)
}
