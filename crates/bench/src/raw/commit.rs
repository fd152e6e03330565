//! One client, one small commit after the other: pgbench's simple update, and its like on SQLite.

use std::time::Instant;

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::connect;
use crate::database::{Database, Kind};
use crate::figures::{histogram, note};

/// Rows that the updates choose from, as many as pgbench has at scale 1.
const ACCOUNTS: i32 = 100_000;

const SETUP: &str = "
    CREATE SCHEMA IF NOT EXISTS durable_bench_raw;
    DROP TABLE IF EXISTS durable_bench_raw.accounts, durable_bench_raw.changes;
    CREATE TABLE durable_bench_raw.accounts (aid INT PRIMARY KEY, balance INT NOT NULL, filler CHAR(84) NOT NULL) WITH (fillfactor = 100);
    CREATE TABLE durable_bench_raw.changes (aid INT NOT NULL, delta INT NOT NULL, at TIMESTAMPTZ NOT NULL, filler CHAR(22));
    INSERT INTO durable_bench_raw.accounts SELECT n, 0, '' FROM generate_series(1, 100000) AS n;
    VACUUM ANALYZE durable_bench_raw.accounts;";

/// How long one commit takes, so many times; nothing for a store without one.
pub(crate) async fn latency(
    database: &Database,
    times: usize,
) -> anyhow::Result<Option<Histogram<u64>>> {
    match database.kind {
        Kind::Memory => Ok(None),
        Kind::Postgres => postgres(&database.url, times).await.map(Some),
        Kind::Sqlite => {
            let path = database.path().context("a SQLite database has a path")?;
            let path = format!("{path}-commits");
            tokio::task::spawn_blocking(move || sqlite(&path, times))
                .await?
                .map(Some)
        }
    }
}

/// `pgbench -N -c 1`: the statements one by one, as pgbench sends them.
async fn postgres(url: &str, times: usize) -> anyhow::Result<Histogram<u64>> {
    let client = connect(url).await?;
    for statement in SETUP.split(';').filter(|text| !text.trim().is_empty()) {
        client.batch_execute(statement).await?;
    }
    let mut latency = histogram()?;
    for n in 0..i32::try_from(times)? {
        // Spread over the table without chance, so that two runs do the same.
        let aid = n.wrapping_mul(7919).rem_euclid(ACCOUNTS) + 1;
        let began = Instant::now();
        client.batch_execute("BEGIN").await?;
        let update = format!(
            "UPDATE durable_bench_raw.accounts SET balance = balance + {n} WHERE aid = {aid}"
        );
        client.batch_execute(&update).await?;
        let read = format!("SELECT balance FROM durable_bench_raw.accounts WHERE aid = {aid}");
        client.simple_query(&read).await?;
        let insert = format!(
            "INSERT INTO durable_bench_raw.changes (aid, delta, at) VALUES ({aid}, {n}, CURRENT_TIMESTAMP)"
        );
        client.batch_execute(&insert).await?;
        client.batch_execute("END").await?;
        note(&mut latency, began.elapsed());
    }
    Ok(latency)
}

/// One row a commit, flushed.
fn sqlite(path: &str, times: usize) -> anyhow::Result<Histogram<u64>> {
    let connection = rusqlite::Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection
        .execute_batch("CREATE TABLE commits (id INTEGER PRIMARY KEY, filler BLOB NOT NULL)")?;
    let mut latency = histogram()?;
    for _ in 0..times {
        let began = Instant::now();
        connection.execute("INSERT INTO commits (filler) VALUES (?1)", [[7_u8; 100]])?;
        note(&mut latency, began.elapsed());
    }
    drop(connection);
    for end in ["", "-wal", "-shm"] {
        let file = format!("{path}{end}");
        if std::fs::exists(&file)? {
            std::fs::remove_file(file)?;
        }
    }
    Ok(latency)
}
