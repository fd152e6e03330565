//! Claims: sets of pending tasks leased by one statement each, passing over what others have locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use uuid::Uuid;

use super::{connect, prepared};
use crate::figures::per_second;
use everruns_durable::prelude::try_join_all;

/// Connections at most, as many as the store's pool for claims has.
const CONNECTIONS_MAX: usize = 50;

const FILL: &str = "INSERT INTO durable_bench_raw.tasks
    SELECT 0, gen_random_uuid(), gen_random_uuid(), 'noop', '{}', '{}', 'pending', 0, now(), NULL, NULL, NULL
    FROM generate_series(1, $1::bigint)";

const CLAIM: &str = "WITH pick AS MATERIALIZED (
        SELECT run_id, id FROM durable_bench_raw.tasks
        WHERE shard = 0 AND activity_type = 'noop' AND status = 'pending' AND visible_at <= now()
        ORDER BY priority DESC, visible_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE durable_bench_raw.tasks AS t
    SET status = 'claimed', claimed_by = $2, token = $3, lease_expires_at = now() + INTERVAL '15 seconds'
    FROM pick WHERE t.shard = 0 AND t.run_id = pick.run_id AND t.id = pick.id
    RETURNING t.id, t.input, t.options";

/// Tasks claimed per second.
pub(crate) async fn tasks_per_s(
    url: &str,
    queue: usize,
    claimers: usize,
    max: usize,
) -> anyhow::Result<f64> {
    let setup = prepared(url).await?;
    setup.execute(FILL, &[&i64::try_from(queue)?]).await?;
    setup
        .batch_execute("VACUUM ANALYZE durable_bench_raw.tasks")
        .await?;
    let max = i64::try_from(max)?;
    let mut clients = Vec::new();
    for _ in 0..claimers.min(CONNECTIONS_MAX) {
        let client = connect(url).await?;
        let claim = client.prepare(CLAIM).await?;
        clients.push((client, claim));
    }
    let claimed = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let claimers = clients.into_iter().map(|(client, claim)| {
        let claimed = Arc::clone(&claimed);
        let claimer = async move {
            // One that finds nothing while others hold the rest locked looks again.
            while claimed.load(Ordering::Relaxed) < queue {
                let rows = client
                    .query(&claim, &[&max, &"bench", &Uuid::now_v7()])
                    .await?;
                claimed.fetch_add(rows.len(), Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        async { tokio::spawn(claimer).await? }
    });
    try_join_all(claimers).await?;
    let took: Duration = began.elapsed();
    ensure!(
        claimed.load(Ordering::Relaxed) == queue,
        "a task was claimed twice"
    );
    Ok(per_second(queue, took))
}
