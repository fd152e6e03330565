//! J9: J1 in a database full of finished runs, and beside a snapshot that is open for long.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use everruns_durable::core::{Payload, WorkflowEvent};
use everruns_durable::persistence::model::{Next, TurnCommit, TurnOutcome};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};

use super::{Job, throughput};
use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::Figures;
use crate::options::Mode;
use crate::output::Bar;
use crate::raw::{self, client200};
use crate::turns::{self, Started};
use crate::work::{Embedded, STEPS};

/// Finished runs written at once.
const WRITTEN_AT_ONCE: usize = 1_000;

/// Beside finished runs, and beside a snapshot.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    bench
        .case(async |database| finished(bench, database).await)
        .await?;
    if bench.kind() == Kind::Memory {
        return bench.skipped(Job::J9, "memory: has no snapshots");
    }
    bench
        .case(async |database| snapshot(bench, database).await)
        .await?;
    Ok(())
}

async fn finished(bench: &Bench, database: &Database) -> anyhow::Result<Figures> {
    let backlog = bench.options.backlog();
    let runs = bench.options.comparison_runs();
    let empty = throughput::alone(bench).await?;
    let bar = Bar::new(format!("J9, {backlog} finished runs"), backlog);
    fill(&database.url, backlog, &bar).await?;
    drop(bar);
    database.settle().await?;
    let work = Embedded::open(&database.url).await?;
    let bar = Bar::new(format!("J1 beside them, {runs} runs"), runs * STEPS);
    let rate = work.work(runs, &bar).await?.activities_per_s();
    work.engine.shutdown().await?;
    let figures = figures(database, "finished", runs, rate, empty).await?;
    Ok(figures.with("finished", backlog))
}

async fn snapshot(bench: &Bench, database: &Database) -> anyhow::Result<Figures> {
    let runs = bench.options.comparison_runs();
    let open_for = bench.options.snapshot();
    let empty = throughput::alone(bench).await?;
    let work = Embedded::open(&database.url).await?;
    let held = Snapshot::open(database).await?;
    let opened = Instant::now();
    // What it costs grows while it is open: the last J1 counts, which ends when it has been open for long enough.
    let rate = loop {
        let bar = Bar::new(format!("J1 beside a snapshot, {runs} runs"), runs * STEPS);
        let rate = work.work(runs, &bar).await?.activities_per_s();
        if opened.elapsed() >= open_for {
            break rate;
        }
    };
    held.close().await?;
    work.engine.shutdown().await?;
    let figures = figures(database, "snapshot", runs, rate, empty).await?;
    Ok(figures.with("snapshot_s", open_for.as_secs()))
}

async fn figures(
    database: &Database,
    case: &str,
    runs: usize,
    rate: f64,
    empty: f64,
) -> anyhow::Result<Figures> {
    let mut figures = Figures::rate("J9", Mode::Embedded, "activities_per_s", rate)
        .with("case", case)
        .with("runs", runs);
    figures.add("empty_activities_per_s", empty);
    figures.add("to_empty", rate / empty);
    if database.kind == Kind::Postgres {
        figures.raw = Some(client200::activities_per_s(&database.url, runs).await?);
    }
    Ok(figures)
}

/// Writes finished runs with the history of a J1 each, through the store contract: one turn a run.
async fn fill(url: &str, runs: usize, bar: &Bar) -> anyhow::Result<()> {
    let store = open(url, OpenOptions::default()).await?;
    for first in (0..runs).step_by(WRITTEN_AT_ONCE) {
        let count = WRITTEN_AT_ONCE.min(runs - first);
        write(&*store, count).await?;
        bar.set(first + count);
    }
    Ok(())
}

async fn write(store: &dyn WorkflowEventStore, runs: usize) -> anyhow::Result<()> {
    let started = Started::new(store, runs, "finished").await?;
    let whole = started
        .ids
        .iter()
        .map(|id| whole_run(started.turn(*id, 0)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let outcomes = store.commit_turns(whole, None).await?;
    let all = outcomes
        .iter()
        .all(|outcome| matches!(outcome, TurnOutcome::Committed(_)));
    ensure!(all, "finished runs could not be written");
    Ok(())
}

/// All of a run's history in one turn.
fn whole_run(mut turn: TurnCommit) -> anyhow::Result<TurnCommit> {
    let payload = Payload::from_json_text(r#"{"ok":true,"value":42}"#)?;
    turn.events.push(WorkflowEvent::WorkflowStarted {
        input: payload.clone(),
    });
    for step in 1..=STEPS {
        let task = turns::task(format!("step-{step}"), payload.clone());
        turn.events.push(turns::scheduled(&task));
        turn.events.push(WorkflowEvent::ActivityCompleted {
            activity_id: task.activity_id,
            result: payload.clone(),
        });
    }
    turn.events.push(WorkflowEvent::WorkflowCompleted {
        result: payload.clone(),
    });
    turn.next = Next::Complete { result: payload };
    Ok(turn)
}

/// A transaction that has read and does not end.
enum Snapshot {
    Postgres(tokio_postgres::Client),
    Sqlite(Box<rusqlite::Connection>),
}

impl Snapshot {
    async fn open(database: &Database) -> anyhow::Result<Self> {
        if database.kind == Kind::Postgres {
            let client = raw::connect(&database.url).await?;
            client
                .batch_execute(
                    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class",
                )
                .await?;
            return Ok(Self::Postgres(client));
        }
        let path = database.path().context("a SQLite database has a path")?;
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        Ok(Self::Sqlite(Box::new(connection)))
    }

    async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Postgres(client) => client.batch_execute("COMMIT").await?,
            Self::Sqlite(connection) => connection.execute_batch("COMMIT")?,
        }
        Ok(())
    }
}
