//! Timers: whatever is due, in sets, by one statement a set: the timer goes, an event is written, its run is over.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use jiff::Timestamp;

use super::prepared;
use crate::figures::{histogram, note};

/// Timers of one set, as many as the engine fires at once.
const FIRED_AT_ONCE: i64 = 500;
/// How long is waited where none is due.
const PAUSE: Duration = Duration::from_millis(1);
/// Head start before the first is due, so that all are there.
const HEAD_START: Duration = Duration::from_millis(200);

const RUNS: &str = "WITH new AS (
        INSERT INTO durable_bench_raw.instances
        SELECT 0, gen_random_uuid(), 'sleeper', 'running', 1, '{}', NULL, NULL, now(), now()
        FROM generate_series(1, $1::bigint) RETURNING id)
    INSERT INTO durable_bench_raw.timers SELECT 0, id, 'sleep', 0 FROM new";

const SPREAD: &str = "UPDATE durable_bench_raw.timers AS t SET due_us = $1 + n.place * $2 / $3
    FROM (SELECT run_id, row_number() OVER () AS place FROM durable_bench_raw.timers) AS n
    WHERE t.shard = 0 AND t.run_id = n.run_id";

const FIRE: &str = "WITH due AS (
        DELETE FROM durable_bench_raw.timers WHERE shard = 0 AND (run_id, id) IN (
            SELECT run_id, id FROM durable_bench_raw.timers WHERE shard = 0 AND due_us <= $1 ORDER BY due_us LIMIT $2)
        RETURNING run_id, due_us),
    told AS (
        INSERT INTO durable_bench_raw.events
        SELECT 0, run_id, 2, 'timer.fired', '{}', NULL, now() FROM due),
    over AS (
        UPDATE durable_bench_raw.instances AS i SET status = 'completed', sequence_num = 3, updated_at = now()
        FROM due WHERE i.shard = 0 AND i.id = due.run_id)
    SELECT due_us FROM due";

/// What firing came to.
pub(crate) struct Fired {
    /// How late each was.
    pub(crate) lateness: Histogram<u64>,
    /// From the first that was due to the last that fired.
    pub(crate) took: Duration,
}

/// Fires so many timers that are due evenly over a time, which may be none.
pub(crate) async fn fire(url: &str, timers: usize, spread: Duration) -> anyhow::Result<Fired> {
    let client = prepared(url).await?;
    let count = i64::try_from(timers)?;
    client.execute(RUNS, &[&count]).await?;
    // The update takes its time, and is done again from where it ended: only the last one's instants count.
    let mut head_start = HEAD_START;
    let first = loop {
        let first = Timestamp::now() + head_start;
        let spread = i64::try_from(spread.as_micros())?;
        client
            .execute(SPREAD, &[&first.as_microsecond(), &spread, &count])
            .await?;
        if Timestamp::now() < first {
            break first;
        }
        head_start *= 2;
    };
    let fire = client.prepare(FIRE).await?;
    let until = Duration::try_from(Timestamp::now().until(first)?).unwrap_or_default();
    let due = Instant::now() + until;
    tokio::time::sleep(until).await;
    let mut lateness = histogram()?;
    while lateness.len() < timers as u64 {
        let now = Timestamp::now().as_microsecond();
        let rows = client.query(&fire, &[&now, &FIRED_AT_ONCE]).await?;
        let after = Timestamp::now().as_microsecond();
        for row in &rows {
            let late = u64::try_from(after - row.get::<_, i64>(0)).unwrap_or(0);
            note(&mut lateness, Duration::from_micros(late));
        }
        if rows.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(Fired {
        lateness,
        took: due.elapsed(),
    })
}
