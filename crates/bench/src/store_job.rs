//! The store job: runs of five sequential no-op activities, turned in sets through `commit_turns`.
//!
//! Every turn finishes the task before it and queues the next one leased to the committer, in one commit, as the engine does
//! where a run's program is at hand. No activity runs and no program decides: this measures the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use everruns_durable::core::{ActivityOptions, Payload, WorkflowEvent};
use everruns_durable::persistence::model::{
    FinishedTask, LeaseRequest, NewTask, Next, StartRun, TaskEnd, TaskLease, TaskPlace, TurnCommit,
    TurnOutcome,
};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::raw;
use crate::report::{Figure, table};

/// Activities of a run.
pub(crate) const STEPS: usize = 5;
/// Commits of a run: one to start, one for each activity's end.
pub(crate) const TURNS: usize = STEPS + 1;

/// How to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which store: `memory:`, `sqlite:PATH`, `postgres://…`.
    #[arg(long, env = "DATABASE_URL")]
    db: String,
    /// Sizes of the sets.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50, 200, 1000])]
    batches: Vec<usize>,
    /// Runs per repetition with sets of 50 and more; sets of 1 take a twentieth.
    #[arg(long, default_value_t = 10_000)]
    runs: usize,
    /// Concurrent committers, each with its own connection and runs.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Repetitions; the median counts.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    for batch in options.batches.iter().copied() {
        let runs = if batch < 10 {
            options.runs / 20
        } else {
            options.runs
        }
        .max(options.connections);
        let mut figure = Figure {
            db: kind(&options.db).to_owned(),
            batch,
            runs,
            connections: options.connections,
            store: Vec::new(),
            raw: Vec::new(),
        };
        for _ in 0..options.repeat {
            figure
                .store
                .push(through_store(&options, batch, runs).await?);
            if figure.db == "postgres" {
                figure
                    .raw
                    .push(raw::measure(&options.db, batch, runs, options.connections).await?);
            }
        }
        if options.json {
            println!("{}", figure.json());
        }
        figures.push(figure);
    }
    if !options.json {
        println!("{}", table(&figures));
    }
    Ok(())
}

fn kind(url: &str) -> &'static str {
    match url.split(':').next() {
        Some("postgres" | "postgresql") => "postgres",
        Some("sqlite") => "sqlite",
        _ => "memory",
    }
}

async fn through_store(options: &Options, batch: usize, runs: usize) -> anyhow::Result<f64> {
    let store = open(&options.db, OpenOptions::default())
        .await
        .context("open the store")?;
    let ids: Vec<Uuid> = (0..runs).map(|_| Uuid::now_v7()).collect();
    for ids in ids.chunks(1000) {
        let input = Payload::from_json_text(r#"{"order":"A-1","amount":1999}"#)?;
        let starts = ids
            .iter()
            .map(|id| StartRun::new(*id, "bench", input.clone()))
            .collect();
        store.start_runs(starts, None).await?;
    }
    let share = runs.div_ceil(options.connections);
    let began = Instant::now();
    let committers = ids.chunks(share).map(|ids| {
        let (store, ids) = (Arc::clone(&store), ids.to_vec());
        async move { tokio::spawn(commit_all(store, ids, batch)).await? }
    });
    try_join_all(committers).await?;
    let elapsed = began.elapsed().as_secs_f64();
    Ok((runs * TURNS) as f64 / elapsed)
}

/// Takes all turns of these runs, set by set.
async fn commit_all(
    store: Arc<dyn WorkflowEventStore>,
    ids: Vec<Uuid>,
    batch: usize,
) -> anyhow::Result<()> {
    for ids in ids.chunks(batch) {
        let mut at: Vec<(Uuid, i64, Option<TaskLease>)> =
            ids.iter().map(|id| (*id, 0, None)).collect();
        for turn in 0..TURNS {
            let turns = at
                .iter()
                .map(|(id, seq, lease)| next_turn(*id, *seq, lease.clone(), turn));
            let outcomes = store.commit_turns(turns.collect(), None).await?;
            for (place, outcome) in at.iter_mut().zip(outcomes) {
                let TurnOutcome::Committed(committed) = outcome else {
                    bail!("rejected: {outcome:?}")
                };
                place.1 = committed.sequence;
                place.2 = committed
                    .tasks
                    .into_iter()
                    .next()
                    .and_then(|task| match task.place {
                        TaskPlace::Leased { lease, .. } => Some(lease),
                        _ => None,
                    });
            }
        }
    }
    Ok(())
}

fn next_turn(run_id: Uuid, sequence: i64, lease: Option<TaskLease>, turn: usize) -> TurnCommit {
    let mut events = Vec::with_capacity(2);
    let mut finished_tasks = Vec::new();
    match lease {
        None => events.push(WorkflowEvent::WorkflowStarted { input: payload() }),
        Some(lease) => {
            events.push(WorkflowEvent::ActivityCompleted {
                activity_id: format!("step-{turn}"),
                result: payload(),
            });
            finished_tasks.push(FinishedTask {
                lease,
                end: TaskEnd::Completed,
            });
        }
    }
    let (mut tasks, mut next) = (Vec::new(), Next::Wait);
    if turn < STEPS {
        let task = new_task(turn + 1);
        events.push(WorkflowEvent::ActivityScheduled {
            activity_id: task.activity_id.clone(),
            activity_type: task.activity_type.clone(),
            input: task.input.clone(),
            options: task.options.clone(),
        });
        tasks.push(task);
    } else {
        events.push(WorkflowEvent::WorkflowCompleted { result: payload() });
        next = Next::Complete { result: payload() };
    }
    TurnCommit {
        run_id,
        turn_id: Uuid::now_v7(),
        expected_sequence: sequence,
        expected_epoch: 0,
        facts_through: 0,
        finished_tasks,
        events,
        tasks,
        next,
        lease: Some(LeaseRequest {
            worker_id: "bench-worker".into(),
            lease: Duration::from_secs(15),
        }),
        fired_timers: Vec::new(),
        cancelled_activities: Vec::new(),
        timers: Vec::new(),
        cancelled_timers: Vec::new(),
        children: Vec::new(),
        signals: Vec::new(),
        updates: Vec::new(),
        attributes: std::collections::BTreeMap::new(),
        outbox: Vec::new(),
        step_logs: Vec::new(),
        requeued_letters: Vec::new(),
        owner: None,
    }
}

fn new_task(step: usize) -> NewTask {
    NewTask {
        task_id: Uuid::now_v7(),
        activity_id: format!("step-{step}"),
        activity_type: "noop".into(),
        input: payload(),
        options: ActivityOptions::default(),
        delay: None,
        lease: true,
        trace: None,
    }
}

fn payload() -> Payload {
    Payload::from_json_text(r#"{"ok":true,"value":42}"#).expect("it is JSON")
}
