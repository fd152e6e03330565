//! `cargo xtask proto [--check]`

use std::process::ExitCode;

use super::forward;
use crate::{process, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only say whether the committed code is fresh
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--package", "durable-codegen", "--"]);
    if args.check {
        command.arg("--check");
    }
    Ok(forward(process::run(&mut command)?))
}
