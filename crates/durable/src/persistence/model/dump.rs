//! A store's whole content in one canonical form, for the differential test and the audit.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use std::collections::BTreeSet;

use durable_core::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::admin::{RollupRecord, StepLogRecord};
use super::audit::AuditRecord;
use super::dead_letter::DeadLetter;
use super::due::{MessageRecord, TimerRecord};
use super::fact::{Fact, SignalRecord, UpdateRecord};
use super::outbox::{BreakerRecord, DedupRecord, OutboxRecord};
use super::run::{Attributes, RunRecord};
use super::schedule::ScheduleRecord;
use super::task::TaskRecord;
use super::turn::HistoryEvent;
use super::worker::WorkerInfo;

/// Everything a store holds. Two stores that were told the same hold the same: what a deletion that
/// is under way has still to delete is left out, as it is for every other read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dump {
    /// Runs with all that belongs to them, by id.
    pub runs: Vec<RunDump>,
    /// Keys, by kind and key.
    pub keys: Vec<KeyRecord>,
    /// Dead letters, by id.
    pub dead_letters: Vec<DeadLetter>,
    /// Schedules, by id.
    pub schedules: Vec<ScheduleRecord>,
    /// Workers, by id.
    pub workers: Vec<WorkerInfo>,
    /// Breakers, by key.
    pub breakers: Vec<BreakerRecord>,
    /// Results recorded once, by key.
    pub dedup: Vec<DedupRecord>,
    /// Totals, in order.
    pub rollups: Vec<RollupRecord>,
    /// Audit rows, by id.
    #[serde(default)]
    pub audit: Vec<AuditRecord>,
    /// Rows that belong to a run that is not there, and keys that were reserved and never given
    /// one.
    #[serde(default)]
    pub orphans: Vec<Orphan>,
}

/// A row that nothing will ever remove: its run is not there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Orphan {
    /// The table, without the prefix that all have.
    pub table: String,
    /// The run that is not there; none of a key without a run.
    pub run_id: Option<Uuid>,
}

/// A run with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunDump {
    /// The run.
    pub run: RunRecord,
    /// All its events, those of earlier iterations and epochs included.
    pub events: Vec<HistoryEvent>,
    /// Its queued tasks, by line then id.
    pub tasks: Vec<TaskRecord>,
    /// Its timers, by id.
    pub timers: Vec<TimerRecord>,
    /// Facts that wait, by arrival.
    pub facts: Vec<Fact>,
    /// Its signals, by arrival, then id.
    pub signals: Vec<SignalRecord>,
    /// Its updates, by arrival, then id.
    pub updates: Vec<UpdateRecord>,
    /// Its search attributes.
    pub attributes: Attributes,
    /// Messages it sent that are not delivered, in order.
    pub messages: Vec<MessageRecord>,
    /// Its outbox events, by id.
    pub outbox: Vec<OutboxRecord>,
    /// Its log lines, by id.
    pub step_logs: Vec<StepLogRecord>,
    /// What is stored although it follows from the rest.
    #[serde(default)]
    pub derived: Derived,
}

impl RunDump {
    /// What has to be stored in the derived columns of its rows.
    #[must_use]
    pub fn derive(&self) -> Derived {
        let in_line = self.tasks.iter().filter(|task| task.options.sequential);
        Derived {
            task_count: self.tasks.len() as u64,
            line_count: in_line.count() as u64,
            deadline_at: (!self.run.status.is_terminal())
                .then(|| self.run.deadline())
                .flatten(),
            tasks: self.tasks.iter().map(DerivedTask::of).collect(),
        }
    }
}

/// Columns of a run and its tasks that follow from other columns and rows: stored by the SQL
/// stores, for their indexes and so that nothing has to be counted, and computed by the memory
/// store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Derived {
    /// Queued tasks.
    pub task_count: u64,
    /// Those of them that are in the run's line.
    pub line_count: u64,
    /// The earlier deadline while the run has not ended.
    pub deadline_at: Option<Timestamp>,
    /// Of the queued tasks, in their order.
    pub tasks: Vec<DerivedTask>,
}

/// Columns of a task that follow from its others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedTask {
    /// The task.
    pub id: Uuid,
    /// When one of its clocks runs out.
    pub timeout_at: Option<Timestamp>,
    /// When anything has to happen to it.
    pub due_at: Option<Timestamp>,
}

impl DerivedTask {
    /// What has to be stored with a task.
    #[must_use]
    pub fn of(task: &TaskRecord) -> Self {
        Self {
            id: task.id,
            timeout_at: task.timeout_at(),
            due_at: task.due_at(),
        }
    }
}

/// A key that belongs to one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyRecord {
    /// What kind of key.
    pub kind: KeyKind,
    /// The key.
    pub key: String,
    /// The run that has it; for a business id, the last one.
    pub run_id: Uuid,
    /// When it was written.
    pub created_at: Timestamp,
}

impl KeyRecord {
    /// Whether it is a key of one of these runs, which are being deleted, and will be deleted with
    /// what is left of it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn goes_with(&self, deleted: &BTreeSet<Uuid>) -> bool {
        match self.kind {
            KeyKind::Idempotency | KeyKind::Business => deleted.contains(&self.run_id),
            KeyKind::CronSlot | KeyKind::Tombstone => false,
        }
    }
}

/// What kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// A caller's idempotency key: one start.
    Idempotency,
    /// A business id: its last run.
    Business,
    /// A schedule's tick: one fire.
    CronSlot,
    /// A deleted run's id: not to be used again.
    Tombstone,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Idempotency,
        Self::Business,
        Self::CronSlot,
        Self::Tombstone,
    ];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idempotency => "idempotency",
            Self::Business => "business",
            Self::CronSlot => "cron_slot",
            Self::Tombstone => "tombstone",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
