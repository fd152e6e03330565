//! Suites that show that nothing grows without bound: `growth` (finished runs), `bytes` (large
//! payloads), `noisy` (one client's load beside other runs). They talk to a server process as any
//! client does, and each scenario has a database of its own.
//!
//! `--share` is what the test command runs: small sizes, and only facts that no busy machine
//! changes. Without it times are judged too.

mod bytes;
mod fill;
mod growth;
mod http;
mod noisy;
mod pages;
pub(crate) mod programs;
mod pulse;
mod report;
mod served;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};

use report::Report;

/// What the suites share.
#[derive(Debug, Clone, Args)]
struct Common {
    /// The store: `sqlite:PATH` or `postgres://…`. Each scenario makes a database of its own beside
    /// it and removes it.
    #[arg(long, env = "DATABASE_URL", value_name = "URL")]
    db: String,
    /// The `durable` binary that serves; without it this program serves itself, by the same
    /// library.
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// The sizes of the test command, and no judgement of times.
    #[arg(long)]
    share: bool,
    /// Only scenarios whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

impl Common {
    /// Whether a scenario was asked for.
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }
}

/// A suite. Its own kind of command line, so that the jobs keep theirs.
#[derive(Debug, Parser)]
#[command(name = "durable-bench", version)]
pub(super) enum Suite {
    /// Starts, reads, retention, claims, J1 and J3 beside many finished runs, compared with a small
    /// database.
    Growth(growth::Options),
    /// Payloads of 4 MB in every place that takes one: nothing stops, nothing is lost, memory stays
    /// bounded.
    Bytes(bytes::Options),
    /// Timers and starts of other runs while one client is a bad neighbour.
    Noisy(noisy::Options),
}

impl Suite {
    /// The suite that the arguments ask for, if they ask for one.
    pub(super) fn asked_for() -> Option<Self> {
        let first = std::env::args().nth(1)?;
        ["growth", "bytes", "noisy"]
            .contains(&first.as_str())
            .then(Self::parse)
    }

    /// Runs it. The exit code is 1 where a scenario failed.
    ///
    /// # Errors
    /// Whatever keeps the suite from measuring at all.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let (report, json): (Report, bool) = match self {
            Self::Growth(options) => (growth::run(&options).await?, options.common.json),
            Self::Bytes(options) => (bytes::run(&options).await?, options.common.json),
            Self::Noisy(options) => (noisy::run(&options).await?, options.common.json),
        };
        Ok(report.print(json))
    }
}
