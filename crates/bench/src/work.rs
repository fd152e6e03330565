//! The work of J1, which other jobs compare with: runs of five sequential no-op activities, all started up front.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{CountLimit, WorkflowStatus};
use everruns_durable::prelude::*;
use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

use crate::figures::{Series, per_second};
use crate::output::Bar;

/// Activities of each run.
pub(crate) const STEPS: usize = 5;

/// How often is looked how far the work has come.
const SAMPLE: Duration = Duration::from_millis(100);

/// Runs whose end is waited for one by one before all are counted: more than can be in the sets under way.
const LAST_RUNS: usize = 500;

/// A workflow of five sequential activities, as a state machine: the least that a program can cost.
pub(crate) struct FiveSteps {
    done: usize,
}

impl FiveSteps {
    fn step(&self) -> Vec<WorkflowAction> {
        let id = format!("step-{}", self.done);
        let input = if self.done + 1 == STEPS { LAST } else { MIDDLE };
        let input = Payload::from_stored(input.as_bytes());
        vec![WorkflowAction::schedule_activity(id, "noop", input)]
    }
}

/// Input of the last activity of a run.
const LAST: &str = "true";
/// Input of the others.
const MIDDLE: &str = "false";

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

/// What the activities of this process have done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    activities: AtomicUsize,
    /// Runs in the order in which their last activity ran.
    last: Mutex<Vec<Uuid>>,
}

impl Tally {
    fn count(&self, run: Option<Uuid>) {
        self.last.lock().extend(run);
        self.activities.fetch_add(1, Ordering::Release);
    }

    fn activities(&self) -> usize {
        self.activities.load(Ordering::Acquire)
    }
}

/// Hosts the workflow and its activity, and counts what the activity does.
pub(crate) fn host(builder: EngineBuilder, tally: Arc<Tally>) -> EngineBuilder {
    builder
        .workflow::<FiveSteps>()
        .activity_fn("noop", move |ctx: ActivityContext, last: bool| {
            tally.count(last.then_some(ctx.workflow_id));
            async { Ok(()) }
        })
}

/// What a J1 came to.
#[derive(Debug)]
pub(crate) struct Done {
    /// From the first submit to the last completion.
    pub(crate) took: Duration,
    /// Activities up to each moment.
    pub(crate) series: Series,
    runs: usize,
}

impl Done {
    /// The figure of J1.
    pub(crate) fn activities_per_s(&self) -> f64 {
        per_second(self.runs * STEPS, self.took)
    }
}

/// An engine that does the work of J1 in this process.
pub(crate) struct Embedded {
    pub(crate) engine: Engine,
    tally: Arc<Tally>,
}

impl Embedded {
    /// Opens the store and warms up.
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        Self::start(Engine::open(url)).await
    }

    /// Starts an engine and warms up.
    pub(crate) async fn start(builder: EngineBuilder) -> anyhow::Result<Self> {
        let tally = Arc::new(Tally::default());
        let engine = host(builder, Arc::clone(&tally)).start().await?;
        engine.run::<FiveSteps>(()).await?;
        Ok(Self { engine, tally })
    }

    /// Starts so many runs at once and waits until all have completed.
    ///
    /// That is seen without a read for each run: activities are counted as they run, the end of the last runs is waited for, and then what has
    /// not ended is counted.
    pub(crate) async fn work(&self, runs: usize, bar: &Bar) -> anyhow::Result<Done> {
        let before = self.tally.activities();
        self.tally.last.lock().clear();
        let client = self.engine.client();
        let began = Instant::now();
        let starting = tokio::spawn(start_all(client.clone(), runs));
        let mut series = Series::default();
        loop {
            let done = self.tally.activities() - before;
            note(&mut series, began, done);
            bar.set(done);
            if done >= runs * STEPS {
                break;
            }
            tokio::time::sleep(SAMPLE.min(began.elapsed() / 20 + Duration::from_millis(1))).await;
        }
        starting.await??;
        let last: Vec<Uuid> = {
            let all = self.tally.last.lock();
            all[all.len().saturating_sub(LAST_RUNS)..].to_vec()
        };
        try_join_all(last.into_iter().map(|run| {
            let run = client.run::<FiveSteps>(run);
            async move { run.ended().await }
        }))
        .await?;
        let mut took = began.elapsed();
        while unfinished(&**client.store(), FiveSteps::TYPE).await? > 0 {
            took = began.elapsed();
        }
        Ok(Done { took, series, runs })
    }
}

/// The same through a client, where the work is done in other processes.
pub(crate) async fn work_elsewhere(
    client: &Client,
    runs: usize,
    bar: &Bar,
) -> anyhow::Result<Done> {
    let began = Instant::now();
    start_all(client.clone(), runs).await?;
    let mut series = Series::default();
    loop {
        let left = unfinished(&**client.store(), FiveSteps::TYPE).await?;
        let done = (runs * STEPS).saturating_sub(left * STEPS);
        note(&mut series, began, done);
        bar.set(done);
        if left == 0 {
            return Ok(Done {
                took: began.elapsed(),
                series,
                runs,
            });
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

async fn start_all(client: Client, runs: usize) -> anyhow::Result<()> {
    let starts = (0..runs).map(|_| client.start::<FiveSteps>(()).into_future());
    try_join_all(starts).await?;
    Ok(())
}

/// Runs of a type that have not ended.
pub(crate) async fn unfinished(
    store: &dyn WorkflowEventStore,
    workflow_type: &str,
) -> anyhow::Result<usize> {
    let filter = RunFilter {
        statuses: vec![WorkflowStatus::Pending, WorkflowStatus::Running],
        workflow_type: Some(workflow_type.to_owned()),
        ..RunFilter::default()
    };
    let count = store.count_runs(filter, CountLimit::Exact).await?.count;
    Ok(usize::try_from(count)?)
}

#[allow(clippy::cast_precision_loss, reason = "a point of a chart")]
fn note(series: &mut Series, began: Instant, done: usize) {
    series.note(began.elapsed(), done as f64);
}
