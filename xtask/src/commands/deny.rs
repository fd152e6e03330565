//! `cargo xtask deny`

use std::process::{ExitCode, Stdio};

use anyhow::bail;

use super::forward;
use crate::{process, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to check; without a network leave out `advisories`, whose database is fetched
    #[arg(default_values_t = ["advisories", "bans", "licenses", "sources"].map(String::from))]
    checks: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let installed = workspace
        .cargo()
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !installed {
        bail!("cargo-deny is not installed: `cargo install cargo-deny --locked`");
    }
    let mut command = workspace.cargo();
    command
        .args(["deny", "--workspace", "--all-features", "check"])
        .args(&args.checks);
    Ok(forward(process::run(&mut command)?))
}
