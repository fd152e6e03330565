//! J5: claimers at one queue, through the store contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use everruns_durable::core::{Payload, WorkflowEvent};
use everruns_durable::persistence::model::{ClaimTasks, TurnOutcome};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};
use everruns_durable::prelude::try_join_all;
use uuid::Uuid;

use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::{Figures, histogram, note, per_second};
use crate::options::Mode;
use crate::output::Bar;
use crate::raw;
use crate::turns::{self, Started};

/// Turns committed at once while the queue is filled.
const FILLED_AT_ONCE: usize = 1_000;
/// Tasks of one claim where no size is asked for: the engine's own default.
const CLAIMED_AT_ONCE: usize = 50;

/// Every number of claimers, each with a full queue.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    for claimers in &bench.options.sizes.claimers {
        bench
            .case(async |database| measure(bench, database, *claimers).await)
            .await?;
    }
    Ok(())
}

async fn measure(bench: &Bench, database: &Database, claimers: usize) -> anyhow::Result<Figures> {
    let (queue, max) = (bench.options.queue(), bench.options.sizes.claim_max);
    let bar = Bar::new(format!("J5, {claimers} claimers"), queue);
    let store = open(&database.url, OpenOptions::default()).await?;
    fill(&*store, queue).await?;
    let (took, times) = claim_all(&store, queue, claimers, max).await?;
    bar.set(queue);
    let mut latency = histogram()?;
    for time in times.into_iter().flatten() {
        note(&mut latency, time);
    }
    let mut figures = Figures::rate("J5", Mode::Embedded, "tasks_per_s", per_second(queue, took))
        .with("claimers", claimers)
        .with("queue", queue)
        .with("claim_max", max);
    figures.add_latency("claim_", latency);
    drop(store);
    if database.kind == Kind::Postgres {
        let raw = raw::claims::tasks_per_s(&database.url, queue, claimers, max).await?;
        figures.raw = Some(raw);
    }
    Ok(figures)
}

/// The rate of claims at a queue that is filled for it, for jobs that compare with it.
pub(crate) async fn tasks_per_s(url: &str, queue: usize, claimers: usize) -> anyhow::Result<f64> {
    let store = open(url, OpenOptions::default()).await?;
    fill(&*store, queue).await?;
    let (took, _) = claim_all(&store, queue, claimers, CLAIMED_AT_ONCE).await?;
    Ok(per_second(queue, took))
}

/// Empties the queue; answers how long that took, and each claim.
async fn claim_all(
    store: &Arc<dyn WorkflowEventStore>,
    queue: usize,
    claimers: usize,
    max: usize,
) -> anyhow::Result<(Duration, Vec<Vec<Duration>>)> {
    let claimed = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let work = (0..claimers).map(|number| {
        let claimer = Claimer {
            store: Arc::clone(store),
            claimed: Arc::clone(&claimed),
            queue,
            max,
            worker_id: format!("claimer-{number}"),
        };
        async { tokio::spawn(claimer.claim_all()).await? }
    });
    let times = try_join_all(work).await?;
    let took = began.elapsed();
    ensure!(
        claimed.load(Ordering::Relaxed) == queue,
        "a task was claimed twice"
    );
    Ok((took, times))
}

struct Claimer {
    store: Arc<dyn WorkflowEventStore>,
    claimed: Arc<AtomicUsize>,
    queue: usize,
    max: usize,
    worker_id: String,
}

impl Claimer {
    /// Claims until the queue is empty; answers how long each claim took.
    async fn claim_all(self) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::new();
        // One that finds nothing while others hold the rest looks again.
        while self.claimed.load(Ordering::Relaxed) < self.queue {
            let claim = ClaimTasks {
                worker_id: self.worker_id.clone(),
                activity_types: vec!["noop".to_owned()],
                max: self.max,
                lease: Duration::from_secs(600),
                token: Uuid::now_v7(),
                first_shard: 0,
                now: None,
            };
            let began = Instant::now();
            let tasks = self.store.claim_tasks(claim).await?;
            times.push(began.elapsed());
            self.claimed.fetch_add(tasks.len(), Ordering::Relaxed);
        }
        Ok(times)
    }
}

/// Runs with one pending task each.
async fn fill(store: &dyn WorkflowEventStore, tasks: usize) -> anyhow::Result<()> {
    let started = Started::new(store, tasks, "bench").await?;
    let payload = Payload::from_json_text(r#"{"ok":true}"#)?;
    for ids in started.ids.chunks(FILLED_AT_ONCE) {
        let first = ids.iter().map(|id| {
            let mut turn = started.turn(*id, 0);
            let task = turns::task("step-1".to_owned(), payload.clone());
            turn.events.push(WorkflowEvent::WorkflowStarted {
                input: payload.clone(),
            });
            turn.events.push(turns::scheduled(&task));
            turn.tasks.push(task);
            turn
        });
        let outcomes = store.commit_turns(first.collect(), None).await?;
        let all = outcomes
            .iter()
            .all(|outcome| matches!(outcome, TurnOutcome::Committed(_)));
        ensure!(all, "the queue could not be filled");
    }
    Ok(())
}
