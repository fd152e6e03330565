//! Same-work benchmarks. Machines are shared and noisy: figures are compared within one run, as ratios, by their median.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod fan_out;
mod history;
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
    /// One workflow with many parallel activities.
    #[command(name = "J2")]
    FanOut(fan_out::Options),
    /// One workflow of many sequential steps: time per step, by thousand.
    #[command(name = "J4")]
    History(history::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().job {
        Job::Store(options) => store_job::run(options).await,
        Job::Throughput(options) => throughput::run(options).await,
        Job::FanOut(options) => fan_out::run(options).await,
        Job::History(options) => history::run(options).await,
    }
}
