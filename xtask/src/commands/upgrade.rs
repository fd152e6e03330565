//! `cargo xtask upgrade --from REV`: an older build and this one side by side on one PostgreSQL, under load.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, bail};

use super::forward;
use crate::{
    postgres::{Durability, Servers},
    process,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The older build: a revision that git knows, at or behind the first one that looks at the minimum
    #[arg(long, value_name = "REV")]
    from: String,
    /// How many runs each phase starts
    #[arg(long, default_value_t = 200)]
    runs: u64,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let old = build_old(workspace, &args.from)?;
    let mut build = workspace.cargo();
    build.args([
        "build",
        "--package",
        "durable-testkit",
        "--bin",
        "durable-testkit",
    ]);
    if !process::run(&mut build)?.success() {
        bail!("this tree does not build");
    }
    let new = workspace.target().join("debug/durable-testkit");
    let servers = Servers::open(workspace, Durability::Volatile)?;
    let mut command = Command::new(&new);
    command
        .arg("upgrade")
        .arg("--old")
        .arg(&old)
        .arg("--new")
        .arg(&new);
    command.arg("--runs").arg(args.runs.to_string());
    servers.export(&mut command);
    Ok(forward(process::run(&mut command)?))
}

/// Builds the testkit of a revision in a git worktree of its own below the target folder, where it stays
/// for the next time.
fn build_old(workspace: &Workspace, revision: &str) -> anyhow::Result<PathBuf> {
    let mut parse = git(workspace.root());
    parse.args(["rev-parse", "--verify", "--short=12"]);
    parse.arg(format!("{revision}^{{commit}}"));
    let commit = process::output(&mut parse).context("git does not know the revision")?;
    let commit = commit.trim();
    let folder = workspace.target().join("upgrade").join(commit);
    if !folder.exists() {
        let mut add = git(workspace.root());
        add.args(["worktree", "add", "--detach", "--force"]);
        add.arg(&folder).arg(commit);
        if !process::run(&mut add)?.success() {
            bail!("git made no worktree of {commit}");
        }
    }
    let mut build = workspace.cargo();
    build
        .current_dir(&folder)
        .args([
            "build",
            "--package",
            "durable-testkit",
            "--bin",
            "durable-testkit",
        ])
        .arg("--target-dir")
        .arg(folder.join("target"));
    if !process::run(&mut build)?.success() {
        bail!("{commit} does not build");
    }
    Ok(folder.join("target/debug/durable-testkit"))
}

fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder);
    command
}
