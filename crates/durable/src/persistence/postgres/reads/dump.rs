//! Everything, read at one instant.

use std::collections::BTreeMap;

use durable_core::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{Dump, RunDump, RunRecord};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, Param, at, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::{audit, dump, registry, rollups, schedules};
use crate::persistence::postgres::statement::Statement;
use crate::persistence::sql::tx::Concern;

/// What belongs to runs, in the order of [`belong`].
const OF_RUNS: [&Statement; 11] = [
    &dump::DUMP_RUNS,
    &dump::DUMP_EVENTS,
    &dump::DUMP_TASKS,
    &dump::DUMP_TIMERS,
    &dump::DUMP_FACTS,
    &dump::DUMP_SIGNALS,
    &dump::DUMP_UPDATES,
    &dump::DUMP_ATTRIBUTES,
    &dump::DUMP_MESSAGES,
    &dump::DUMP_OUTBOX,
    &dump::DUMP_LOGS,
];

/// What stands for itself, in the order of [`Postgres::read_dump`].
const OF_ITS_OWN: [&Statement; 6] = [
    &dump::DUMP_KEYS,
    &dump::DUMP_LETTERS,
    &schedules::DUMP_SCHEDULES,
    &registry::LIST_BREAKERS,
    &dump::DUMP_DEDUP,
    &audit::DUMP_AUDIT,
];

impl Postgres {
    pub(in crate::persistence::postgres) async fn read_dump(&self) -> StoreResult<Dump> {
        let plain = OF_RUNS.into_iter().chain(OF_ITS_OWN);
        let mut calls: Vec<_> = plain.map(|s| Call::new(s, Vec::new())).collect();
        calls.push(Call::new(&registry::LIST_WORKERS, everybody()));
        let since = vec![value(at(Timestamp::UNIX_EPOCH))];
        calls.push(Call::new(&rollups::READ_ROLLUPS, since));

        let answers = self.read(Concern::Registry, &calls).await?;
        let (of_runs, own) = answers.split_at(OF_RUNS.len());
        let mut keys: Vec<_> = read_all(&own[0], rows::keys::record)?
            .into_iter()
            .flatten()
            .collect();
        keys.sort();
        let mut schedules = read_all(&own[2], rows::schedules::record)?;
        schedules.sort_by(|a, b| a.id.cmp(&b.id));
        let mut rollups = read_all(&own[7], rows::rollups::record)?;
        rollups.sort();
        Ok(Dump {
            runs: belong(of_runs)?,
            keys,
            dead_letters: read_all(&own[1], rows::letters::record)?,
            schedules,
            workers: read_all(&own[6], rows::registry::worker)?,
            breakers: read_all(&own[3], rows::registry::breaker)?,
            dedup: read_all(&own[4], rows::registry::dedup)?,
            rollups,
            audit: read_all(&own[5], rows::audit::record)?,
        })
    }
}

/// The parameters of a list of workers without a condition.
fn everybody() -> Vec<Param<'static>> {
    vec![
        value(None::<&str>),
        value(None::<&str>),
        value(maybe_at(None)),
    ]
}

/// Runs with all that belongs to them. The statements have put each kind in its order.
fn belong(answers: &[Vec<Row>]) -> StoreResult<Vec<RunDump>> {
    let runs = read_all(&answers[0], rows::runs::record)?;
    let mut all = Dumps(runs.into_iter().map(|run| (run.id, empty(run))).collect());
    let event = |row: &mut Reader<'_>| Ok((row.next()?, rows::events::record(row)?));
    all.add(
        &answers[1],
        event,
        |(id, _)| *id,
        |d, (_, e)| d.events.push(e),
    )?;
    all.add(
        &answers[2],
        rows::tasks::record,
        |t| t.run_id,
        |d, t| d.tasks.push(t),
    )?;
    all.add(
        &answers[3],
        rows::timers::record,
        |t| t.run_id,
        |d, t| d.timers.push(t),
    )?;
    all.add(
        &answers[4],
        rows::inbox::record,
        |(id, _)| *id,
        |d, (_, f)| d.facts.push(f),
    )?;
    all.add(
        &answers[5],
        rows::signals::record,
        |s| s.run_id,
        |d, s| d.signals.push(s),
    )?;
    all.add(
        &answers[6],
        rows::updates::record,
        |u| u.run_id,
        |d, u| d.updates.push(u),
    )?;
    let set = |d: &mut RunDump, (_, name, value)| drop(d.attributes.insert(name, value));
    all.add(&answers[7], rows::attributes::record, |(id, _, _)| *id, set)?;
    all.add(
        &answers[8],
        rows::messages::record,
        |m| m.sender,
        |d, m| d.messages.push(m),
    )?;
    all.add(
        &answers[9],
        rows::outbox::record,
        |o| o.run_id,
        |d, o| d.outbox.push(o),
    )?;
    all.add(
        &answers[10],
        rows::logs::record,
        |l| l.run_id,
        |d, l| d.step_logs.push(l),
    )?;
    Ok(all.0.into_values().collect())
}

/// The runs so far, by id.
struct Dumps(BTreeMap<Uuid, RunDump>);

impl Dumps {
    /// Puts each row's record where it belongs.
    fn add<T>(
        &mut self,
        rows: &[Row],
        read: impl Fn(&mut Reader<'_>) -> StoreResult<T>,
        run: impl Fn(&T) -> Uuid,
        put: impl Fn(&mut RunDump, T),
    ) -> StoreResult<()> {
        for record in read_all(rows, read)? {
            if let Some(dump) = self.0.get_mut(&run(&record)) {
                put(dump, record);
            }
        }
        Ok(())
    }
}

fn empty(run: RunRecord) -> RunDump {
    RunDump {
        run,
        events: Vec::new(),
        tasks: Vec::new(),
        timers: Vec::new(),
        facts: Vec::new(),
        signals: Vec::new(),
        updates: Vec::new(),
        attributes: BTreeMap::new(),
        messages: Vec::new(),
        outbox: Vec::new(),
        step_logs: Vec::new(),
    }
}
