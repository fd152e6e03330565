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
    /// Sends the same random intents to two stores and compares every answer and all they hold
    Differential(commands::differential::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match Cli::parse().command {
        Command::Differential(args) => runtime.block_on(commands::differential::run(&args)),
    }
}
