//! Ends the leases and ownerships of a process that is gone.
//!
//! The process lock says that it is: nobody else has the file, so the workers that lived in it cannot answer any more. Those that were only
//! connected to it, as to a server, live on and come back: what they hold is theirs until it runs out.

use durable_core::Timestamp;

use super::db::Db;
use super::tables::{outbox, residents, runs, tasks};
use crate::persistence::StoreResult;
use crate::persistence::limits::DELIVERIES_MAX;
use crate::persistence::model::{TaskRecord, TaskStatus};

pub(super) fn void_leases(db: Db<'_>, now: Timestamp) -> StoreResult<()> {
    let gone = residents::take(db)?;
    for shard in db.shards.from(0) {
        for mut task in tasks::claimed(db, shard)? {
            let held_by = task.claimed_by.as_ref();
            if held_by.is_some_and(|worker| gone.contains(worker)) {
                take_back(&mut task, now);
                tasks::restate(db, &task)?;
            }
        }
        outbox::void(db, shard, now)?;
    }
    gone.iter().try_for_each(|worker| runs::disown(db, worker))
}

/// The task may be claimed now and the attempt does not count; the delivery does. One that was handed out too often
/// keeps its claim with its lease run out, so that the reaper ends it: it may be what killed the process.
fn take_back(task: &mut TaskRecord, now: Timestamp) {
    if task.deliveries >= DELIVERIES_MAX {
        task.lease_expires_at = Some(now);
        return;
    }
    task.status = TaskStatus::Pending;
    task.visible_at = now;
    task.attempt = task.attempt.saturating_sub(1);
    task.claimed_by = None;
    task.claimed_at = None;
    task.token = None;
    task.lease_expires_at = None;
    task.heartbeat_at = None;
}
