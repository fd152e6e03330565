//! J6: sleeping runs that are due over a time, or at one instant: how late they are. And parked ones: what they hold, and what others lose beside
//! them.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use everruns_durable::prelude::*;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::Value;

use super::throughput;
use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::{Figures, histogram, note, per_second, percentile_ms};
use crate::options::Mode;
use crate::output::Bar;
use crate::process::{monotonic_us, resident_mib};
use crate::raw::{self, client200};
use crate::work::{Embedded, unfinished};

/// Runs started at once: the next ones wait, so that what is measured is not the memory of their starts.
const STARTED_AT_ONCE: usize = 2_000;
/// How often is looked whether all have fired.
const LOOK: Duration = Duration::from_millis(20);
/// For how long parked runs sleep.
const PARKED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How late sleepers woke; a workflow has no other way to tell.
static LATENESS: Mutex<Option<Histogram<u64>>> = Mutex::new(None);

/// Sleeps until an instant of the machine's monotonic clock. Reading it is not for workflow code: here it does no harm, since ids and
/// types are the same at every reading.
struct Sleeper {
    due_us: i64,
    awake: bool,
}

impl Workflow for Sleeper {
    const TYPE: &'static str = "sleeper";
    type Input = i64;
    type Output = ();

    fn new(due_us: i64) -> Self {
        Self {
            due_us,
            awake: false,
        }
    }
    fn on_start(&mut self) -> Vec<WorkflowAction> {
        let left = u64::try_from(self.due_us - monotonic_us()).unwrap_or(0);
        vec![WorkflowAction::StartTimer {
            timer_id: "sleep".to_owned(),
            duration: Duration::from_micros(left),
        }]
    }
    fn on_activity_completed(&mut self, _id: &str, _result: Value) -> Vec<WorkflowAction> {
        vec![]
    }
    fn on_activity_failed(&mut self, _id: &str, _error: &ActivityError) -> Vec<WorkflowAction> {
        vec![]
    }
    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        self.awake = true;
        let late = u64::try_from(monotonic_us() - self.due_us).unwrap_or(0);
        if let Some(lateness) = &mut *LATENESS.lock() {
            note(lateness, Duration::from_micros(late));
        }
        vec![]
    }
    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }
    fn is_completed(&self) -> bool {
        self.awake
    }
}

/// Spread, at one instant, parked.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    let spread = Duration::from_millis(bench.options.sizes.spread_ms);
    bench
        .case(async |database| due(bench, database, "spread", spread).await)
        .await?;
    bench
        .case(async |database| due(bench, database, "instant", Duration::ZERO).await)
        .await?;
    bench
        .case(async |database| parked(bench, database).await)
        .await?;
    Ok(())
}

/// Starts sleepers that are due evenly over a time, and waits until all are over.
async fn due(
    bench: &Bench,
    database: &Database,
    case: &str,
    spread: Duration,
) -> anyhow::Result<Figures> {
    let timers = bench.options.timers();
    let bar = Bar::new(format!("J6 {case}, {timers} sleepers"), timers);
    let engine = Engine::open(&database.url)
        .workflow::<Sleeper>()
        .start()
        .await?;
    let client = engine.client();
    let first = start_before_due(&client, timers, spread, &bar).await?;
    while LATENESS
        .lock()
        .as_ref()
        .is_some_and(|seen| seen.len() < timers as u64)
    {
        tokio::time::sleep(LOOK).await;
    }
    all_over(&client).await?;
    let took = Duration::from_micros(u64::try_from(monotonic_us() - first)?);
    let lateness = LATENESS.lock().take().context("it is there until here")?;
    engine.shutdown().await?;
    figures(bench, database, case, spread, &lateness, took).await
}

/// The lateness of spread ones; the rate of those at one instant, beside a J1.
async fn figures(
    bench: &Bench,
    database: &Database,
    case: &str,
    spread: Duration,
    lateness: &Histogram<u64>,
    took: Duration,
) -> anyhow::Result<Figures> {
    let timers = bench.options.timers();
    let raw = match database.kind {
        Kind::Postgres => Some(raw::timers::fire(&database.url, timers, spread).await?),
        _ => None,
    };
    let fired_per_s = per_second(timers, took);
    let mut figures = if spread.is_zero() {
        let mut figures = Figures::rate("J6", Mode::Embedded, "fired_per_s", fired_per_s);
        figures.raw = raw.map(|raw| per_second(timers, raw.took));
        let j1 = throughput::alone(bench).await?;
        figures.add("j1_activities_per_s", j1);
        figures.add("fired_to_j1", fired_per_s / j1);
        figures
    } else {
        let p99 = percentile_ms(lateness, 99.0);
        let mut figures = Figures::time("J6", Mode::Embedded, "p99_ms", p99);
        figures.raw = raw.map(|raw| percentile_ms(&raw.lateness, 99.0));
        figures
    };
    figures.add_latency("", lateness.clone());
    Ok(figures.with("case", case).with("timers", timers))
}

/// Starts sleepers before the first of them is due, and answers when that is. Where that fails, since something else was busy, they are let
/// run out and others are given twice the time.
async fn start_before_due(
    client: &Client,
    timers: usize,
    spread: Duration,
    bar: &Bar,
) -> anyhow::Result<i64> {
    let mut needed = start_time(client, timers).await?;
    let spread_us = i64::try_from(spread.as_micros())?;
    let count = i64::try_from(timers)?;
    loop {
        let first = monotonic_us() + i64::try_from(needed.as_micros())?;
        let dues: Vec<i64> = (0..count).map(|n| first + spread_us * n / count).collect();
        *LATENESS.lock() = Some(histogram()?);
        start(client, &dues, bar).await?;
        if monotonic_us() < first {
            return Ok(first);
        }
        all_over(client).await?;
        needed *= 2;
    }
}

/// How long so many starts may take, by how long some take: twice that, and a second.
async fn start_time(client: &Client, timers: usize) -> anyhow::Result<Duration> {
    let some = timers.clamp(1, STARTED_AT_ONCE);
    let began = Instant::now();
    let awake = vec![monotonic_us(); some];
    for _ in 0..2 {
        start_set(client, &awake).await?;
    }
    all_over(client).await?;
    let sets = u32::try_from(timers.div_ceil(some))?;
    Ok(began.elapsed() * sets + Duration::from_secs(1))
}

/// Waits until no sleeper is left.
async fn all_over(client: &Client) -> anyhow::Result<()> {
    while unfinished(&**client.store(), Sleeper::TYPE).await? > 0 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn start(client: &Client, dues: &[i64], bar: &Bar) -> anyhow::Result<()> {
    for (set, dues) in dues.chunks(STARTED_AT_ONCE).enumerate() {
        start_set(client, dues).await?;
        bar.set(set * STARTED_AT_ONCE);
    }
    Ok(())
}

async fn start_set(client: &Client, dues: &[i64]) -> anyhow::Result<()> {
    let starts = dues
        .iter()
        .map(|due| client.start::<Sleeper>(*due).into_future());
    try_join_all(starts).await?;
    Ok(())
}

/// What parked runs hold, and what a J1 beside them loses.
async fn parked(bench: &Bench, database: &Database) -> anyhow::Result<Figures> {
    let parked = bench.options.parked();
    let runs = bench.options.comparison_runs();
    let alone = throughput::alone(bench).await?;
    let bar = Bar::new(format!("J6 parked, {parked} runs"), parked);
    let before = resident_mib()?;
    let work = Embedded::start(Engine::open(&database.url).workflow::<Sleeper>()).await?;
    let client = work.engine.client();
    let due = monotonic_us() + i64::try_from(PARKED_FOR.as_micros())?;
    for first in (0..parked).step_by(STARTED_AT_ONCE) {
        start_set(&client, &vec![due; STARTED_AT_ONCE.min(parked - first)]).await?;
        bar.set(first);
    }
    while not_begun(&client).await? > 0 {
        tokio::time::sleep(LOOK).await;
    }
    let resident = resident_mib()?;
    drop(bar);
    let bar = Bar::new(format!("J1 beside {parked} parked, {runs} runs"), runs);
    let beside = work.work(runs, &bar).await?.activities_per_s();
    work.engine.shutdown().await?;
    let mut figures = Figures::rate("J6", Mode::Embedded, "activities_per_s", beside)
        .with("case", "parked")
        .with("parked", parked)
        .with("runs", runs);
    figures.add("alone_activities_per_s", alone);
    figures.add("to_alone", beside / alone);
    figures.add("resident_mib", resident);
    figures.add("resident_mib_grown", (resident - before).max(0.0));
    if database.kind == Kind::Postgres {
        figures.raw = Some(client200::activities_per_s(&database.url, runs).await?);
    }
    Ok(figures)
}

/// Sleepers whose first turn is still to come.
async fn not_begun(client: &Client) -> anyhow::Result<u64> {
    use everruns_durable::persistence::model::{CountLimit, WorkflowStatus};
    let filter = RunFilter {
        workflow_type: Some(Sleeper::TYPE.to_owned()),
        ..RunFilter::default().status(WorkflowStatus::Pending)
    };
    Ok(client
        .store()
        .count_runs(filter, CountLimit::Exact)
        .await?
        .count)
}
