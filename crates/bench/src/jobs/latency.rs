//! J3: one workflow with one activity on an idle system, again and again: submit → result, and queue → start.

use std::time::{Duration, Instant};

use everruns_durable::prelude::*;
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::bench::Bench;
use crate::database::Database;
use crate::figures::{Figures, histogram, note, percentile_ms};
use crate::options::Mode;
use crate::output::Bar;
use crate::process::{Remote, monotonic_us};
use crate::raw;

/// Runs before the clock counts: connections are made, statements prepared.
const WARM_UP: usize = 20;

/// One activity, which is given the instant at which it was asked for and answers how long ago that is. Reading a clock is not for workflow
/// code: here it does no harm, since ids and types are the same at every reading.
struct OneStep {
    queue_to_start_us: Option<u64>,
}

impl Workflow for OneStep {
    const TYPE: &'static str = "one_step";
    type Input = ();
    type Output = u64;

    fn new((): ()) -> Self {
        Self {
            queue_to_start_us: None,
        }
    }
    fn on_start(&mut self) -> Vec<WorkflowAction> {
        let asked = Payload::from_stored(monotonic_us().to_string());
        vec![WorkflowAction::schedule_activity("step", "stamp", asked)]
    }
    fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        self.queue_to_start_us = Some(result.as_u64().unwrap_or_default());
        vec![]
    }
    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let error = WorkflowError::from(error.clone().into_failure());
        vec![WorkflowAction::FailWorkflow { error }]
    }
    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }
    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }
    fn is_completed(&self) -> bool {
        self.queue_to_start_us.is_some()
    }
    fn result(&self) -> Option<Result<u64, WorkflowError>> {
        self.queue_to_start_us.map(Ok)
    }
}

/// Hosts the workflow and its activity.
pub(crate) fn host(builder: EngineBuilder) -> EngineBuilder {
    builder
        .workflow::<OneStep>()
        .activity_fn("stamp", |_ctx, asked: i64| async move {
            Ok(u64::try_from(monotonic_us() - asked).unwrap_or(0))
        })
}

/// Embedded and remote.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    if bench.options.wants(Mode::Embedded) {
        bench
            .case(async |database| {
                let engine = host(Engine::open(&database.url)).start().await?;
                let seen = measure(bench.options.times(), &engine.client()).await?;
                engine.shutdown().await?;
                figures(Mode::Embedded, database, seen).await
            })
            .await?;
    }
    if bench.options.wants(Mode::Remote) {
        bench
            .case(async |database| {
                let processes = Remote::start(&database.url).await?;
                let client = Client::connect(processes.url.as_str()).await?;
                let seen = measure(bench.options.times(), &client).await?;
                processes.stop().await?;
                figures(Mode::Remote, database, seen).await
            })
            .await?;
    }
    Ok(())
}

/// What was seen.
pub(crate) struct Seen {
    times: usize,
    /// From the start's request to the run's result.
    pub(crate) submit_to_result: Histogram<u64>,
    queue_to_start: Histogram<u64>,
}

/// One after the other, so that each finds the system idle.
pub(crate) async fn measure(times: usize, client: &Client) -> anyhow::Result<Seen> {
    let bar = Bar::new("J3", times);
    for _ in 0..WARM_UP {
        client.start::<OneStep>(()).await?.result().await?;
    }
    let (mut submit_to_result, mut queue_to_start) = (histogram()?, histogram()?);
    for done in 0..times {
        let began = Instant::now();
        let queued_us = client.start::<OneStep>(()).await?.result().await?;
        note(&mut submit_to_result, began.elapsed());
        note(&mut queue_to_start, Duration::from_micros(queued_us));
        bar.set(done + 1);
    }
    Ok(Seen {
        times,
        submit_to_result,
        queue_to_start,
    })
}

/// Beside them, on the same database, one commit of one client.
async fn figures(mode: Mode, database: &Database, seen: Seen) -> anyhow::Result<Figures> {
    let p50 = percentile_ms(&seen.submit_to_result, 50.0);
    let p99 = percentile_ms(&seen.submit_to_result, 99.0);
    let mut figures = Figures::time("J3", mode, "p50_ms", p50).with("times", seen.times);
    figures.add_latency("", seen.submit_to_result);
    figures.add_latency("queue_to_start_", seen.queue_to_start);
    if let Some(commit) = raw::commit::latency(database, seen.times).await? {
        figures.raw = Some(percentile_ms(&commit, 50.0));
        figures.add("raw_p99_ms", percentile_ms(&commit, 99.0));
        // The raw p99 is one bad moment; the yardstick of the aims is the ordinary commit.
        figures.add(
            "p99_to_raw_p50",
            p99 / percentile_ms(&commit, 50.0).max(1e-3),
        );
    }
    Ok(figures)
}
