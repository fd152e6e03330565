//! Counts for health and metrics.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    Glance, HostedType, StoreCounts, TaskStatus, WaitingTypes, WorkflowStatus,
};
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::counts as sql;

pub(crate) fn all(db: Db<'_>) -> StoreResult<StoreCounts> {
    let runs = db.all(sql::RUNS, [], |row| {
        Ok((row.name(WorkflowStatus::parse)?, row.int()?))
    })?;
    let mut counts = StoreCounts {
        runs: runs.into_iter().collect(),
        oldest_pending_at: db.one(sql::OLDEST_PENDING, [], |row| row.at_opt())?,
        dead_letters: count(db, sql::DEAD_LETTERS)?,
        messages: count(db, sql::MESSAGES)?,
        outbox_pending: count(db, sql::OUTBOX)?,
        blocked_runs: count(db, sql::BLOCKED)?,
        ..StoreCounts::default()
    };
    let tasks = db.all(sql::TASKS, [], |row| {
        Ok((row.text()?, row.name(TaskStatus::parse)?, row.int()?))
    })?;
    for (activity_type, status, count) in tasks {
        let of_type = counts.tasks.entry(activity_type).or_default();
        of_type.insert(status, count);
    }
    Ok(counts)
}

pub(crate) fn glance(db: Db<'_>, at: Timestamp) -> StoreResult<Glance> {
    let nothing = Glance {
        next_tick: db.one(sql::NEXT_TICK, [], |row| row.at_opt())?,
        ..Glance::nothing(at)
    };
    db.shards.from(0).try_fold(nothing, |so_far, shard| {
        let of_shard = db.one(sql::GLANCE, [shard], |row| {
            let (tasks, turns, messages) = (row.flag()?, row.flag()?, row.flag()?);
            let due = [row.at_opt()?, row.at_opt()?, row.at_opt()?, row.at_opt()?];
            Ok(Glance {
                tasks,
                turns,
                messages,
                next_due: due.into_iter().flatten().min(),
                ..Glance::nothing(Timestamp::MIN)
            })
        })?;
        Ok(so_far.and(of_shard))
    })
}

pub(crate) fn waiting_types(db: Db<'_>) -> StoreResult<WaitingTypes> {
    let runs = db.all(sql::READY_TYPES, [], |row| {
        Ok(HostedType {
            workflow_type: row.text()?,
            version: row.text()?,
        })
    })?;
    let tasks = db.all(sql::PENDING_TYPES, [], |row| row.text())?;
    Ok(WaitingTypes {
        runs: runs.into_iter().collect(),
        tasks: tasks.into_iter().collect(),
    })
}

fn count(db: Db<'_>, sql: &'static str) -> StoreResult<u64> {
    db.one(sql, [], |row| row.int())
}
