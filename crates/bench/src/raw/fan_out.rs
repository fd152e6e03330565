//! Fan-out: one commit that asks for all activities, then their ends in sets.

use std::time::{Duration, Instant};

use futures_util::future::{join, join5};
use jiff::Timestamp;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{Params, SET, prepared};

const EVENTS: &str = "INSERT INTO durable_bench_raw.events
    SELECT 0, $1, u.seq, $2, '{}', '{\"n\":1}', $4 FROM unnest($3::bigint[]) AS u(seq)";

const TASKS: &str = "INSERT INTO durable_bench_raw.tasks
    SELECT 0, $1, u.id, 'echo', '{}', '{}', 'claimed', 0, $3, 'bench', u.id, $3 FROM unnest($2::uuid[]) AS u(id)";

const DELETE: &str =
    "DELETE FROM durable_bench_raw.tasks WHERE shard = 0 AND run_id = $1 AND id = ANY($2)";

const RUN: &str = "INSERT INTO durable_bench_raw.instances VALUES (0, $1, 'fan', 'running', 0, '{}', NULL, NULL, $2, $2)";

const UPDATE: &str = "UPDATE durable_bench_raw.instances SET sequence_num = $2, updated_at = $3 WHERE shard = 0 AND id = $1";

/// How long one run with so many parallel activities takes.
pub(crate) async fn took(url: &str, width: usize) -> anyhow::Result<Duration> {
    let client = prepared(url).await?;
    let fan = Fan {
        run: Uuid::now_v7(),
        events: client.prepare(EVENTS).await?,
        tasks: client.prepare(TASKS).await?,
        delete: client.prepare(DELETE).await?,
        update: client.prepare(UPDATE).await?,
        client,
    };
    let tasks: Vec<Uuid> = (0..width).map(|_| Uuid::now_v7()).collect();
    let began = Instant::now();
    fan.client
        .execute(RUN, &[&fan.run, &Timestamp::now()])
        .await?;
    fan.commit(0, "activity.scheduled", &tasks, &[]).await?;
    for (set, tasks) in tasks.chunks(SET).enumerate() {
        let sequence = width + set * SET;
        fan.commit(sequence, "activity.completed", &[], tasks)
            .await?;
    }
    Ok(began.elapsed())
}

struct Fan {
    client: Client,
    run: Uuid,
    events: Statement,
    tasks: Statement,
    delete: Statement,
    update: Statement,
}

impl Fan {
    /// One flight: events, the tasks that are asked for, the tasks that are over, the run itself.
    async fn commit(
        &self,
        sequence: usize,
        event: &str,
        asked: &[Uuid],
        over: &[Uuid],
    ) -> anyhow::Result<()> {
        let now = Timestamp::now();
        let count = asked.len() + over.len();
        let first = i64::try_from(sequence)? + 1;
        let sequences: Vec<i64> = (first..).take(count).collect();
        let last = first + i64::try_from(count)?;
        let insert: Params<'_, 4> = [&self.run, &event, &sequences, &now];
        let ask: Params<'_, 3> = [&self.run, &asked, &now];
        let end: Params<'_, 2> = [&self.run, &over];
        let update: Params<'_, 3> = [&self.run, &last, &now];
        let client = &self.client;
        let work = join5(
            client.batch_execute("BEGIN"),
            client.execute(&self.events, &insert),
            client.execute(&self.tasks, &ask),
            client.execute(&self.delete, &end),
            client.execute(&self.update, &update),
        );
        let (work, commit) = join(work, client.batch_execute("COMMIT")).await;
        let (begin, events, tasks, deleted, updated) = work;
        begin.and(commit)?;
        for done in [events, tasks, deleted, updated] {
            done?;
        }
        Ok(())
    }
}
