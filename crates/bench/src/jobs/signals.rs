//! J7: many signals to one run, and one to each of many.

use std::time::{Duration, Instant};

use anyhow::ensure;
use everruns_durable::prelude::*;
use everruns_durable::workflow::WorkflowDefinition as _;

use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::{Figures, histogram, note, per_second};
use crate::options::Mode;
use crate::output::Bar;
use crate::raw;
use crate::work::unfinished;

/// How often is looked whether all have ended.
const LOOK: Duration = Duration::from_millis(5);

/// Takes so many signals and adds them up.
#[workflow]
async fn listener(ctx: WorkflowContext, signals: u64) -> WorkflowResult<u64> {
    let mut sum = 0;
    for _ in 0..signals {
        sum += ctx.signal::<u64>("add").await?;
    }
    Ok(sum)
}

/// To one run, and to as many runs as there are signals.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    let signals = bench.options.signals();
    bench
        .case(async |database| {
            let (took, latency) = to_one(database, signals).await?;
            let figures = figures(database, took, signals, 1).await?;
            Ok(with_latency(figures, latency))
        })
        .await?;
    bench
        .case(async |database| {
            let (took, latency) = one_each(database, signals).await?;
            let figures = figures(database, took, signals, signals).await?;
            Ok(with_latency(figures, latency))
        })
        .await?;
    Ok(())
}

/// How long it took in all, and how long each sender waited.
type Seen = (Duration, hdrhistogram::Histogram<u64>);

async fn to_one(database: &Database, signals: usize) -> anyhow::Result<Seen> {
    let bar = Bar::new(format!("J7, {signals} signals to one run"), signals);
    let engine = Engine::open(&database.url)
        .workflow::<listener>()
        .start()
        .await?;
    let client = engine.client();
    let run = client.start::<listener>(signals as u64).await?;
    let began = Instant::now();
    let sends = (0..signals).map(|_| async {
        run.signal("add", &1_u64).await?;
        Ok::<_, Error>(began.elapsed())
    });
    let accepted = try_join_all(sends).await?;
    let sum = run.result().await?;
    let took = began.elapsed();
    bar.set(signals);
    ensure!(sum == signals as u64, "a signal is missing");
    engine.shutdown().await?;
    Ok((took, latency(&accepted)?))
}

async fn one_each(database: &Database, runs: usize) -> anyhow::Result<Seen> {
    let bar = Bar::new(format!("J7, a signal to each of {runs} runs"), runs);
    let engine = Engine::open(&database.url)
        .workflow::<listener>()
        .start()
        .await?;
    let client = engine.client();
    let starts = (0..runs).map(|_| client.start::<listener>(1).into_future());
    let started = try_join_all(starts).await?;
    let began = Instant::now();
    let sends = started.iter().map(|run| async move {
        run.signal("add", &1_u64).await?;
        Ok::<_, Error>(began.elapsed())
    });
    let accepted = try_join_all(sends).await?;
    loop {
        let left = unfinished(&**client.store(), listener::TYPE).await?;
        bar.set(runs - left);
        if left == 0 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let took = began.elapsed();
    engine.shutdown().await?;
    Ok((took, latency(&accepted)?))
}

/// All were meant to be sent at the beginning, so each one's wait counts from there.
fn latency(accepted: &[Duration]) -> anyhow::Result<hdrhistogram::Histogram<u64>> {
    let mut latency = histogram()?;
    for waited in accepted {
        note(&mut latency, *waited);
    }
    Ok(latency)
}

async fn figures(
    database: &Database,
    took: Duration,
    signals: usize,
    runs: usize,
) -> anyhow::Result<Figures> {
    let mut figures = Figures::time("J7", Mode::Embedded, "seconds", took.as_secs_f64())
        .with("signals", signals)
        .with("runs", runs);
    figures.add("signals_per_s", per_second(signals, took));
    if database.kind == Kind::Postgres {
        let raw = raw::signals::took(&database.url, signals, runs).await?;
        figures.raw = Some(raw.as_secs_f64());
    }
    Ok(figures)
}

fn with_latency(mut figures: Figures, latency: hdrhistogram::Histogram<u64>) -> Figures {
    figures.add_latency("accepted_", latency);
    figures
}
