//! `cargo xtask growth`, `cargo xtask bytes`, `cargo xtask noisy`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{bail, ensure};

use super::forward;
use crate::{
    postgres::{Durability, POSTGRES_URL, Servers},
    process,
    workspace::Workspace,
};

/// Which store a suite measures.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DbKind {
    Postgres,
    Sqlite,
}

/// What the three suites share.
#[derive(clap::Args)]
struct Shared {
    /// The store, in a private cluster or below the target folder
    #[arg(long, default_value = "postgres")]
    db_kind: DbKind,
    /// The sizes of the test command, and no judgement of times
    #[arg(long)]
    share: bool,
    /// Use what was built for the tests, not a release build: shows that a suite works; its times mean little
    #[arg(long)]
    debug: bool,
    /// Only scenarios whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Further arguments for the suite
    #[arg(last = true)]
    rest: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Growth {
    /// Finished runs of the full database; ten million, if not given
    #[arg(long)]
    runs: Option<u64>,
    #[command(flatten)]
    shared: Shared,
}

#[derive(clap::Args)]
pub(crate) struct Bytes {
    /// Payloads of 4 MB in each place; 512, if not given
    #[arg(long)]
    payloads: Option<usize>,
    #[command(flatten)]
    shared: Shared,
}

#[derive(clap::Args)]
pub(crate) struct Noisy {
    /// Finished runs in the database; a million, if not given
    #[arg(long)]
    runs: Option<u64>,
    #[command(flatten)]
    shared: Shared,
}

pub(crate) fn growth(workspace: &Workspace, args: &Growth) -> anyhow::Result<ExitCode> {
    let size = args.runs.map(|runs| ("--runs", runs.to_string()));
    run(workspace, "growth", size, &args.shared)
}

pub(crate) fn bytes(workspace: &Workspace, args: &Bytes) -> anyhow::Result<ExitCode> {
    let size = args.payloads.map(|count| ("--payloads", count.to_string()));
    run(workspace, "bytes", size, &args.shared)
}

pub(crate) fn noisy(workspace: &Workspace, args: &Noisy) -> anyhow::Result<ExitCode> {
    let size = args.runs.map(|runs| ("--runs", runs.to_string()));
    run(workspace, "noisy", size, &args.shared)
}

fn run(
    workspace: &Workspace,
    suite: &str,
    size: Option<(&str, String)>,
    shared: &Shared,
) -> anyhow::Result<ExitCode> {
    let mut build = workspace.cargo();
    // With the features of the whole workspace, as the tests are built: what they have compiled is used again.
    build.args(["build", "--quiet", "--workspace"]);
    build.args(["--bin", "durable", "--bin", "durable-bench"]);
    if !shared.debug {
        build.arg("--release");
    }
    ensure!(process::run(&mut build)?.success(), "the build failed");
    let profile = if shared.debug { "debug" } else { "release" };
    let built = |program: &str| workspace.target().join(profile).join(program);

    let mut command = std::process::Command::new(built("durable-bench"));
    command.arg(suite).args(arguments(size, shared));
    command.arg("--server").arg(built("durable"));
    // A cluster whose commits are flushed, since times are judged; held until the suite is over.
    let _servers = match shared.db_kind {
        DbKind::Postgres => {
            let servers = Servers::open(workspace, Durability::Flushed)?;
            servers.export(&mut command);
            let url = command
                .get_envs()
                .find(|(name, _)| *name == POSTGRES_URL)
                .and_then(|(_, url)| url.map(std::ffi::OsStr::to_os_string));
            let Some(url) = url else {
                bail!("the private PostgreSQL has no URL");
            };
            command.arg("--db").arg(url);
            Some(servers)
        }
        DbKind::Sqlite => {
            let path: PathBuf = workspace.target().join("suites.db");
            command
                .arg("--db")
                .arg(format!("sqlite:{}", path.display()));
            None
        }
    };
    Ok(forward(process::run(&mut command)?))
}

fn arguments(size: Option<(&str, String)>, shared: &Shared) -> Vec<String> {
    let mut list = Vec::new();
    if let Some((name, value)) = size {
        list.extend([name.to_owned(), value]);
    }
    if shared.share {
        list.push("--share".to_owned());
    }
    if let Some(only) = &shared.only {
        list.extend(["--only".to_owned(), only.clone()]);
    }
    list.extend_from_slice(&shared.rest);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_on() {
        let shared = Shared {
            db_kind: DbKind::Sqlite,
            share: true,
            debug: false,
            only: Some("count".to_owned()),
            rest: vec!["--rounds".to_owned(), "5".to_owned()],
        };
        let list = arguments(Some(("--runs", "7".to_owned())), &shared).join(" ");
        assert_eq!(list, "--runs 7 --share --only count --rounds 5");
    }
}
