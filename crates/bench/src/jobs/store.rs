//! `store`: runs of five sequential no-op activities, turned in sets through `commit_turns`.
//!
//! Every turn finishes the task before it and queues the next one leased to the committer, in one commit, as the engine does
//! where a run's program is at hand. No activity runs and no program decides: this measures the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use everruns_durable::core::{Payload, WorkflowEvent};
use everruns_durable::persistence::model::{
    FinishedTask, LeaseRequest, Next, TaskEnd, TaskLease, TaskPlace, TurnCommit, TurnOutcome,
};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};
use everruns_durable::prelude::try_join_all;
use uuid::Uuid;

use super::TURNS;
use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::{Figures, per_second};
use crate::options::Mode;
use crate::output::Bar;
use crate::raw::{CONNECTIONS, client200};
use crate::turns::{self, Started};
use crate::work::STEPS;

/// Every size of sets.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    for batch in &bench.options.sizes.batches {
        // One at a time would take too long with as many.
        let share = if *batch < 10 { 20 } else { 1 };
        let runs = (bench.options.comparison_runs() / share).max(CONNECTIONS);
        let bar = Bar::new(format!("store, sets of {batch}"), runs);
        bench
            .case(async |database| measure(database, *batch, runs).await)
            .await?;
        bar.set(runs);
    }
    Ok(())
}

async fn measure(database: &Database, batch: usize, runs: usize) -> anyhow::Result<Figures> {
    let rate = through_store(&database.url, batch, runs).await?;
    let mut figures = Figures::rate("store", Mode::Embedded, "turns_per_s", rate)
        .with("batch", batch)
        .with("runs", runs);
    if database.kind == Kind::Postgres {
        let raw = client200::turns_per_s(&database.url, batch, runs, CONNECTIONS).await?;
        figures.raw = Some(raw);
    }
    Ok(figures)
}

async fn through_store(url: &str, batch: usize, runs: usize) -> anyhow::Result<f64> {
    let store = open(url, OpenOptions::default())
        .await
        .context("open the store")?;
    let started = Started::new(&*store, runs, "bench").await?;
    let share = runs.div_ceil(CONNECTIONS);
    let began = Instant::now();
    let committers = started.ids.chunks(share).map(|ids| {
        let (store, ids, started) = (Arc::clone(&store), ids.to_vec(), started.clone());
        async move { tokio::spawn(commit_all(store, started, ids, batch)).await? }
    });
    try_join_all(committers).await?;
    Ok(per_second(runs * TURNS, began.elapsed()))
}

/// Takes all turns of these runs, set by set.
async fn commit_all(
    store: Arc<dyn WorkflowEventStore>,
    started: Started,
    ids: Vec<Uuid>,
    batch: usize,
) -> anyhow::Result<()> {
    for ids in ids.chunks(batch) {
        let mut at: Vec<(Uuid, i64, Option<TaskLease>)> =
            ids.iter().map(|id| (*id, 0, None)).collect();
        for turn in 0..TURNS {
            let next = at
                .iter()
                .map(|(id, sequence, lease)| {
                    next_turn(started.turn(*id, *sequence), lease.clone(), turn)
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            let outcomes = store.commit_turns(next, None).await?;
            for (place, outcome) in at.iter_mut().zip(outcomes) {
                let TurnOutcome::Committed(committed) = outcome else {
                    bail!("rejected: {outcome:?}")
                };
                place.1 = committed.sequence;
                let task = committed.tasks.into_iter().next();
                place.2 = task.and_then(|task| match task.place {
                    TaskPlace::Leased { lease, .. } => Some(lease),
                    _ => None,
                });
            }
        }
    }
    Ok(())
}

/// Fills a turn: what ended, and what is asked for next.
fn next_turn(
    mut turn: TurnCommit,
    lease: Option<TaskLease>,
    number: usize,
) -> anyhow::Result<TurnCommit> {
    let payload = Payload::from_json_text(r#"{"ok":true,"value":42}"#)?;
    match lease {
        None => turn.events.push(WorkflowEvent::WorkflowStarted {
            input: payload.clone(),
        }),
        Some(lease) => {
            turn.events.push(WorkflowEvent::ActivityCompleted {
                activity_id: format!("step-{number}"),
                result: payload.clone(),
            });
            turn.finished_tasks.push(FinishedTask {
                lease,
                end: TaskEnd::Completed,
            });
        }
    }
    if number < STEPS {
        let mut task = turns::task(format!("step-{}", number + 1), payload);
        task.lease = true;
        turn.events.push(turns::scheduled(&task));
        turn.tasks.push(task);
    } else {
        turn.events.push(WorkflowEvent::WorkflowCompleted {
            result: payload.clone(),
        });
        turn.next = Next::Complete { result: payload };
    }
    turn.lease = Some(LeaseRequest {
        worker_id: "bench-worker".into(),
        lease: Duration::from_secs(15),
    });
    Ok(turn)
}
