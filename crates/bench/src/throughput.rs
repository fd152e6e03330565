//! J1: N workflows of five sequential no-op activities, all started up front.

use std::time::{Duration, Instant};

use clap::Args;
use everruns_durable::prelude::*;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

/// How J1 is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which store: `memory:`, `sqlite:PATH`, `postgres://…`.
    #[arg(long, env = "DATABASE_URL")]
    db: String,
    /// Workflows.
    #[arg(long, default_value_t = 10_000)]
    runs: usize,
    /// One JSON object instead of a line for people.
    #[arg(long)]
    json: bool,
}

/// Activities of each workflow.
const STEPS: u32 = 5;

struct FiveSteps {
    done: u32,
}

impl FiveSteps {
    fn step(&self) -> Vec<WorkflowAction> {
        let id = format!("step-{}", self.done);
        vec![WorkflowAction::schedule_activity(
            id,
            "noop",
            Payload::null(),
        )]
    }
}

impl Workflow for FiveSteps {
    const TYPE: &'static str = "five_steps";
    type Input = ();
    type Output = ();

    fn new((): ()) -> Self {
        Self { done: 0 }
    }
    fn on_start(&mut self) -> Vec<WorkflowAction> {
        self.step()
    }
    fn on_activity_completed(&mut self, _id: &str, _result: Value) -> Vec<WorkflowAction> {
        self.done += 1;
        if self.done < STEPS {
            self.step()
        } else {
            vec![]
        }
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
        self.done == STEPS
    }
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let engine = Engine::open(&options.db)
        .workflow::<FiveSteps>()
        .activity_fn("noop", |_ctx, (): ()| async move { Ok(()) })
        .start()
        .await?;
    let client = engine.client();
    engine.run::<FiveSteps>(()).await?;
    let began = Instant::now();
    let starts = (0..options.runs).map(|_| client.start::<FiveSteps>(()).into_future());
    let runs = try_join_all(starts).await?;
    let started = began.elapsed();
    try_join_all(runs.iter().map(RunHandle::<FiveSteps>::result)).await?;
    let took = began.elapsed();
    report(&options, started, took);
    engine.shutdown().await?;
    Ok(())
}

fn report(options: &Options, started: Duration, took: Duration) {
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let activities = options.runs as f64 * f64::from(STEPS);
    let rate = activities / took.as_secs_f64();
    if options.json {
        let figures = json!({
            "job": "J1",
            "db": options.db.split(':').next(),
            "mode": "embedded",
            "runs": options.runs,
            "activities_per_s": rate,
        });
        println!("{figures}");
    } else {
        println!(
            "J1: {} runs started after {started:.2?}, done after {took:.2?}: {rate:.0} activities/s",
            options.runs
        );
    }
}
