//! Signals: sets arrive in the inbox, and sets of them become history.

use std::time::{Duration, Instant};

use futures_util::future::join5;
use jiff::Timestamp;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{CONNECTIONS, Params, SET, prepared, shared_out};

const RUNS: &str = "INSERT INTO durable_bench_raw.instances
    SELECT 0, u.id, 'listener', 'running', 1, '{}', NULL, NULL, now(), now() FROM unnest($1::uuid[]) AS u(id)";

const SEND: &str = "INSERT INTO durable_bench_raw.inbox
    SELECT 0, u.run, u.arrival, '{\"n\":1}' FROM unnest($1::uuid[], $2::bigint[]) AS u(run, arrival)";

const TAKE: &str = "DELETE FROM durable_bench_raw.inbox AS i USING unnest($1::uuid[], $2::bigint[]) AS u(run, arrival)
    WHERE i.shard = 0 AND i.run_id = u.run AND i.arrival = u.arrival";

const EVENTS: &str = "INSERT INTO durable_bench_raw.events
    SELECT 0, u.run, u.arrival + 1, 'signal.received', '{}', '{\"n\":1}', $3
    FROM unnest($1::uuid[], $2::bigint[]) AS u(run, arrival)";

const UPDATE: &str =
    "UPDATE durable_bench_raw.instances SET sequence_num = sequence_num + 1, updated_at = $2
    WHERE shard = 0 AND id = ANY($1)";

/// A signal: to whom, and which of its.
type Signal = (Uuid, i64);

/// How long it takes to send so many signals evenly to so many runs, and to take them.
pub(crate) async fn took(url: &str, signals: usize, runs: usize) -> anyhow::Result<Duration> {
    let setup = prepared(url).await?;
    let ids: Vec<Uuid> = (0..runs).map(|_| Uuid::now_v7()).collect();
    for ids in ids.chunks(1000) {
        setup.execute(RUNS, &[&ids]).await?;
    }
    let arrivals = 1..=i64::try_from(signals.div_ceil(runs))?;
    let each = arrivals.flat_map(|arrival| ids.iter().map(move |id| (*id, arrival)));
    let signals: Vec<Signal> = each.take(signals).collect();
    let began = Instant::now();
    shared_out(url, CONNECTIONS, &signals, |client, signals| async move {
        let post = Post::new(client).await?;
        for set in signals.chunks(SET) {
            post.deliver(set).await?;
        }
        Ok(())
    })
    .await?;
    Ok(began.elapsed())
}

/// Delivers through one connection.
struct Post {
    client: Client,
    send: Statement,
    take: Statement,
    events: Statement,
    update: Statement,
}

impl Post {
    async fn new(client: Client) -> anyhow::Result<Self> {
        Ok(Self {
            send: client.prepare(SEND).await?,
            take: client.prepare(TAKE).await?,
            events: client.prepare(EVENTS).await?,
            update: client.prepare(UPDATE).await?,
            client,
        })
    }

    /// Two commits: it arrives, and it is taken.
    async fn deliver(&self, signals: &[Signal]) -> anyhow::Result<()> {
        let (runs, arrivals): (Vec<Uuid>, Vec<i64>) = signals.iter().copied().unzip();
        let (now, client) = (Timestamp::now(), &self.client);
        client.execute(&self.send, &[&runs, &arrivals]).await?;
        let both: Params<'_, 2> = [&runs, &arrivals];
        let events: Params<'_, 3> = [&runs, &arrivals, &now];
        let update: Params<'_, 2> = [&runs, &now];
        let (begin, taken, told, updated, commit) = join5(
            client.batch_execute("BEGIN"),
            client.execute(&self.take, &both),
            client.execute(&self.events, &events),
            client.execute(&self.update, &update),
            client.batch_execute("COMMIT"),
        )
        .await;
        begin.and(commit)?;
        for done in [taken, told, updated] {
            done?;
        }
        Ok(())
    }
}
