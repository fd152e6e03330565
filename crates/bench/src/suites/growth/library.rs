//! What the library does without a server: retention, claims, J1, J3, starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{PurgeOld, PurgeRuns, StartRun};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};
use everruns_durable::prelude::*;
use uuid::Uuid;

use super::super::fill::{self, OLDEST_DAYS};
use super::Options;
use super::figure::{Figure, Unit};
use crate::database::Database;
use crate::figures::{per_second, percentile_ms};
use crate::jobs::{claims, latency};
use crate::output::Bar;
use crate::work::{Embedded, STEPS};

/// Runs of J1.
const J1_RUNS: usize = 2_000;
/// How often J3 runs its workflow.
const J3_TIMES: usize = 100;
/// Tasks that are claimed, and by how many claimers.
const CLAIMS: (usize, usize) = (5_000, 8);
/// Runs that one step of retention deletes: what the engine's chore asks for.
const PURGED_AT_ONCE: usize = 200;
/// How often is looked for something to delete where there is nothing; the median counts.
const LOOKS: usize = 9;
/// Starts of each client.
const STARTS_EACH: usize = 200;
/// Old rows that one step of retention deletes of each kind, at most.
const ROWS_AT_ONCE: usize = 5_000;
/// How long one step of retention may take. It consists of twenty commits, of which each may keep
/// others waiting for a second.
const STEP_MAX: Duration = Duration::from_secs(20);
/// Steps after which a run's deletion counts as stuck.
const STEPS_MAX: usize = 2_000;

/// Every figure once.
pub(super) async fn measure(options: &Options, database: &Database) -> anyhow::Result<Vec<Figure>> {
    let wants = |name: &str| options.common.wants(name);
    let mut figures = Vec::new();
    if wants("retention") {
        figures.extend(retention(&database.url).await?);
    }
    if wants("J3") {
        let engine = latency::host(Engine::open(&database.url)).start().await?;
        let seen = latency::measure(J3_TIMES, &engine.client()).await?;
        engine.shutdown().await?;
        let p50 = percentile_ms(&seen.submit_to_result, 50.0);
        figures.push(Figure::new("J3, p50", Unit::Ms, p50));
    }
    if wants("J1") {
        let work = Embedded::open(&database.url).await?;
        let bar = Bar::new("J1", J1_RUNS * STEPS);
        let rate = work.work(J1_RUNS, &bar).await?.activities_per_s();
        work.engine.shutdown().await?;
        figures.push(Figure::new("J1, activities", Unit::PerSecond, rate));
    }
    if wants("claims") {
        let (queue, claimers) = CLAIMS;
        let rate = claims::tasks_per_s(&database.url, queue, claimers).await?;
        figures.push(Figure::new("claims, tasks", Unit::PerSecond, rate));
    }
    if wants("library") {
        let rate = starts(&database.url, options.clients).await?;
        figures.push(Figure::new("library, starts", Unit::PerSecond, rate));
    }
    Ok(figures)
}

/// A step of retention that finds nothing, and one that deletes as much as it may.
async fn retention(url: &str) -> anyhow::Result<[Figure; 2]> {
    let store = open(url, OpenOptions::default()).await?;
    let days = |days: i64| Timestamp::now() - jiff::SignedDuration::from_hours(days * 24);
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let (found, took) = step(&*store, days(OLDEST_DAYS + 2)).await?;
        ensure!(
            found == 0,
            "{found} runs are older than those that were filled in"
        );
        times.push(took);
    }
    times.sort_unstable();
    let nothing = times[LOOKS / 2];
    // The oldest day has more than one step can delete, in both databases.
    let (purged, full) = step(&*store, days(OLDEST_DAYS - 3)).await?;
    ensure!(purged > 0, "no run was deleted");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok([
        Figure::new("retention, nothing to delete", Unit::Ms, ms(nothing)),
        Figure::new("retention, 200 runs deleted", Unit::Ms, ms(full)),
    ])
}

async fn step(
    store: &dyn WorkflowEventStore,
    finished_before: Timestamp,
) -> anyhow::Result<(u64, Duration)> {
    let began = Instant::now();
    let purge = PurgeRuns {
        finished_before,
        max: PURGED_AT_ONCE,
        first_shard: 0,
        now: None,
    };
    let purged = store.purge_runs(purge).await?;
    Ok((purged, began.elapsed()))
}

/// Single starts of several clients, through the store contract; of a type that no process hosts.
async fn starts(url: &str, clients: usize) -> anyhow::Result<f64> {
    let store: Arc<dyn WorkflowEventStore> = open(url, OpenOptions::default()).await?;
    let began = Instant::now();
    let work = (0..clients).map(|_| {
        let store = Arc::clone(&store);
        async move {
            tokio::spawn(async move {
                for _ in 0..STARTS_EACH {
                    let start = StartRun::new(Uuid::now_v7(), "growth.start", Payload::null());
                    store.start_runs(vec![start], None).await?;
                }
                anyhow::Ok(())
            })
            .await?
        }
    });
    try_join_all(work).await?;
    Ok(per_second(clients * STARTS_EACH, began.elapsed()))
}

/// Deletes one run with a very long history, step by step as the engine's chore does, until nothing
/// of it is left; tells how long all of it and the longest step took.
pub(super) async fn long_history(
    database: &Database,
    events: u64,
    share: bool,
) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let run = fill::long_history(database, events).await?;
    let remains = fill::Remains::of(database, run).await?;
    let store = open(&database.url, OpenOptions::default()).await?;
    let before = Timestamp::now() - jiff::SignedDuration::from_hours((OLDEST_DAYS + 2) * 24);
    let (mut total, mut longest, mut failures) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let mut steps = 0;
    while remains.are_there().await? {
        if steps >= STEPS_MAX {
            failures.push(format!("not deleted after {steps} steps"));
            break;
        }
        match both_steps(&*store, before).await {
            Ok(took) => {
                steps += took.len();
                total += took.iter().sum::<Duration>();
                longest = took.into_iter().fold(longest, Duration::max);
            }
            Err(error) => {
                failures.push(format!("after {steps} steps: {error:#}"));
                break;
            }
        }
    }
    if steps == 0 {
        failures.push("there was nothing to delete".to_owned());
    }
    if !share && longest > STEP_MAX {
        failures.push(format!("one step took {longest:.1?}, at most {STEP_MAX:?}"));
    }
    let cells = vec![
        format!("retention, one run of {events} events"),
        String::new(),
        format!("{:.1} s in {steps} steps", total.as_secs_f64()),
        format!("longest {:.0} ms", longest.as_secs_f64() * 1e3),
        String::new(),
        String::new(),
    ];
    Ok((cells, failures))
}

/// What the engine's chore does each time: it deletes ended runs, then what is old and what is left
/// of deleted runs. Answers how long each took.
async fn both_steps(
    store: &dyn WorkflowEventStore,
    before: Timestamp,
) -> anyhow::Result<[Duration; 2]> {
    let (_, first) = step(store, before).await?;
    let began = Instant::now();
    let purged = store
        .purge_old(PurgeOld {
            max: ROWS_AT_ONCE,
            ..PurgeOld::default()
        })
        .await?;
    ensure!(purged.stuck_runs == 0, "a deletion is set aside");
    Ok([first, began.elapsed()])
}
