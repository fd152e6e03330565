//! `client200`: runs of five steps, in sets, each set one pipelined transaction.
//!
//! Per set: update the instances by their expected sequence, insert two events a step, delete the finished tasks, insert the next ones
//! already leased.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::future::{join, join5, try_join_all};
use jiff::Timestamp;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{CONNECTIONS, Params, SET, connect, prepared};
use crate::jobs::TURNS;
use crate::work::STEPS;

const START: &str = "INSERT INTO durable_bench_raw.instances
    SELECT 0, id, 'bench', 'pending', 0, $2, NULL, NULL, $3, $3 FROM unnest($1::uuid[]) AS u(id)";

const UPDATE: &str = "UPDATE durable_bench_raw.instances i
    SET sequence_num = i.sequence_num + 2, status = $4, result = $5, last_turn = u.turn, updated_at = $6
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS u(id, seq, turn)
    WHERE i.shard = 0 AND i.id = u.id AND i.sequence_num = u.seq";

const EVENTS: &str = "INSERT INTO durable_bench_raw.events
    SELECT 0, u.run, u.seq, u.kind, u.data, u.payload, $6
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[]) AS u(run, seq, kind, data, payload)";

const DELETE: &str =
    "DELETE FROM durable_bench_raw.tasks t USING unnest($1::uuid[], $2::uuid[]) AS u(run, id)
    WHERE t.shard = 0 AND t.run_id = u.run AND t.id = u.id";

const INSERT: &str = "INSERT INTO durable_bench_raw.tasks
    SELECT 0, u.run, u.id, 'noop', u.input, u.options, 'claimed', 0, $5, 'bench-worker', u.id, $6
    FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[]) AS u(run, id, input, options)";

/// Activities per second in the shape of J1, as the yardstick has it: sets of 200, two connections.
pub(crate) async fn activities_per_s(url: &str, runs: usize) -> anyhow::Result<f64> {
    let turns = turns_per_s(url, SET, runs, CONNECTIONS).await?;
    Ok(turns * STEPS as f64 / TURNS as f64)
}

/// Turns per second of bare statements.
///
/// The clock runs from the first turn to the last; the runs are there before.
pub(crate) async fn turns_per_s(
    url: &str,
    batch: usize,
    runs: usize,
    connections: usize,
) -> anyhow::Result<f64> {
    let setup = prepared(url).await?;
    let ids: Vec<Uuid> = (0..runs).map(|_| Uuid::now_v7()).collect();
    let input: &[u8] = br#"{"order":"A-1","amount":1999}"#;
    for ids in ids.chunks(1000) {
        setup
            .execute(START, &[&ids, &input, &Timestamp::now()])
            .await?;
    }
    let share = runs.div_ceil(connections);
    let mut writers = Vec::new();
    for ids in ids.chunks(share) {
        writers.push((Writer::connect(url).await?, ids.to_vec()));
    }
    let began = Instant::now();
    let tasks = writers.into_iter().map(|(writer, ids)| async move {
        tokio::spawn(async move { writer.commit_all(&ids, batch).await }).await?
    });
    try_join_all(tasks).await?;
    let elapsed = began.elapsed().as_secs_f64();
    let rows = setup
        .query_one("SELECT count(*) FROM durable_bench_raw.events", &[])
        .await?;
    ensure!(
        rows.get::<_, i64>(0) == i64::try_from(runs * TURNS * 2)?,
        "every step was written"
    );
    Ok((runs * TURNS) as f64 / elapsed)
}

struct Writer {
    client: Client,
    update: Statement,
    events: Statement,
    delete: Statement,
    insert: Statement,
}

impl Writer {
    async fn connect(url: &str) -> anyhow::Result<Self> {
        let client = connect(url).await?;
        Ok(Self {
            update: client.prepare(UPDATE).await?,
            events: client.prepare(EVENTS).await?,
            delete: client.prepare(DELETE).await?,
            insert: client.prepare(INSERT).await?,
            client,
        })
    }

    async fn commit_all(&self, ids: &[Uuid], batch: usize) -> anyhow::Result<()> {
        for ids in ids.chunks(batch) {
            let mut leased: Vec<Uuid> = Vec::new();
            for turn in 0..TURNS {
                leased = self.commit(ids, turn, &leased).await?;
            }
        }
        Ok(())
    }

    /// One set of turns in one flight; answers the tasks it leased.
    async fn commit(
        &self,
        ids: &[Uuid],
        turn: usize,
        finished: &[Uuid],
    ) -> anyhow::Result<Vec<Uuid>> {
        let now = Timestamp::now();
        let ends = turn == STEPS;
        let sequence = i64::try_from(turn * 2)?;
        let sequences = vec![sequence; ids.len()];
        let turns: Vec<Uuid> = ids.iter().map(|_| Uuid::now_v7()).collect();
        let status = if ends { "completed" } else { "running" };
        let payload: &[u8] = br#"{"ok":true,"value":42}"#;
        let result = ends.then_some(payload);
        let events = EventRows::of(ids, sequence, turn, payload);
        let next: Vec<Uuid> = if ends {
            vec![]
        } else {
            ids.iter().map(|_| Uuid::now_v7()).collect()
        };
        let options: &[u8] = OPTIONS.as_bytes();
        let (inputs, all_options) = (vec![payload; next.len()], vec![options; next.len()]);
        let next_runs = if ends { &[][..] } else { ids };
        let finished_runs = if finished.is_empty() { &[][..] } else { ids };
        let expires = now + Duration::from_secs(15);
        let update: Params<'_, 6> = [&ids, &sequences, &turns, &status, &result, &now];
        let EventRows {
            runs,
            sequences,
            kinds,
            data,
            payloads,
        } = &events;
        let insert_events: Params<'_, 6> = [runs, sequences, kinds, data, payloads, &now];
        let delete: Params<'_, 2> = [&finished_runs, &finished];
        let insert: Params<'_, 6> = [&next_runs, &next, &inputs, &all_options, &now, &expires];
        let update = self.client.execute(&self.update, &update);
        let insert_events = self.client.execute(&self.events, &insert_events);
        let delete = self.client.execute(&self.delete, &delete);
        let insert = self.client.execute(&self.insert, &insert);
        let begin = self.client.batch_execute("BEGIN");
        let work = join5(begin, update, insert_events, delete, insert);
        let commit = self.client.batch_execute("COMMIT");
        let ((begin, updated, events, deleted, inserted), commit) = join(work, commit).await;
        begin?;
        ensure!(
            updated? == ids.len() as u64,
            "every run was where it should be"
        );
        events?;
        ensure!(
            deleted? == finished.len() as u64,
            "every finished task was there"
        );
        inserted?;
        commit?;
        Ok(next)
    }
}

/// What the store keeps of a task's options: nothing, where they are as by default.
const OPTIONS: &str = "{}";

/// Two events for each run.
#[derive(Default)]
struct EventRows<'a> {
    runs: Vec<Uuid>,
    sequences: Vec<i64>,
    kinds: Vec<&'static str>,
    data: Vec<Vec<u8>>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> EventRows<'a> {
    fn of(ids: &[Uuid], sequence: i64, turn: usize, payload: &'a [u8]) -> Self {
        let mut rows = Self::default();
        for id in ids {
            let first = if turn == 0 {
                "workflow.started"
            } else {
                "activity.completed"
            };
            let second = if turn == STEPS {
                "workflow.completed"
            } else {
                "activity.scheduled"
            };
            let head = format!(r#"{{"activity_id":"step-{turn}"}}"#);
            let ask = if turn == STEPS {
                "{}".to_owned()
            } else {
                format!(
                    r#"{{"activity_id":"step-{}","activity_type":"noop","options":{OPTIONS}}}"#,
                    turn + 1
                )
            };
            for (kind, data, place) in [(first, head, 1), (second, ask, 2)] {
                rows.runs.push(*id);
                rows.sequences.push(sequence + place);
                rows.kinds.push(kind);
                rows.data.push(data.into_bytes());
                rows.payloads.push(payload);
            }
        }
        rows
    }
}
