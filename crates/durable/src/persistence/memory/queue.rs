//! The queue: tasks enter it, wait in their run's line, are claimed and given back.

use std::collections::BTreeSet;
use std::mem::take;

use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::index::Place;
use super::state::State;
use crate::persistence::limits::CHORE_BYTES_MAX;
use crate::persistence::model::after;
use crate::persistence::model::{
    ClaimTasks, ClaimedTask, LeaseRequest, NewTask, TaskLease, TaskRecord, TaskRelease, TaskStatus,
    TurnCommit,
};
use crate::persistence::{Bug, planted};

impl State {
    /// Queues a turn's tasks; `sequence` is the number of the turn's last event.
    pub(super) fn queue_tasks(
        &mut self,
        turn: &mut TurnCommit,
        sequence: i64,
        epoch: u32,
        now: Timestamp,
    ) {
        for (index, new) in (0_i64..).zip(take(&mut turn.tasks)) {
            let request = turn.lease.as_ref().filter(|_| new.lease);
            let delayed = new.delay.is_some_and(|delay| !delay.is_zero());
            let mut task = new_task(turn.run_id, new, now);
            task.line = (sequence << 20) + index;
            task.epoch = epoch;
            let behind = task.options.sequential && self.at(turn.run_id).line_head().is_some();
            if behind && !planted(Bug::LineIgnored) {
                task.status = TaskStatus::InLine;
            } else if delayed {
                task.status = TaskStatus::Delayed;
            } else if let Some(LeaseRequest { worker_id, lease }) = request {
                hand_out(&mut task, worker_id, turn.turn_id, after(now, *lease), now);
            }
            self.put_task(task);
        }
    }

    /// The line moves up: its first task may be claimed, now or when its time has come.
    pub(super) fn release_line(&mut self, run_id: Uuid, now: Timestamp) {
        let head = self.at(run_id).line_head();
        let Some(task_id) = head
            .filter(|task| task.status == TaskStatus::InLine)
            .map(|task| task.id)
        else {
            return;
        };
        self.edit_task(run_id, task_id, |task| {
            if task.visible_at > now {
                task.status = TaskStatus::Delayed;
            } else {
                task.status = TaskStatus::Pending;
                task.visible_at = now;
            }
        });
    }

    pub(super) fn claim_tasks(&mut self, claim: &ClaimTasks, now: Timestamp) -> Vec<ClaimedTask> {
        let expires_at = after(now, claim.lease);
        let mut claimed = Vec::new();
        let mut total = 0_u64;
        for shard in self.shards.from(claim.first_shard) {
            // Half of what fits is enough: a shard gives as much again.
            if total >= CHORE_BYTES_MAX / 2 {
                break;
            }
            let places = self.first_places(shard, claim, claim.max - claimed.len());
            let (mut of_shard, mut is_first) = (0_u64, true);
            for (.., task_id, run_id) in places {
                of_shard += self.task(run_id, task_id).map_or(1, |task| {
                    let bytes = task.input.len() + task.heartbeat_details.len();
                    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
                });
                if of_shard > CHORE_BYTES_MAX && !is_first {
                    break;
                }
                is_first = false;
                let task = self.edit_task(run_id, task_id, |task| {
                    hand_out(task, &claim.worker_id, claim.token, expires_at, now);
                    if planted(Bug::UncountedClaim) {
                        task.attempt -= 1;
                        task.deliveries -= 1;
                    }
                });
                claimed.push(claimed_task(task, claim.token, expires_at, now));
            }
            total += of_shard;
        }
        claimed
    }

    /// The first claimable tasks of a shard among all the types asked for.
    fn first_places(&self, shard: i32, claim: &ClaimTasks, max: usize) -> Vec<Place> {
        let types: BTreeSet<&String> = claim.activity_types.iter().collect();
        let claimable = &self.shard(shard).claimable;
        let mut places: Vec<Place> = types
            .into_iter()
            .filter_map(|name| claimable.get(name))
            .flat_map(|order| order.iter().take(max).copied())
            .collect();
        places.sort_unstable();
        places.truncate(max);
        places
    }

    /// Gives a task back unrun, at once or for later; false: the lease was lost.
    pub(super) fn release_task(&mut self, release: &TaskRelease, now: Timestamp) -> bool {
        let lease = &release.lease;
        let holds = self.leased(lease).is_some();
        if holds {
            self.edit_task(lease.run_id, lease.task_id, |task| {
                take_back(task, now);
                task.deliveries = task.deliveries.saturating_sub(1);
                if let Some(time) = release.park {
                    task.status = TaskStatus::Parked;
                    task.visible_at = after(now, time);
                }
                if planted(Bug::ReleaseBurnsAttempt) {
                    task.attempt += 1;
                }
            });
        }
        holds
    }

    /// The task, if this lease on it counts.
    pub(super) fn leased(&self, lease: &TaskLease) -> Option<&TaskRecord> {
        self.task(lease.run_id, lease.task_id)
            .filter(|task| task.is_leased_as(lease))
    }
}

/// Whether the line may move up when this task leaves: it did not wait for one ahead of it.
pub(super) fn held_the_line(task: &TaskRecord) -> bool {
    task.options.sequential && task.status != TaskStatus::InLine
}

/// Leases a task and counts it.
fn hand_out(
    task: &mut TaskRecord,
    worker_id: &str,
    token: Uuid,
    expires_at: Timestamp,
    now: Timestamp,
) {
    task.status = TaskStatus::Claimed;
    task.attempt += 1;
    task.deliveries += 1;
    task.claimed_by = Some(worker_id.to_owned());
    task.claimed_at = Some(now);
    task.token = Some(token);
    task.lease_expires_at = Some(expires_at);
    task.heartbeat_at = None;
}

/// Makes a leased task claimable again; the attempt does not count.
pub(super) fn take_back(task: &mut TaskRecord, now: Timestamp) {
    clear_claim(task);
    task.status = TaskStatus::Pending;
    task.visible_at = now;
    task.attempt = task.attempt.saturating_sub(1);
}

/// Nobody has the task any more.
pub(super) fn clear_claim(task: &mut TaskRecord) {
    task.claimed_by = None;
    task.claimed_at = None;
    task.token = None;
    task.lease_expires_at = None;
    task.heartbeat_at = None;
}

fn new_task(run_id: Uuid, new: NewTask, now: Timestamp) -> TaskRecord {
    let close = new.options.schedule_to_close_timeout;
    TaskRecord {
        id: new.task_id,
        run_id,
        activity_id: new.activity_id,
        activity_type: new.activity_type,
        input: new.input,
        options: new.options,
        status: TaskStatus::Pending,
        line: 0,
        epoch: 0,
        scheduled_at: now,
        visible_at: after(now, new.delay.unwrap_or_default()),
        attempt: 0,
        deliveries: 0,
        claimed_by: None,
        claimed_at: None,
        token: None,
        lease_expires_at: None,
        heartbeat_at: None,
        heartbeat_details: Payload::ABSENT,
        close_deadline: close.map(|timeout| after(now, timeout)),
        attempts: Vec::new(),
        requeue_count: 0,
        trace: new.trace,
    }
}

fn claimed_task(
    task: &TaskRecord,
    token: Uuid,
    lease_expires_at: Timestamp,
    now: Timestamp,
) -> ClaimedTask {
    ClaimedTask {
        lease: TaskLease {
            run_id: task.run_id,
            task_id: task.id,
            attempt: task.attempt,
            token,
        },
        lease_expires_at,
        activity_id: task.activity_id.clone(),
        activity_type: task.activity_type.clone(),
        input: task.input.clone(),
        options: task.options.clone(),
        deliveries: task.deliveries,
        scheduled_at: task.scheduled_at,
        started_at: now,
        heartbeat_details: task.heartbeat_details.clone(),
        attempts: task.attempts.clone(),
        trace: task.trace.clone(),
    }
}
