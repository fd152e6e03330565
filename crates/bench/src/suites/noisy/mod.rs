//! One client's load beside other runs: their timers and starts go on, and no activity runs twice.

mod noise;
mod watch;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use hdrhistogram::Histogram;
use uuid::Uuid;

use super::Common;
use super::fill;
use super::http::Http;
use super::pulse::Pulse;
use super::report::Report;
use super::served::{Served, Worker};
use crate::database::{Database, Kind, Place};
use crate::figures::{histogram, percentile_ms};
use noise::{NOISES, Noise};
use watch::Watch;

/// How many times the p99 of a quiet time other runs may see.
const TIMES_WORSE_MAX: f64 = 3.0;
/// A p99 below this is not judged: a flush of the write-ahead log takes this long by itself.
const FLOOR_MS: f64 = 50.0;
/// How many leases a transaction is held open in the test command's share.
const HELD_LEASES: u32 = 3;
/// Length of the unrelated timers.
const TIMER: Duration = Duration::from_secs(1);

/// Options of `noisy`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) common: Common,
    /// Finished runs in the database, over which lists and counts go [default: 1000000; with --share 20000].
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// For how long each noise lasts [default: 30; with --share 4].
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// For how long a transaction is held open [default: 45; with --share three leases].
    #[arg(long, value_name = "SECONDS")]
    hold: Option<u64>,
    /// Counts whose connection is dropped.
    #[arg(long, value_name = "N", default_value_t = 400)]
    abandoned: usize,
    /// How often each noise is made; the times of all rounds count together.
    #[arg(long, value_name = "N", default_value_t = 2)]
    rounds: usize,
}

impl Options {
    fn runs(&self) -> u64 {
        let default = if self.common.share { 20_000 } else { 1_000_000 };
        self.runs.unwrap_or(default)
    }

    fn lasts(&self) -> Duration {
        let default = if self.common.share { 4 } else { 30 };
        Duration::from_secs(self.seconds.unwrap_or(default))
    }

    fn hold(&self) -> Duration {
        match self.hold {
            Some(seconds) => Duration::from_secs(seconds),
            None if self.common.share => self.lease() * HELD_LEASES,
            None => Duration::from_secs(45),
        }
    }

    /// How long leases hold: shorter than the transaction is held, and longer than a busy machine
    /// keeps a process waiting, also in the test command's share.
    const fn lease(&self) -> Duration {
        Duration::from_secs(if self.common.share { 7 } else { 15 })
    }

    fn rounds(&self) -> usize {
        if self.common.share { 1 } else { self.rounds }
    }

    /// Unrelated runs are started at this pace.
    const fn pace(&self) -> Duration {
        Duration::from_millis(if self.common.share { 200 } else { 50 })
    }
}

/// What a noise is made with.
struct Scene {
    options: Options,
    database: Database,
    http: Http,
    effects: PathBuf,
}

/// What other runs saw during one noise, in all rounds.
struct Seen {
    starts: Histogram<u64>,
    lateness: Histogram<u64>,
    slowest_workers: Duration,
    failures: Vec<String>,
}

/// Quiet first, then each noise.
pub(super) async fn run(options: &Options) -> anyhow::Result<Report> {
    let place = Place::new(&options.common.db, false)?;
    anyhow::ensure!(
        place.kind() != Kind::Memory,
        "noisy needs a database: sqlite:PATH or postgres://…"
    );
    let mut report = Report::new(&[
        "noise",
        "store",
        "start p99 ms",
        "times quiet",
        "timer late p99 ms",
        "times quiet",
        "slowest /workers ms",
    ]);
    let database = place.make().await?;
    let done = measure(options, &database, &mut report).await;
    database.remove().await?;
    done?;
    Ok(report)
}

async fn measure(
    options: &Options,
    database: &Database,
    report: &mut Report,
) -> anyhow::Result<()> {
    fill::fill(database, options.runs()).await?;
    let server = Served::start(&database.url, options.common.server.as_deref(), &[]).await?;
    let effects = std::env::temp_dir().join(format!("durable-suite-{}", Uuid::now_v7()));
    let target = match database.kind {
        Kind::Postgres => database.url.as_str(),
        _ => server.grpc(),
    };
    let worker = Worker::start_with_lease(target, &effects, options.lease()).await?;
    let scene = Scene {
        options: options.clone(),
        database: database.clone(),
        http: server.http(),
        effects,
    };
    let mut quiet: Option<Seen> = None;
    for noise in NOISES {
        let fits = noise.on.is_none_or(|kind| kind == database.kind);
        if !fits || (quiet.is_some() && !options.common.wants(noise.name)) {
            continue;
        }
        let mut seen = Seen::nothing()?;
        for _ in 0..options.rounds() {
            seen.add(hear(&scene, noise).await?)?;
        }
        let (cells, failures) = judge(noise.name, database.kind, &seen, quiet.as_ref(), options);
        report.row(cells, failures);
        quiet.get_or_insert(seen);
    }
    worker.stop().await?;
    server.stop().await?;
    let _ = std::fs::remove_file(&scene.effects);
    Ok(())
}

/// Makes one noise once, with other runs beside it.
async fn hear(scene: &Scene, noise: &Noise) -> anyhow::Result<Seen> {
    let watch = Watch::start(&scene.http);
    let pulse = Pulse::start(&scene.http, TIMER, scene.options.pace());
    let began = Instant::now();
    let made = (noise.make)(scene).await;
    // A noise may be over at once; what it left behind is a part of it.
    tokio::time::sleep(scene.options.lasts().saturating_sub(began.elapsed())).await;
    let beats = pulse.stop().await?;
    let watched = watch.stop().await?;
    let mut failures = beats.failures();
    failures.extend(watched.failures);
    match made {
        Ok(told) => failures.extend(told),
        Err(error) => failures.push(format!("{error:#}")),
    }
    failures.extend(executed_twice(scene)?);
    Ok(Seen {
        starts: beats.starts,
        lateness: beats.lateness,
        slowest_workers: watched.slowest,
        failures,
    })
}

/// Runs whose activity was executed more than once.
fn executed_twice(scene: &Scene) -> anyhow::Result<Option<String>> {
    let text = match std::fs::read_to_string(&scene.effects) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.context("the file of executions")?,
    };
    let mut runs: Vec<&str> = text.lines().collect();
    runs.sort_unstable();
    let all = runs.len();
    runs.dedup();
    let twice = all - runs.len();
    Ok((twice > 0).then(|| format!("{} activities were executed {all} times", runs.len())))
}

impl Seen {
    fn nothing() -> anyhow::Result<Self> {
        Ok(Self {
            starts: histogram()?,
            lateness: histogram()?,
            slowest_workers: Duration::ZERO,
            failures: Vec::new(),
        })
    }

    fn add(&mut self, round: Self) -> anyhow::Result<()> {
        self.starts.add(round.starts)?;
        self.lateness.add(round.lateness)?;
        self.slowest_workers = self.slowest_workers.max(round.slowest_workers);
        self.failures.extend(round.failures);
        Ok(())
    }
}

fn judge(
    name: &str,
    kind: Kind,
    seen: &Seen,
    quiet: Option<&Seen>,
    options: &Options,
) -> (Vec<String>, Vec<String>) {
    let mut failures = seen.failures.clone();
    let mut cells = vec![name.to_owned(), kind.as_str().to_owned()];
    let before = quiet.unwrap_or(seen);
    let figures = [
        ("starts", &seen.starts, &before.starts),
        ("timers' lateness", &seen.lateness, &before.lateness),
    ];
    for (what, now, before) in figures {
        let p99 = percentile_ms(now, 99.0);
        let times = p99 / percentile_ms(before, 99.0).max(1e-3);
        cells.push(format!("{p99:.0}"));
        cells.push(format!("{times:.1}"));
        if !options.common.share && times > TIMES_WORSE_MAX && p99 > FLOOR_MS {
            failures.push(format!(
                "{what}: p99 is {times:.1} times that of quiet, at most {TIMES_WORSE_MAX}"
            ));
        }
    }
    cells.push(format!("{:.0}", seen.slowest_workers.as_secs_f64() * 1e3));
    (cells, failures)
}
