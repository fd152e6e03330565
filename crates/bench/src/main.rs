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
mod turns;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use bench::Bench;
use options::Options;

/// Same-work benchmarks for Durable: every job on memory:, sqlite:PATH and postgres://…, with the raw-SQL counterpart beside it.
#[derive(Debug, Parser)]
#[command(
    name = "durable-bench",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    child: Option<Child>,
    #[command(flatten)]
    options: Option<Options>,
}

/// What the program starts itself as.
#[derive(Debug, Subcommand)]
enum Child {
    /// A server, for jobs in mode `remote`.
    #[command(hide = true)]
    ChildServer {
        /// Its store.
        db: String,
    },
    /// A worker of a server.
    #[command(hide = true)]
    ChildWorker {
        /// The server's gRPC address.
        server: String,
    },
    /// An engine with runs in flight, to be killed.
    #[command(hide = true)]
    ChildVictim {
        /// Its store.
        db: String,
        /// How many runs.
        runs: usize,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match (cli.child, cli.options) {
        (Some(Child::ChildServer { db }), _) => child::serve(db).await?,
        (Some(Child::ChildWorker { server }), _) => child::work(&server).await?,
        (Some(Child::ChildVictim { db, runs }), _) => child::be_killed(&db, runs).await?,
        (None, Some(options)) => return Bench::new(options)?.run_all().await,
        (None, None) => anyhow::bail!("name a job (J1 … J10, store) or all; --help tells more"),
    }
    Ok(ExitCode::SUCCESS)
}
