//! Payloads of 4 MB in every place that takes one, each place with a database, a server and a
//! worker of its own.

mod payload;
mod places;
mod stage;

use std::time::Duration;

use clap::Args;

use super::Common;
use super::pulse::Pulse;
use super::report::Report;
use crate::database::{Database, Kind, Place};
use places::PLACES;
use stage::Stage;

/// The most memory that a process may hold with 512 payloads.
const PEAK_MIB_MAX: u64 = 1024;
/// The same in the test command's share. 24 payloads are 92 MiB: what loads each of them a few
/// times at once is beyond this.
const SHARE_PEAK_MIB_MAX: u64 = 640;
/// Length of the unrelated timers, and how often one is started.
const PULSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(500));

/// Options of `bytes`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) common: Common,
    /// Payloads in each place [default: 512; with --share 24].
    #[arg(long, value_name = "N")]
    payloads: Option<usize>,
    /// Small signals of the backlog that a run takes a hundred an iteration [default: 12000; with --share 1200].
    #[arg(long, value_name = "N")]
    backlog: Option<usize>,
    /// Minutes after which a place is given up.
    #[arg(long, value_name = "N", default_value_t = 20)]
    minutes: u64,
}

impl Options {
    fn payloads(&self) -> usize {
        self.payloads
            .unwrap_or(if self.common.share { 24 } else { 512 })
    }

    fn backlog(&self) -> usize {
        self.backlog
            .unwrap_or(if self.common.share { 1_200 } else { 12_000 })
    }

    const fn peak_mib_max(&self) -> u64 {
        if self.common.share {
            SHARE_PEAK_MIB_MAX
        } else {
            PEAK_MIB_MAX
        }
    }
}

/// Every place, one after the other.
pub(super) async fn run(options: &Options) -> anyhow::Result<Report> {
    let place = Place::new(&options.common.db, false)?;
    anyhow::ensure!(
        place.kind() != Kind::Memory,
        "bytes needs a database: sqlite:PATH or postgres://…"
    );
    let mut report = Report::new(&[
        "place",
        "store",
        "seconds",
        "server MiB",
        "worker MiB",
        "start ms, p50 / p99",
        "timer late ms, p50 / p99",
        "found",
    ]);
    for scenario in PLACES {
        let fits = scenario.on.is_none_or(|kind| kind == place.kind())
            && (scenario.share || !options.common.share);
        if !fits || !options.common.wants(scenario.name) {
            continue;
        }
        let database = place.make().await?;
        let measured = one(options, &database, scenario).await;
        database.remove().await?;
        let (cells, failures) = measured.unwrap_or_else(|error| {
            let mut cells = vec![scenario.name.to_owned(), place.kind().as_str().to_owned()];
            cells.resize(8, String::new());
            (cells, vec![format!("{error:#}")])
        });
        report.row(cells, failures);
    }
    Ok(report)
}

async fn one(
    options: &Options,
    database: &Database,
    scenario: &places::Place,
) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let mut stage = Stage::set(options, database).await?;
    let (timer, pace) = PULSE;
    let pulse = Pulse::start(&stage.http(), timer, pace);
    let began = std::time::Instant::now();
    let limit = Duration::from_secs(options.minutes * 60);
    let mut failures = Vec::new();
    let found = match tokio::time::timeout(limit, (scenario.play)(&mut stage)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            failures.push(format!("{error:#}"));
            String::new()
        }
        Err(_) => {
            failures.push(format!("not done after {limit:?}"));
            String::new()
        }
    };
    let took = began.elapsed();
    let beats = pulse.stop().await?;
    failures.extend(beats.failures());
    let mut peaks = Vec::new();
    for (process, peak) in stage.peaks() {
        match peak {
            Ok(mib) => {
                peaks.push(mib.to_string());
                if mib > options.peak_mib_max() {
                    let most = options.peak_mib_max();
                    failures.push(format!("the {process} held {mib} MiB, at most {most}"));
                }
            }
            Err(error) => {
                peaks.push("ended".to_owned());
                failures.push(format!("the {process}: {error:#}"));
            }
        }
    }
    let cells = vec![
        scenario.name.to_owned(),
        database.kind.as_str().to_owned(),
        format!("{:.1}", took.as_secs_f64()),
        peaks[0].clone(),
        peaks[1].clone(),
        beats.starts_ms(),
        beats.lateness_ms(),
        found,
    ];
    // A process that has ended meanwhile is a failure above, and needs no stopping.
    stage.clear().await;
    Ok((cells, failures))
}
