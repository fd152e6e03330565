//! `cargo xtask audit --db URL`

use std::process::ExitCode;

use super::forward;
use crate::{
    process,
    testkit::{self, PlantedBugs, Profile},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database: sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    db: String,
    /// Further arguments for the testkit
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let mut list = vec!["audit".to_owned(), "--db".to_owned(), args.db.clone()];
    list.extend_from_slice(&args.rest);
    let mut command = testkit::command(workspace, Profile::Release, PlantedBugs::Absent, &list);
    Ok(forward(process::run(&mut command)?))
}
