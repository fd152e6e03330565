//! The proof as commands.
#![allow(
    clippy::print_stdout,
    reason = "a command's answer goes to standard output"
)]

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Proof for Durable's stores.
#[derive(Parser)]
#[command(name = "durable-testkit")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks the invariants that can be read from a database
    Audit(commands::audit::Args),
    /// Checks that stores do what the contract says
    Conformance(commands::conformance::Args),
    /// Sends the same random intents to two stores and compares every answer and all they hold
    Differential(commands::differential::Args),
    /// Runs a workload over a store that fails by a plan
    Faults(commands::faults::Args),
    /// Plants known mistakes and shows that the suites catch each
    Prove(commands::prove::Args),
    /// Runs engines, workers and clients in virtual time, with seeded faults
    Sim(commands::sim::Args),
    /// Runs worker processes of two builds side by side on one database
    Upgrade(commands::upgrade::Args),
    /// A worker process for the suites that kill some
    #[command(hide = true)]
    Worker(commands::worker::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match Cli::parse().command {
        Command::Audit(args) => runtime.block_on(commands::audit::run(&args)),
        Command::Conformance(args) => runtime.block_on(commands::conformance::run(&args)),
        Command::Differential(args) => runtime.block_on(commands::differential::run(&args)),
        Command::Faults(args) => runtime.block_on(commands::faults::run(&args)),
        Command::Prove(args) => commands::prove::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Upgrade(args) => runtime.block_on(commands::upgrade::run(&args)),
        Command::Worker(args) => runtime.block_on(commands::worker::run(&args)),
    }
}
