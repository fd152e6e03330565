//! One shard's orders: who comes first in which queue.
//!
//! Each record says by itself under which keys it is found, and `note` enters and removes it by the
//! same rule; `state.rs` calls it before and after every change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::model::cut;
use crate::persistence::model::{
    MessageRecord, OutboxRecord, OutboxState, RunRecord, TaskRecord, TaskStatus, TimerRecord,
    WorkflowStatus,
};

/// An instant, an id (a task, an outbox event) and its run.
pub(super) type Due = (Timestamp, Uuid, Uuid);
/// A claimable task's place: priority from the largest, since when, task, run.
pub(super) type Place = (Reverse<i32>, Timestamp, Uuid, Uuid);

/// The orders of one shard.
#[derive(Debug, Default)]
pub(super) struct ShardIndex {
    /// Runs with a turn due, by since when.
    pub(super) ready: BTreeSet<(Timestamp, Uuid)>,
    /// Runs that have not ended, by deadline.
    pub(super) deadlines: BTreeSet<(Timestamp, Uuid)>,
    /// Pending tasks, by type.
    pub(super) claimable: BTreeMap<String, BTreeSet<Place>>,
    /// Tasks by their next clock.
    pub(super) clocks: BTreeSet<Due>,
    /// Claimed tasks by the end of their lease.
    pub(super) leases: BTreeSet<Due>,
    /// Timers by when they fire.
    pub(super) timers: BTreeSet<(Timestamp, Uuid, String)>,
    /// Messages by sender, sequence number, index.
    pub(super) messages: BTreeSet<(Uuid, i64, i32)>,
    /// Outbox events that are not over, by when they may be claimed.
    pub(super) outbox: BTreeSet<Due>,
    /// How many runs have not ended, by status.
    pub(super) open_runs: BTreeMap<WorkflowStatus, u64>,
    /// How many of them are blocked.
    pub(super) blocked: u64,
    /// How many tasks are in the queue, by type and status.
    pub(super) queued: BTreeMap<String, BTreeMap<TaskStatus, u64>>,
}

/// Whether a record is entered or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    Enter,
    Remove,
}

impl Note {
    fn apply<K: Ord>(self, set: &mut BTreeSet<K>, key: K) {
        match self {
            Self::Enter => set.insert(key),
            Self::Remove => set.remove(&key),
        };
    }

    fn count(self, count: &mut u64) {
        match self {
            Self::Enter => *count += 1,
            Self::Remove => *count -= 1,
        }
    }
}

impl ShardIndex {
    pub(super) fn note_run(&mut self, note: Note, run: &RunRecord) {
        if run.status.is_terminal() {
            return;
        }
        note.count(self.open_runs.entry(run.status).or_default());
        if run.blocked.is_some() {
            note.count(&mut self.blocked);
        }
        if let Some(at) = run.ready_at {
            note.apply(&mut self.ready, (at, run.id));
        }
        if let Some(at) = run.deadline() {
            note.apply(&mut self.deadlines, (at, run.id));
        }
    }

    pub(super) fn note_task(&mut self, note: Note, task: &TaskRecord) {
        if !self.queued.contains_key(&task.activity_type) {
            self.queued
                .insert(task.activity_type.clone(), BTreeMap::new());
        }
        if let Some(of_type) = self.queued.get_mut(&task.activity_type) {
            note.count(of_type.entry(task.status).or_default());
            of_type.retain(|_, count| *count > 0);
            if of_type.is_empty() {
                self.queued.remove(&task.activity_type);
            }
        }
        let due = |at| (at, task.id, task.run_id);
        if let Some(at) = clock(task) {
            note.apply(&mut self.clocks, due(at));
        }
        match (task.status, task.lease_expires_at) {
            (TaskStatus::Pending, _) => {
                let places = self
                    .claimable
                    .entry(task.activity_type.clone())
                    .or_default();
                let priority = Reverse(task.options.priority);
                note.apply(places, (priority, task.visible_at, task.id, task.run_id));
            }
            (TaskStatus::Claimed, Some(at)) => note.apply(&mut self.leases, due(at)),
            _ => {}
        }
    }

    pub(super) fn note_timer(&mut self, note: Note, timer: &TimerRecord) {
        let key = (timer.fire_at, timer.run_id, timer.timer_id.clone());
        note.apply(&mut self.timers, key);
    }

    pub(super) fn note_message(&mut self, note: Note, message: &MessageRecord) {
        let key = (message.sender, message.sequence_num, message.idx);
        note.apply(&mut self.messages, key);
    }

    pub(super) fn note_outbox(&mut self, note: Note, event: &OutboxRecord) {
        if matches!(event.state, OutboxState::Pending | OutboxState::InFlight) {
            let key = (event.available_at, event.id, event.run_id);
            note.apply(&mut self.outbox, key);
        }
    }

    /// The first instant at which something becomes due by itself.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let run = self.deadlines.first().map(|key| key.0);
        let timer = self.timers.first().map(|key| key.0);
        let task = self.clocks.first().map(|key| key.0);
        [run, timer, task].into_iter().flatten().min()
    }
}

/// When a clock of the task runs out next.
pub(super) fn clock(task: &TaskRecord) -> Option<Timestamp> {
    task.timeout_at().map(cut)
}

/// The first `max` of an order whose instant has come.
pub(super) fn first_due<K: Clone>(
    order: &BTreeSet<K>,
    instant: impl Fn(&K) -> Timestamp,
    now: Timestamp,
    max: usize,
) -> Vec<K> {
    order
        .iter()
        .take_while(|key| instant(key) <= now)
        .take(max)
        .cloned()
        .collect()
}
