//! J1: N workflows of five sequential no-op activities, all started up front.

use everruns_durable::prelude::*;

use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::Figures;
use crate::options::Mode;
use crate::output::Bar;
use crate::pg_stats::Meter;
use crate::process::Remote;
use crate::raw::client200;
use crate::work::{Done, Embedded, FiveSteps, STEPS, work_elsewhere};

/// Every size embedded, the first one remote too.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    let sizes = bench.options.runs();
    if bench.options.wants(Mode::Embedded) {
        for runs in &sizes {
            bench
                .case(async |database| embedded(database, *runs).await)
                .await?;
        }
    }
    if bench.options.wants(Mode::Remote) {
        let runs = bench.options.comparison_runs();
        bench
            .case(async |database| remote(database, runs).await)
            .await?;
    }
    Ok(())
}

async fn embedded(database: &Database, runs: usize) -> anyhow::Result<Figures> {
    let work = Embedded::open(&database.url).await?;
    let bar = Bar::new(format!("J1, {runs} runs"), runs * STEPS);
    let meter = Meter::of(database).await?;
    let before = match &meter {
        Some(meter) => Some(meter.read().await?),
        None => None,
    };
    let done = work.work(runs, &bar).await?;
    let mut figures = figures(Mode::Embedded, runs, done);
    if let (Some(meter), Some(before)) = (meter, before) {
        let cost = meter
            .read()
            .await?
            .since(before)
            .per("activity", runs * STEPS);
        figures.add_all(cost.iter().map(|(name, value)| (name.as_str(), *value)));
    }
    work.engine.shutdown().await?;
    with_raw(database, runs, figures).await
}

async fn remote(database: &Database, runs: usize) -> anyhow::Result<Figures> {
    let processes = Remote::start(&database.url).await?;
    let client = Client::connect(processes.url.as_str()).await?;
    client.start::<FiveSteps>(()).await?.result().await?;
    let bar = Bar::new(format!("J1 remote, {runs} runs"), runs * STEPS);
    let done = work_elsewhere(&client, runs, &bar).await?;
    let figures = figures(Mode::Remote, runs, done);
    processes.stop().await?;
    with_raw(database, runs, figures).await
}

/// The figure of an embedded J1 in an empty database, for jobs that compare with it.
pub(super) async fn alone(bench: &Bench) -> anyhow::Result<f64> {
    let runs = bench.options.comparison_runs();
    let bar = Bar::new(format!("J1 to compare, {runs} runs"), runs * STEPS);
    let database = bench.database().await?;
    let work = Embedded::open(&database.url).await?;
    let done = work.work(runs, &bar).await?;
    work.engine.shutdown().await?;
    Ok(done.activities_per_s())
}

fn figures(mode: Mode, runs: usize, done: Done) -> Figures {
    let mut figures =
        Figures::rate("J1", mode, "activities_per_s", done.activities_per_s()).with("runs", runs);
    figures.add("seconds", done.took.as_secs_f64());
    if let Some(ratio) = done.series.last_half() {
        figures.add("last_quarter_to_third", ratio);
    }
    figures.series = Some(done.series);
    figures
}

async fn with_raw(
    database: &Database,
    runs: usize,
    mut figures: Figures,
) -> anyhow::Result<Figures> {
    if database.kind == Kind::Postgres {
        figures.raw = Some(client200::activities_per_s(&database.url, runs).await?);
    }
    Ok(figures)
}
