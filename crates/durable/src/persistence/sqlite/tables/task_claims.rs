//! Claims of tasks: candidates of each type by the index, the first of all types together, leased.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use super::tasks;
use crate::persistence::limits::CHORE_BYTES_MAX;
use crate::persistence::model::{ClaimTasks, TaskRecord, TaskStatus, after};
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::tasks as sql;
use crate::persistence::sqlite::value::rows;
use crate::persistence::{Bug, StoreResult, planted};

/// Most bytes of one claim, but for a single task that has more.
#[allow(clippy::cast_possible_truncation, reason = "it is a few megabytes")]
const CLAIM_BYTES_MAX: usize = CHORE_BYTES_MAX as usize;

/// A claimable task's place: priority from the largest, since when, task, run.
type Place = (Reverse<i32>, Timestamp, Uuid, Uuid);

pub(crate) fn claim(
    db: Db<'_>,
    shard: i32,
    claim: &ClaimTasks,
    max: usize,
    now: Timestamp,
) -> StoreResult<Vec<TaskRecord>> {
    let mut claimed = Vec::new();
    let mut bytes = 0;
    for (.., id, run_id) in first_places(db, shard, claim, max)? {
        if let Some(mut task) = tasks::get(db, run_id, id)? {
            bytes += (task.input.len() + task.heartbeat_details.len()).max(1);
            if bytes > CLAIM_BYTES_MAX && !claimed.is_empty() {
                break;
            }
            lease(&mut task, claim, now);
            tasks::restate(db, &task)?;
            claimed.push(task);
        }
    }
    Ok(claimed)
}

fn first_places(db: Db<'_>, shard: i32, claim: &ClaimTasks, max: usize) -> StoreResult<Vec<Place>> {
    let types: BTreeSet<&String> = claim.activity_types.iter().collect();
    let mut places = Vec::new();
    for activity_type in types {
        places.extend(db.all(
            sql::CLAIMABLE,
            params![shard, activity_type, rows(max)],
            |row| Ok((Reverse(row.int()?), row.at()?, row.id()?, row.id()?)),
        )?);
    }
    places.sort_unstable();
    places.truncate(max);
    Ok(places)
}

fn lease(task: &mut TaskRecord, claim: &ClaimTasks, now: Timestamp) {
    task.status = TaskStatus::Claimed;
    if !planted(Bug::UncountedClaim) {
        task.attempt += 1;
        task.deliveries += 1;
    }
    task.claimed_by = Some(claim.worker_id.clone());
    task.claimed_at = Some(now);
    task.token = Some(claim.token);
    task.lease_expires_at = Some(after(now, claim.lease));
    task.heartbeat_at = None;
}
