//! `upgrade --old BINARY --new BINARY`: worker processes of two builds side by side on one
//! database, under load. `cargo xtask upgrade` builds them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use durable_testkit::audit::audit;
use durable_testkit::engine_suite::{Script, Step};
use durable_testkit::postgres::TestDatabase;
use durable_testkit::process::{Effects, WorkerProcess, open_store};
use serde_json::json;
use uuid::Uuid;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The older build's testkit
    #[arg(long, value_name = "BINARY")]
    old: PathBuf,
    /// This build's testkit
    #[arg(long, value_name = "BINARY")]
    new: PathBuf,
    /// How many runs each phase starts
    #[arg(long, default_value_t = 200)]
    runs: u64,
}

const FLAGS: [&str; 5] = ["--workflows", "--lease-ms", "3000", "--slots", "20"];

/// Both builds on one database.
struct Arena {
    old: String,
    new: String,
    url: String,
    effects: Effects,
    runs: u64,
    started: Vec<Uuid>,
}

impl Arena {
    async fn worker(&self, program: &str) -> anyhow::Result<WorkerProcess> {
        WorkerProcess::start(program, &self.url, &self.effects, &FLAGS).await
    }

    /// Starts a phase's runs by one process: activities one after the other, a timer between them,
    /// and a line.
    async fn load(&mut self, by: &mut WorkerProcess) -> anyhow::Result<()> {
        for n in 0..self.runs {
            let steps = [
                Step::activity("paced", json!(n)),
                Step::Timer { millis: 20 },
                Step::Line {
                    name: "effect".to_owned(),
                    count: 2,
                },
            ];
            self.started.push(by.start_run(&Script::of(steps)).await?);
        }
        Ok(())
    }

    async fn all_end(&mut self, by: &mut WorkerProcess) -> anyhow::Result<()> {
        for run in std::mem::take(&mut self.started) {
            let status = by.await_run(run).await?;
            ensure!(status == "completed", "run {run} is {status}");
        }
        Ok(())
    }
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for old_first in [true, false] {
        one_way(args, old_first).await?;
    }
    println!("upgrade: ok");
    Ok(ExitCode::SUCCESS)
}

/// With the older build first, it makes the database and the newer one migrates it under load;
/// otherwise the older one comes to a database that it has never seen.
async fn one_way(args: &Args, old_first: bool) -> anyhow::Result<()> {
    let database = TestDatabase::empty().await?;
    let folder = tempfile::tempdir()?;
    let text = |path: &PathBuf| path.to_str().map(str::to_owned).context("a path in UTF-8");
    let mut arena = Arena {
        old: text(&args.old)?,
        new: text(&args.new)?,
        url: database.url()?,
        effects: Effects::at(folder.path().join("effects")),
        runs: args.runs,
        started: Vec::new(),
    };
    let (first, second) = if old_first {
        (arena.old.clone(), arena.new.clone())
    } else {
        (arena.new.clone(), arena.old.clone())
    };
    let mut builds = BTreeMap::new();
    let mut one = arena.worker(&first).await?;
    builds.insert(one.pid(), first.clone());
    arena.load(&mut one).await?;
    let mut two = arena.worker(&second).await?;
    builds.insert(two.pid(), second.clone());
    println!("upgrade: {first} and {second} side by side");
    arena.load(&mut two).await?;
    arena.all_end(&mut one).await?;

    // The older build restarts, under load, on what the newer one has made of the database.
    let (older, mut newer) = if old_first { (one, two) } else { (two, one) };
    arena.load(&mut newer).await?;
    older.kill()?;
    let mut restarted = arena.worker(&arena.old).await?;
    builds.insert(restarted.pid(), arena.old.clone());
    arena.load(&mut restarted).await?;
    arena.all_end(&mut newer).await?;

    let worked: BTreeSet<&String> = arena
        .effects
        .by_process()
        .keys()
        .filter_map(|pid| builds.get(pid))
        .collect();
    ensure!(worked.len() == 2, "only one build has worked: {worked:?}");
    let by_restarted = arena.effects.by_process().get(&restarted.pid()).copied();
    ensure!(
        by_restarted.is_some_and(|effects| effects > 0),
        "the older build has not worked after its restart"
    );
    println!(
        "upgrade: {} effects, {} of them by the older build after its restart",
        arena.effects.count(),
        by_restarted.unwrap_or_default()
    );
    restarted.stop().await?;
    newer.stop().await?;
    let report = audit(&*open_store(&arena.url).await?, None).await?;
    ensure!(report.is_clean(), "{report}");
    println!("upgrade: {} runs, audit clean", report.runs);
    database.remove().await;
    Ok(())
}
