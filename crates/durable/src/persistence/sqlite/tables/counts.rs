//! Counts for health and metrics.

use crate::persistence::StoreResult;
use crate::persistence::model::{StoreCounts, TaskStatus, WorkflowStatus};
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

fn count(db: Db<'_>, sql: &'static str) -> StoreResult<u64> {
    db.one(sql, [], |row| row.int())
}
