//! The `durable` binary.

#![allow(clippy::print_stdout, reason = "a command line prints")]

mod dev;
mod migrate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Durable execution: programs whose progress survives crashes, restarts and deploys.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the engine on its embedded store, with one small workflow that tells what happens to it.
    Dev(dev::Options),
    /// The schema of a database.
    Migrate(migrate::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Dev(options) => dev::run(options).await,
        Command::Migrate(options) => migrate::run(options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, each said once.
#[allow(clippy::print_stderr, reason = "errors go to standard error")]
fn complain(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    eprintln!("error: {text}");
}
