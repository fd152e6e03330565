//! The `durable` binary: one command for development, servers, workers and operations.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints")]

mod api;
mod config;
mod dev;
mod exit;
mod logging;
mod migrate;
mod output;
mod server;
mod settings;
mod signals;
mod token;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use api::ServerFlags;
use exit::Result;
use output::{Format, Output};

/// Durable execution: programs whose progress survives crashes, restarts and deploys.
///
/// Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 unreachable, 7 the workflow failed.
#[derive(Debug, Parser)]
#[command(name = "durable", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How data is printed: a table for people, JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything on this machine, with nothing to set up.
    Dev(Box<dev::Options>),
    /// Run a server.
    Server(Box<server::Options>),
    /// The schema of a database.
    Migrate(migrate::Options),
    /// The server's settings.
    #[command(subcommand)]
    Config(config::Action),
    /// Who may come in: the token file.
    Token(token::Options),
    /// Print a script that completes commands in a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the version.
    Version,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.code()
        }
    }
}

async fn run(cli: Cli) -> Result<()> {
    let output = Output::new(cli.output);
    match cli.command {
        Command::Dev(options) => dev::run(*options).await,
        Command::Server(options) => server::run(*options).await,
        Command::Migrate(options) => migrate::run(&options, &output).await,
        Command::Config(action) => config::run(&action, &output),
        Command::Token(options) => token::run(&options, &output),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "durable", &mut std::io::stdout());
            Ok(())
        }
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            output.one(&serde_json::json!({"version": version}), || format!("durable {version}"))
        }
    }
}
