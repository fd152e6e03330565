//! Same-work benchmarks. Machines are shared and noisy: figures are compared within one run, as ratios to what bare statements reach.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its figures"
)]

mod bench;
mod child;
mod database;
mod figures;
mod jobs;
mod options;
mod output;
mod pg_stats;
mod process;
mod raw;
mod suites;
mod turns;
mod work;

use std::process::ExitCode;

use clap::Parser;

use bench::Bench;
use child::Child;
use options::Options;
use suites::Suite;

/// Many small things are made on one thread and dropped on another; this one is good at that. Measured: half as many activities again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Same-work benchmarks for Durable: every job on memory:, sqlite:PATH and postgres://…, with its raw-SQL counterpart beside it.
#[derive(Debug, Parser)]
#[command(name = "durable-bench", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Child::asked_for() {
        Some(child) => child.run().await.map(|()| ExitCode::SUCCESS),
        None => match Suite::asked_for() {
            Some(suite) => suite.run().await,
            None => run(Cli::parse().options).await,
        },
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("durable-bench: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run(options: Options) -> anyhow::Result<ExitCode> {
    Bench::new(options)?.run_all().await
}
