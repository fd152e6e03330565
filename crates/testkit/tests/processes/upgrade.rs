//! Databases of an older schema, with data: opened by this build, and their open runs carried to
//! their end. `fixtures/make.py` says how the dumps were made.

use durable_testkit::process::open_store;
use everruns_durable::Client;
use everruns_durable::persistence::model::{Dump, TaskStatus};
use serde_json::json;
use uuid::Uuid;

use crate::ground::{Ground, SHORT_LEASE};

pub(crate) const POSTGRES_V016: &str = include_str!("../../fixtures/postgres-V016.sql");
pub(crate) const SQLITE_0008: &str = include_str!("../../fixtures/sqlite-0008.sql");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_schema_v016_end_on_this_build_on_postgres() -> anyhow::Result<()> {
    carried_to_their_end(Ground::postgres_from(POSTGRES_V016).await?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_schema_0008_end_on_this_build_on_sqlite() -> anyhow::Result<()> {
    carried_to_their_end(Ground::sqlite_from(SQLITE_0008)?).await
}

async fn carried_to_their_end(ground: Ground) -> anyhow::Result<()> {
    let store = open_store(&ground.url).await?;
    let dump = store.dump().await?;
    let open = open_runs(&dump);
    let client = Client::on(store);
    for run in &open {
        client.signal(*run, "go", &json!("now")).await?;
    }
    let parked = dump.dead_letters.iter().filter(|letter| letter.parked);
    for letter in parked {
        client.requeue_dead_letter(letter.run_id, letter.id).await?;
    }
    drop(client);
    std::fs::write(ground.effects.path().with_extension("open"), "")?;
    let mut worker = ground.worker(&[&["--workflows"], &SHORT_LEASE]).await?;
    for run in open {
        assert_eq!(worker.await_run(run).await?, "completed", "run {run}");
    }
    worker.stop().await?;
    ground.close().await
}

/// The runs that have not ended; among them one of each kind that waits.
fn open_runs(dump: &Dump) -> Vec<Uuid> {
    let open = dump.runs.iter().filter(|run| !run.run.status.is_terminal());
    let open: Vec<_> = open.collect();
    assert!(open.len() >= 8 && dump.runs.len() > open.len());
    assert!(open.iter().any(|run| !run.timers.is_empty()), "a timer");
    assert!(open.iter().any(|run| !run.signals.is_empty()), "a signal");
    assert!(open.iter().any(|run| run.run.parent.is_some()), "a child");
    assert!(open.iter().any(|run| run.run.iteration > 0), "an iteration");
    let tasks = || open.iter().flat_map(|run| &run.tasks);
    assert!(tasks().any(|task| task.status == TaskStatus::Dead));
    assert!(tasks().any(|task| task.status == TaskStatus::InLine));
    open.iter().map(|run| run.run.id).collect()
}
