//! What an engine costs while nothing happens.

use std::time::Duration;

use durable_testkit::engine_suite::{Effects, Scripted, scripted_activities};
use durable_testkit::postgres::TestDatabase;
use everruns_durable::Engine;
use everruns_durable::persistence::Shards;
use tokio_postgres::NoTls;

/// How long is counted: several times the longest of the short intervals, so that where it begins matters little.
const WINDOW: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_engine_on_postgres_sends_at_most_one_query_a_second() -> anyhow::Result<()> {
    let database = TestDatabase::create(Shards::new(1)).await?;
    let url = database.url()?;
    let (observer, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    // Part of the server that `cargo xtask test` starts; statements like BEGIN are counted too.
    observer
        .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .await?;

    let builder = Engine::postgres(url).workflow::<Scripted>();
    let engine = scripted_activities(builder, &Effects::new())
        .start()
        .await?;
    // Not to wait for something, but to leave out what is sent once at the start: connections, their settings, the first looks.
    tokio::time::sleep(Duration::from_secs(3)).await;
    observer.batch_execute("SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()))").await?;
    tokio::time::sleep(WINDOW).await;
    let rows = observer
        .query(
            "SELECT calls, query FROM pg_stat_statements
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND query NOT LIKE '%pg_stat_statements%'
             ORDER BY calls DESC",
            &[],
        )
        .await?;
    engine.shutdown().await?;

    let calls: i64 = rows.iter().map(|row| row.get::<_, i64>("calls")).sum();
    let breakdown: Vec<String> = rows
        .iter()
        .map(|row| {
            let query: String = row.get("query");
            let head: String = query
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(120)
                .collect();
            format!("{:>4}  {head}", row.get::<_, i64>("calls"))
        })
        .collect();
    assert!(
        calls > 0,
        "an engine that never looks at its store would find nothing"
    );
    let most = i64::try_from(WINDOW.as_secs())?;
    assert!(
        calls <= most,
        "{calls} statements in {WINDOW:?}:\n{}",
        breakdown.join("\n")
    );
    drop(observer);
    database.remove().await;
    Ok(())
}
