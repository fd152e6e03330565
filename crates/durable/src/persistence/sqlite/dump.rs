//! Everything the store holds, for the differential test and the audit.

use std::collections::BTreeSet;

use durable_core::Timestamp;
use uuid::Uuid;

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::db::Db;
use super::sql::{Statement, walk};
use super::tables::{
    attributes, audit, breakers, dead_letters, dedup, events, facts, keys, messages, outbox,
    rollups, runs, schedules, signals, step_logs, tasks, timers, updates, workers,
};
use super::value::{Id, rows};
use crate::audit::walk::RUNS_WITH_ROWS_MAX;
use crate::persistence::StoreResult;
use crate::persistence::model::{
    Derived, DerivedTask, Dump, Orphan, RunDump, TaskRecord, WorkerFilter,
};

pub(super) fn dump(db: Db<'_>) -> StoreResult<Dump> {
    let mut dumped = Vec::new();
    for run_id in runs::ids(db)? {
        dumped.extend(dump_run(db, run_id)?);
    }
    let deleted: BTreeSet<Uuid> = db
        .all(walk::DELETED, [], |row| row.id())?
        .into_iter()
        .collect();
    let mut keys = keys::list(db)?;
    keys.retain(|key| !key.goes_with(&deleted));
    let mut dead_letters = dead_letters::dump(db)?;
    dead_letters.retain(|letter| !deleted.contains(&letter.run_id));
    Ok(Dump {
        runs: dumped,
        keys,
        dead_letters,
        schedules: schedules::dump(db)?,
        workers: workers::list(db, &WorkerFilter::default())?,
        breakers: breakers::list(db)?,
        dedup: dedup::list(db)?,
        rollups: rollups::since(db, Timestamp::MIN, usize::MAX)?,
        audit: audit::dump(db)?,
        orphans: every_orphan(db)?,
    })
}

fn every_orphan(db: Db<'_>) -> StoreResult<Vec<Orphan>> {
    let mut found = Vec::new();
    for shard in db.shards.from(0) {
        found.extend(orphans(db, shard, Uuid::nil(), Uuid::max(), usize::MAX)?);
    }
    found.sort();
    Ok(found)
}

/// The runs that have rows in a table, for every table whose rows belong to runs.
const RUNS_WITH_ROWS: [(&str, Statement); 12] = [
    ("workflow_events", walk::EVENT_RUNS),
    ("task_queue", walk::TASK_RUNS),
    ("timers", walk::TIMER_RUNS),
    ("inbox", walk::FACT_RUNS),
    ("signals", walk::SIGNAL_RUNS),
    ("updates", walk::UPDATE_RUNS),
    ("search_attributes", walk::ATTRIBUTE_RUNS),
    ("messages", walk::MESSAGE_RUNS),
    ("outbox", walk::OUTBOX_RUNS),
    ("step_logs", walk::LOG_RUNS),
    ("dead_letter_queue", walk::LETTER_RUNS),
    ("human_tasks", walk::HUMAN_TASK_RUNS),
];

/// Rows whose run, with an id above one and up to another, is gone: of each table up to a number.
pub(super) fn orphans(
    db: Db<'_>,
    shard: i32,
    above: Uuid,
    until: Uuid,
    max: usize,
) -> StoreResult<Vec<Orphan>> {
    let mut all = Vec::new();
    for (table, statement) in RUNS_WITH_ROWS {
        let mut above = above;
        let mut found = Vec::new();
        loop {
            let range = params![shard, Id(above), Id(until), rows(RUNS_WITH_ROWS_MAX)];
            let runs = db.all(statement, range, |row| Ok((row.id()?, row.flag()?)))?;
            let gone = runs.iter().filter(|(_, gone)| *gone);
            found.extend(gone.map(|(run_id, _)| Orphan {
                table: table.to_owned(),
                run_id: Some(*run_id),
            }));
            match runs.last() {
                Some((last, _)) if runs.len() == RUNS_WITH_ROWS_MAX && found.len() < max => {
                    above = *last;
                }
                _ => break,
            }
        }
        found.truncate(max);
        all.append(&mut found);
    }
    all.sort();
    Ok(all)
}

/// The columns of a run and its tasks that follow from others. SQLite has no `due_at`.
fn derived(db: Db<'_>, run_id: Uuid, of: &[TaskRecord]) -> StoreResult<Derived> {
    let key = || {
        params_from_iter([
            Value::from(db.shard(run_id)),
            Value::from(run_id.as_bytes().to_vec()),
        ])
    };
    let (task_count, line_count, deadline_at) = db.one(walk::DERIVED_OF_RUN, key(), |row| {
        Ok((row.int::<i64>()?, row.int::<i64>()?, row.at_opt()?))
    })?;
    let timeouts = db.all(walk::DERIVED_OF_TASKS, key(), |row| {
        Ok((row.id()?, row.at_opt()?))
    })?;
    let tasks = timeouts
        .into_iter()
        .zip(of)
        .map(|((id, timeout_at), task)| DerivedTask {
            id,
            timeout_at,
            due_at: task.due_at(),
        });
    Ok(Derived {
        task_count: u64::try_from(task_count).unwrap_or(u64::MAX),
        line_count: u64::try_from(line_count).unwrap_or(u64::MAX),
        deadline_at,
        tasks: tasks.collect(),
    })
}

pub(super) fn dump_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Option<RunDump>> {
    let Some(run) = runs::get(db, run_id)? else {
        return Ok(None);
    };
    let tasks = tasks::of_run(db, run_id)?;
    let derived = derived(db, run_id, &tasks)?;
    Ok(Some(RunDump {
        run,
        events: events::after(db, run_id, 0, usize::MAX)?,
        tasks,
        timers: timers::of_run(db, run_id)?,
        facts: facts::of_run(db, run_id)?,
        signals: signals::of_run(db, run_id)?,
        updates: updates::of_run(db, run_id)?,
        attributes: attributes::of_run(db, run_id)?,
        messages: messages::of_run(db, run_id)?,
        outbox: outbox::of_run(db, run_id)?,
        step_logs: step_logs::of_run(db, run_id)?,
        derived,
    }))
}
