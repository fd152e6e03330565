//! Same-work benchmarks. Machines are shared and noisy: figures are compared within one run, as ratios, by their median.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod raw;
mod report;
mod store_job;
mod throughput;

use clap::{Parser, Subcommand};

/// Same-work benchmarks for Durable.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Debug, Subcommand)]
enum Job {
    /// Turns per second through the store contract, next to the same writes by bare UNNEST statements.
    Store(store_job::Options),
    /// Activities per second: workflows of five sequential no-op activities, all started up front.
    #[command(name = "J1")]
    Throughput(throughput::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().job {
        Job::Store(options) => store_job::run(options).await,
        Job::Throughput(options) => throughput::run(options).await,
    }
}
