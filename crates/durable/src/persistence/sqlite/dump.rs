//! Everything the store holds, for the differential test and the audit.

use durable_core::Timestamp;
use uuid::Uuid;

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::db::Db;
use super::sql::walk;
use super::tables::{
    attributes, audit, breakers, dead_letters, dedup, events, facts, keys, messages, outbox,
    rollups, runs, schedules, signals, step_logs, tasks, timers, updates, workers,
};
use super::value::{Id, rows};
use crate::persistence::StoreResult;
use crate::persistence::model::{
    Derived, DerivedTask, Dump, Orphan, RunDump, TaskRecord, WorkerFilter,
};

pub(super) fn dump(db: Db<'_>) -> StoreResult<Dump> {
    let mut dumped = Vec::new();
    for run_id in runs::ids(db)? {
        dumped.extend(dump_run(db, run_id)?);
    }
    Ok(Dump {
        runs: dumped,
        keys: keys::list(db)?,
        dead_letters: dead_letters::dump(db)?,
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

/// Rows whose run, with an id above one and up to another, is not there.
pub(super) fn orphans(
    db: Db<'_>,
    shard: i32,
    above: Uuid,
    until: Uuid,
    max: usize,
) -> StoreResult<Vec<Orphan>> {
    let range = params![shard, Id(above), Id(until), rows(max)];
    let mut found = db.all(walk::ORPHANS, range, |row| {
        Ok(Orphan {
            table: row.text()?,
            run_id: Some(row.id()?),
        })
    })?;
    found.sort();
    Ok(found)
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
