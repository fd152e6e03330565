//! Counts for health and metrics.

use durable_core::Timestamp;
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::limits::COUNT_ROWS_MAX;
use crate::persistence::model::{
    Glance, HostedType, StoreCounts, TaskStatus, WaitingTypes, WorkflowStatus,
};
use crate::persistence::sqlite::db::{Db, Read};
use crate::persistence::sqlite::sql::counts as sql;

/// What a figure counts at most: one more than it tells, so that it is known to be cut.
const ROWS: i64 = COUNT_ROWS_MAX.cast_signed() + 1;
/// Types and priorities of pending tasks that are looked at in a shard, at most.
const GROUPS_MAX: usize = 1_000;
/// Pending tasks that are counted in a shard, at most: the types share them.
const PENDING_MAX: i64 = 100_000;

pub(crate) fn all(db: Db<'_>) -> StoreResult<StoreCounts> {
    let mut counts = StoreCounts {
        dead_letters: count(db, sql::DEAD_LETTERS)?,
        messages: count(db, sql::MESSAGES)?,
        outbox_pending: count(db, sql::OUTBOX)?,
        blocked_runs: count(db, sql::BLOCKED)?,
        ..StoreCounts::default()
    };
    for status in [WorkflowStatus::Pending, WorkflowStatus::Running] {
        let runs = db.one(sql::OPEN_RUNS, params![status.as_str(), ROWS], |row| {
            row.int()
        })?;
        counts.add_runs(status, runs);
    }
    for shard in db.shards.from(0) {
        pending_tasks(db, shard, &mut counts)?;
        let typed: Read<(String, u64)> = |row| Ok((row.text()?, row.int()?));
        for (activity_type, count) in db.all(sql::CLAIMED, params![shard, ROWS], typed)? {
            counts.add_tasks(&activity_type, TaskStatus::Claimed, count);
        }
        for status in [
            TaskStatus::InLine,
            TaskStatus::Delayed,
            TaskStatus::Parked,
            TaskStatus::Dead,
        ] {
            let held = db.all(sql::HELD, params![shard, status.as_str(), ROWS], typed)?;
            let mut looked_at = 0;
            for (activity_type, count) in held {
                counts.add_tasks(&activity_type, status, count);
                looked_at += count;
            }
            counts.exact &= looked_at <= COUNT_ROWS_MAX;
        }
    }
    Ok(counts.capped())
}

/// Pending tasks of a shard by type, and since when the first of each priority waits.
fn pending_tasks(db: Db<'_>, shard: i32, counts: &mut StoreCounts) -> StoreResult<()> {
    let mut types: Vec<String> = Vec::new();
    let mut groups = 0;
    loop {
        let last = types.last().map_or("", String::as_str);
        let first = db.first(sql::FIRST_OF_NEXT_TYPE, params![shard, last], |row| {
            Ok((row.text()?, row.int::<i32>()?, row.at()?))
        })?;
        let Some((activity_type, mut priority, oldest)) = first else {
            break;
        };
        counts.waits_since(Some(oldest));
        groups += 1;
        while groups < GROUPS_MAX {
            let params = params![shard, activity_type, priority];
            let next = db.first(sql::FIRST_OF_NEXT_PRIORITY, params, |row| {
                Ok((row.int::<i32>()?, row.at()?))
            })?;
            let Some((below, oldest)) = next else { break };
            counts.waits_since(Some(oldest));
            priority = below;
            groups += 1;
        }
        types.push(activity_type);
        if groups >= GROUPS_MAX {
            counts.exact = false;
            break;
        }
    }
    // There are at most `GROUPS_MAX` types.
    let share = ROWS.min(PENDING_MAX / i64::try_from(types.len().max(1)).unwrap_or(PENDING_MAX));
    for activity_type in types {
        let params = params![shard, activity_type, share];
        let pending: u64 = db.one(sql::PENDING_OF_TYPE, params, |row| row.int())?;
        counts.exact &= pending < share.cast_unsigned();
        counts.add_tasks(&activity_type, TaskStatus::Pending, pending);
    }
    Ok(())
}

/// Claimable tasks and runs that have not begun, up to so many.
pub(crate) fn waiting(db: Db<'_>, at_most: u64) -> StoreResult<u64> {
    let rows = i64::try_from(at_most).unwrap_or(i64::MAX);
    let pending = WorkflowStatus::Pending.as_str();
    let runs: u64 = db.one(sql::OPEN_RUNS, params![pending, rows], |row| row.int())?;
    let waiting = db.shards.from(0).try_fold(runs, |so_far, shard| {
        let tasks: u64 = db.one(sql::PENDING, params![shard, rows], |row| row.int())?;
        StoreResult::Ok(so_far + tasks)
    })?;
    Ok(waiting.min(at_most))
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
    let mut waiting = WaitingTypes::default();
    for shard in db.shards.from(0) {
        waiting
            .runs
            .extend(db.all(sql::READY_TYPES, [shard], |row| {
                Ok(HostedType {
                    workflow_type: row.text()?,
                    version: row.text()?,
                })
            })?);
        let tasks = db.all(sql::PENDING_TYPES, [shard], |row| row.text())?;
        waiting.tasks.extend(tasks);
    }
    Ok(waiting)
}

fn count(db: Db<'_>, sql: &'static str) -> StoreResult<u64> {
    db.one(sql, [ROWS], |row| row.int())
}
