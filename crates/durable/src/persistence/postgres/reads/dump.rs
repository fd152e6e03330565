//! Everything, read at one instant.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Row;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    Derived, DerivedTask, Dump, KeyRecord, Orphan, RunDump, RunRecord,
};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, Param, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::{audit, dump, registry, schedules};
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
const OF_ITS_OWN: [&Statement; 7] = [
    &dump::DUMP_KEYS,
    &dump::DUMP_LETTERS,
    &schedules::DUMP_SCHEDULES,
    &registry::LIST_BREAKERS,
    &dump::DUMP_DEDUP,
    &audit::DUMP_AUDIT,
    &dump::DUMP_PURGES,
];

impl Postgres {
    pub(in crate::persistence::postgres) async fn read_dump(&self) -> StoreResult<Dump> {
        let plain = OF_RUNS.into_iter().chain(OF_ITS_OWN);
        let mut calls: Vec<_> = plain.map(|s| Call::new(s, Vec::new())).collect();
        calls.push(Call::new(&registry::LIST_WORKERS, everybody()));
        calls.push(Call::new(&dump::DUMP_ROLLUPS, Vec::new()));

        let answers = self.read(Concern::Registry, &calls).await?;
        let (of_runs, own) = answers.split_at(OF_RUNS.len());
        let (runs, mut orphans) = belong(of_runs)?;
        let mut deleted: BTreeSet<Uuid> = read_all(&own[6], run_id)?.into_iter().collect();
        for run in &runs {
            deleted.remove(&run.run.id);
        }
        orphans.retain(|orphan| {
            orphan
                .run_id
                .is_none_or(|run_id| !deleted.contains(&run_id))
        });
        let mut keys = Vec::new();
        for key in read_all(&own[0], rows::keys::record)? {
            match key {
                Some(key) => keys.push(key),
                // Reserved by a transaction that ended, and never given a run.
                None => orphans.push(Orphan {
                    table: "keys".to_owned(),
                    run_id: None,
                }),
            }
        }
        keys.retain(|key: &KeyRecord| !key.goes_with(&deleted));
        keys.sort();
        let mut dead_letters = read_all(&own[1], rows::letters::record)?;
        dead_letters.retain(|letter| !deleted.contains(&letter.run_id));
        let mut schedules = read_all(&own[2], rows::schedules::record)?;
        schedules.sort_by(|a, b| a.id.cmp(&b.id));
        let mut rollups = read_all(&own[8], rows::rollups::record)?;
        rollups.sort();
        Ok(Dump {
            runs,
            keys,
            dead_letters,
            schedules,
            workers: read_all(&own[7], rows::registry::worker)?,
            breakers: read_all(&own[3], rows::registry::breaker)?,
            dedup: read_all(&own[4], rows::registry::dedup)?,
            rollups,
            audit: read_all(&own[5], rows::audit::record)?,
            orphans,
        })
    }
}

fn run_id(row: &mut Reader<'_>) -> StoreResult<Uuid> {
    row.next()
}

/// The parameters of a list of workers without a condition.
fn everybody() -> Vec<Param<'static>> {
    vec![
        value(None::<&str>),
        value(None::<&str>),
        value(maybe_at(None)),
    ]
}

/// Runs with all that belongs to them, and what belongs to none of them. The statements have put
/// each kind in its order.
pub(in crate::persistence::postgres) fn belong(
    answers: &[Vec<Row>],
) -> StoreResult<(Vec<RunDump>, Vec<Orphan>)> {
    let runs = read_all(&answers[0], |row| {
        let mut dump = empty(rows::runs::record(row)?);
        dump.derived.task_count = count(row)?;
        dump.derived.line_count = count(row)?;
        dump.derived.deadline_at = row.maybe_at()?;
        Ok(dump)
    })?;
    let mut all = Dumps {
        runs: runs.into_iter().map(|run| (run.run.id, run)).collect(),
        orphans: BTreeSet::new(),
    };
    let event = |row: &mut Reader<'_>| Ok((row.next()?, rows::events::record(row)?));
    let events = all.of("workflow_events", &answers[1]);
    events.add(event, |(id, _)| *id, |d, (_, e)| d.events.push(e))?;
    let task = |row: &mut Reader<'_>| {
        let task = rows::tasks::record(row)?;
        let derived = DerivedTask {
            id: task.id,
            timeout_at: row.maybe_at()?,
            due_at: row.maybe_at()?,
        };
        Ok((task, derived))
    };
    all.of("task_queue", &answers[2]).add(
        task,
        |(task, _)| task.run_id,
        |d, (task, derived)| {
            d.tasks.push(task);
            d.derived.tasks.push(derived);
        },
    )?;
    let timers = all.of("timers", &answers[3]);
    timers.add(rows::timers::record, |t| t.run_id, |d, t| d.timers.push(t))?;
    let facts = all.of("inbox", &answers[4]);
    facts.add(
        rows::inbox::record,
        |(id, _)| *id,
        |d, (_, f)| d.facts.push(f),
    )?;
    let signals = all.of("signals", &answers[5]);
    signals.add(
        rows::signals::record,
        |s| s.run_id,
        |d, s| d.signals.push(s),
    )?;
    let updates = all.of("updates", &answers[6]);
    updates.add(
        rows::updates::record,
        |u| u.run_id,
        |d, u| d.updates.push(u),
    )?;
    let set = |d: &mut RunDump, (_, name, value)| drop(d.attributes.insert(name, value));
    let attributes = all.of("search_attributes", &answers[7]);
    attributes.add(rows::attributes::record, |(id, _, _)| *id, set)?;
    let messages = all.of("messages", &answers[8]);
    messages.add(
        rows::messages::record,
        |m| m.sender,
        |d, m| d.messages.push(m),
    )?;
    let outbox = all.of("outbox", &answers[9]);
    outbox.add(rows::outbox::record, |o| o.run_id, |d, o| d.outbox.push(o))?;
    let logs = all.of("step_logs", &answers[10]);
    logs.add(rows::logs::record, |l| l.run_id, |d, l| d.step_logs.push(l))?;
    Ok((
        all.runs.into_values().collect(),
        all.orphans.into_iter().collect(),
    ))
}

fn count(row: &mut Reader<'_>) -> StoreResult<u64> {
    // A count below zero is as wrong as a very large one, and found by the same comparison.
    Ok(u64::try_from(row.next::<i32>()?).unwrap_or(u64::MAX))
}

/// The runs so far, by id, and what belongs to none.
struct Dumps {
    runs: BTreeMap<Uuid, RunDump>,
    orphans: BTreeSet<Orphan>,
}

/// The rows of a table, to be put where they belong.
struct Table<'a> {
    all: &'a mut Dumps,
    name: &'static str,
    rows: &'a [Row],
}

impl Dumps {
    fn of<'a>(&'a mut self, name: &'static str, rows: &'a [Row]) -> Table<'a> {
        Table {
            all: self,
            name,
            rows,
        }
    }
}

impl Table<'_> {
    /// Puts each row's record where it belongs.
    fn add<T>(
        self,
        read: impl Fn(&mut Reader<'_>) -> StoreResult<T>,
        run: impl Fn(&T) -> Uuid,
        put: impl Fn(&mut RunDump, T),
    ) -> StoreResult<()> {
        for record in read_all(self.rows, read)? {
            let run_id = run(&record);
            if let Some(dump) = self.all.runs.get_mut(&run_id) {
                put(dump, record);
            } else {
                self.all.orphans.insert(Orphan {
                    table: self.name.to_owned(),
                    run_id: Some(run_id),
                });
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
        derived: Derived::default(),
    }
}
