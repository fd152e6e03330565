//! The command line: one variant per command, one file per command in `commands/`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{commands, interrupt, workspace::Workspace};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Durable's project commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test there is against a private PostgreSQL, and print the totals
    Test(commands::test::Args),
    /// Run a command beside a private PostgreSQL and PgBouncer
    Pg(commands::pg::Args),
    /// Send the same random intents to several stores and compare them
    Differential(commands::differential::Args),
    /// Check the invariants of a database
    Audit(commands::audit::Args),
    /// Run engines, workers and clients in virtual time with seeded faults
    Sim(commands::sim::Args),
    /// Show that the suites catch planted bugs
    Prove(commands::prove::Args),
    /// Measure what finished runs cost everything else: a full database beside a small one
    Growth(commands::suite::Growth),
    /// Send payloads of 4 MB to every place that takes one, and bound the memory of each process
    Bytes(commands::suite::Bytes),
    /// Measure timers and starts of other runs while one client is a bad neighbour
    Noisy(commands::suite::Noisy),
    /// Count the instructions of a replay with callgrind; more than a tenth over the committed number fails
    Ratchet(commands::ratchet::Args),
    /// Generate crates/proto's code from its .proto files
    Proto(commands::proto::Args),
    /// Check the allowed dependency edges and where SQL lives
    Arch,
    /// Run an older build and this one side by side on one PostgreSQL, under load
    Upgrade(commands::upgrade::Args),
    /// Check licences, banned crates, advisories and sources with cargo-deny
    Deny(commands::deny::Args),
}

/// Parses the command line, runs the command, and says what the process exits with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            interrupt::exit_code(&error)
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let workspace = Workspace::find()?;
    match command {
        Command::Test(args) => commands::test::run(&workspace, args),
        Command::Pg(args) => commands::pg::run(&workspace, args),
        Command::Differential(args) => commands::differential::run(&workspace, args),
        Command::Audit(args) => commands::audit::run(&workspace, args),
        Command::Sim(args) => commands::sim::run(&workspace, args),
        Command::Prove(args) => commands::prove::run(&workspace, args),
        Command::Growth(args) => commands::suite::growth(&workspace, args),
        Command::Bytes(args) => commands::suite::bytes(&workspace, args),
        Command::Noisy(args) => commands::suite::noisy(&workspace, args),
        Command::Ratchet(args) => commands::ratchet::run(&workspace, args),
        Command::Proto(args) => commands::proto::run(&workspace, args),
        Command::Arch => commands::arch::run(&workspace),
        Command::Upgrade(args) => commands::upgrade::run(&workspace, args),
        Command::Deny(args) => commands::deny::run(&workspace, args),
    }
}
