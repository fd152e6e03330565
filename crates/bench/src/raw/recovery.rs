//! Recovery: the leases of what was in flight are taken back, the histories read, and each run gets on by one step, in sets.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{CONNECTIONS, Params, SET, prepared, shared_out};

const FILL: &str = "WITH run AS (
        INSERT INTO durable_bench_raw.instances
        SELECT 0, gen_random_uuid(), 'held', 'running', 2, '{}', NULL, NULL, now(), now()
        FROM generate_series(1, $1::bigint) RETURNING id),
    told AS (
        INSERT INTO durable_bench_raw.events
        SELECT 0, run.id, n, 'activity.scheduled', '{}', '{}', now() FROM run, generate_series(1, 2) AS n)
    INSERT INTO durable_bench_raw.tasks
    SELECT 0, id, id, 'hold', '{}', '{}', 'claimed', 0, now(), 'dead', id, now() FROM run
    RETURNING run_id";

const RECLAIM: &str = "UPDATE durable_bench_raw.tasks SET claimed_by = 'bench', lease_expires_at = now() + INTERVAL '15 seconds'
    WHERE shard = 0 AND run_id = ANY($1) AND lease_expires_at <= now()";

const READ: &str =
    "SELECT run_id, sequence_num, event_type, data, payload FROM durable_bench_raw.events
    WHERE shard = 0 AND run_id = ANY($1) ORDER BY run_id, sequence_num";

const FINISH: &str = "WITH gone AS (DELETE FROM durable_bench_raw.tasks WHERE shard = 0 AND run_id = ANY($1) RETURNING run_id),
    told AS (
        INSERT INTO durable_bench_raw.events SELECT 0, run_id, 3, 'activity.completed', '{}', '{}', $2 FROM gone)
    UPDATE durable_bench_raw.instances AS i SET status = 'completed', sequence_num = 4, updated_at = $2
    FROM gone WHERE i.shard = 0 AND i.id = gone.run_id";

/// How long so many runs take, once their leases have run out.
pub(crate) async fn took(url: &str, runs: usize) -> anyhow::Result<Duration> {
    let setup = prepared(url).await?;
    let rows = setup.query(FILL, &[&i64::try_from(runs)?]).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let began = Instant::now();
    shared_out(url, CONNECTIONS, &ids, |client, ids| async move {
        for set in ids.chunks(SET) {
            recover(&client, set).await?;
        }
        Ok(())
    })
    .await?;
    Ok(began.elapsed())
}

async fn recover(client: &Client, runs: &[Uuid]) -> anyhow::Result<()> {
    client.execute(RECLAIM, &[&runs]).await?;
    client.query(READ, &[&runs]).await?;
    let now = Timestamp::now();
    let finish: Params<'_, 2> = [&runs, &now];
    client.execute(FINISH, &finish).await?;
    Ok(())
}
