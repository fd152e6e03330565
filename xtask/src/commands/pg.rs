//! `cargo xtask pg -- COMMAND…`

use std::{
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::Context as _;

use super::forward;
use crate::{
    postgres::{Durability, Servers},
    process,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Flush every commit to disk (for benchmarks)
    #[arg(long)]
    fsync: bool,
    /// The command; it finds the servers by DURABLE_TEST_POSTGRES_URL, DURABLE_TEST_PGBOUNCER_URL and libpq's variables
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let durability = if args.fsync {
        Durability::Flushed
    } else {
        Durability::Volatile
    };
    let started = Instant::now();
    let servers = Servers::open(workspace, durability)?;
    println!(
        "postgres: ready after {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let (program, rest) = args.command.split_first().context("no command given")?;
    let mut command = Command::new(program);
    command.args(rest);
    servers.export(&mut command);
    servers.export_for_libpq(&mut command)?;
    Ok(forward(process::run(&mut command)?))
}
