//! The same work by bare statements through the same driver: what the database and the client can do at best.
//!
//! One counterpart for each kind of job. Keys are led by a shard, payloads are bytes, sets go by UNNEST in one pipelined transaction.

pub(crate) mod claims;
pub(crate) mod client200;
pub(crate) mod commit;
pub(crate) mod fan_out;
pub(crate) mod recovery;
pub(crate) mod signals;
pub(crate) mod timers;

use anyhow::Context as _;
use everruns_durable::prelude::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

/// Sets of this many, as the yardstick `client200` has them.
pub(crate) const SET: usize = 200;
/// Connections that write at once, as `client200` has them.
pub(crate) const CONNECTIONS: usize = 2;

/// Parameters of a statement.
type Params<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

/// Tables of the counterparts, made anew for each.
const SCHEMA: &str = "
    CREATE SCHEMA IF NOT EXISTS durable_bench_raw;
    DROP TABLE IF EXISTS durable_bench_raw.instances, durable_bench_raw.events, durable_bench_raw.tasks,
        durable_bench_raw.timers, durable_bench_raw.inbox;
    CREATE TABLE durable_bench_raw.instances (
        shard INT NOT NULL, id UUID NOT NULL, workflow_type TEXT NOT NULL, status TEXT NOT NULL,
        sequence_num BIGINT NOT NULL, input BYTEA, result BYTEA, last_turn UUID,
        created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL,
        PRIMARY KEY (shard, id)) WITH (fillfactor = 70);
    CREATE TABLE durable_bench_raw.events (
        shard INT NOT NULL, run_id UUID NOT NULL, sequence_num BIGINT NOT NULL, event_type TEXT NOT NULL,
        data BYTEA NOT NULL, payload BYTEA, created_at TIMESTAMPTZ NOT NULL,
        PRIMARY KEY (shard, run_id, sequence_num));
    CREATE TABLE durable_bench_raw.tasks (
        shard INT NOT NULL, run_id UUID NOT NULL, id UUID NOT NULL, activity_type TEXT NOT NULL,
        input BYTEA, options BYTEA, status TEXT NOT NULL, priority INT NOT NULL, visible_at TIMESTAMPTZ NOT NULL,
        claimed_by TEXT, token UUID, lease_expires_at TIMESTAMPTZ,
        PRIMARY KEY (shard, run_id, id));
    CREATE INDEX ON durable_bench_raw.tasks (shard, activity_type, priority DESC, visible_at, id) WHERE status = 'pending';
    CREATE INDEX ON durable_bench_raw.tasks (shard, lease_expires_at) WHERE status = 'claimed';
    CREATE TABLE durable_bench_raw.timers (
        shard INT NOT NULL, run_id UUID NOT NULL, id TEXT NOT NULL, due_us BIGINT NOT NULL, PRIMARY KEY (shard, run_id, id));
    CREATE INDEX ON durable_bench_raw.timers (shard, due_us);
    CREATE TABLE durable_bench_raw.inbox (
        shard INT NOT NULL, run_id UUID NOT NULL, arrival BIGINT NOT NULL, payload BYTEA NOT NULL,
        PRIMARY KEY (shard, run_id, arrival));";

/// A connection.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("PostgreSQL could not be reached")?;
    tokio::spawn(connection);
    Ok(client)
}

/// A connection and empty tables.
async fn prepared(url: &str) -> anyhow::Result<Client> {
    let client = connect(url).await?;
    client.batch_execute(SCHEMA).await?;
    Ok(client)
}

/// Gives every connection its share and waits for all.
async fn shared_out<T, F>(
    url: &str,
    connections: usize,
    items: &[T],
    work: impl Fn(Client, Vec<T>) -> F,
) -> anyhow::Result<()>
where
    T: Clone,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let share = items.len().div_ceil(connections).max(1);
    let mut under_way = Vec::new();
    for items in items.chunks(share) {
        let client = connect(url).await?;
        under_way.push(work(client, items.to_vec()));
    }
    let tasks = under_way
        .into_iter()
        .map(|work| async { tokio::spawn(work).await? });
    try_join_all(tasks).await?;
    Ok(())
}
