//! What operators and dashboards read.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use durable_core::{AttributeValue, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::run::{Attributes, WorkflowStatus};
use super::task::{TaskRecord, TaskStatus};
use super::turn::LogLevel;
use crate::persistence::limits::{COUNT_ROWS_MAX, PAGE_ROWS_MAX};

/// Which page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Rows wanted; clamped to 1..=[`PAGE_ROWS_MAX`].
    pub limit: usize,
    /// Rows to pass over.
    pub offset: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            limit: 50,
            offset: 0,
        }
    }
}

impl Page {
    /// The first rows, so many.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { limit, offset: 0 }
    }

    /// The limit within its bounds.
    #[must_use]
    pub fn rows(self) -> usize {
        self.limit.clamp(1, PAGE_ROWS_MAX)
    }
}

/// Which runs; all conditions must hold. Newest first, which is by id from the largest (ids are UUIDv7).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFilter {
    /// Any of these; empty: all.
    pub statuses: Vec<WorkflowStatus>,
    /// Only this workflow type.
    pub workflow_type: Option<String>,
    /// Only this business id.
    pub business_id: Option<String>,
    /// Only with all of these attributes, of the same type and value.
    pub attributes: Attributes,
    /// Only children of this run.
    pub parent: Option<Uuid>,
    /// Only started at or after.
    pub created_from: Option<Timestamp>,
    /// Only started before.
    pub created_until: Option<Timestamp>,
    /// Only blocked ones.
    pub blocked: bool,
    /// Continue after this run: only smaller ids.
    pub before: Option<Uuid>,
}

impl RunFilter {
    /// Also in this status; called again, in any of them.
    #[must_use]
    pub fn status(mut self, status: WorkflowStatus) -> Self {
        self.statuses.push(status);
        self
    }

    /// Only this workflow type.
    #[must_use]
    pub fn workflow_type(mut self, workflow_type: impl Into<String>) -> Self {
        self.workflow_type = Some(workflow_type.into());
        self
    }

    /// Only this business id.
    #[must_use]
    pub fn business_id(mut self, id: impl Into<String>) -> Self {
        self.business_id = Some(id.into());
        self
    }

    /// Only with this attribute, of the same type and value: `1` is not `"1"`. All that are given must hold.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Only started at or after `from` and before `until`.
    #[must_use]
    pub fn created(mut self, from: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        self.created_from = from;
        self.created_until = until;
        self
    }

    /// Goes on where a page ended.
    #[must_use]
    pub fn before(mut self, cursor: Option<Uuid>) -> Self {
        self.before = cursor;
        self
    }

    /// Whether every run matches, wherever the page begins.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.clone().before(None) == Self::default()
    }
}

/// Which tasks; by queue order: priority from the largest, visible_at, id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskFilter {
    /// Only this run's.
    pub run_id: Option<Uuid>,
    /// Only this activity type.
    pub activity_type: Option<String>,
    /// Only in this status.
    pub status: Option<TaskStatus>,
    /// Continue after this rank: only tasks behind it.
    pub after: Option<TaskRank>,
}

/// Where a task stands in a list. It stays there while others come and go, and moves back when it is tried again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRank {
    /// Its priority.
    pub priority: i32,
    /// From when on it may be claimed.
    pub visible_at: Timestamp,
    /// Its id.
    pub id: Uuid,
    /// Its run.
    pub run_id: Uuid,
}

impl TaskRank {
    fn key(&self) -> (Reverse<i32>, Timestamp, Uuid, Uuid) {
        (
            Reverse(self.priority),
            self.visible_at,
            self.id,
            self.run_id,
        )
    }
}

impl Ord for TaskRank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for TaskRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TaskRecord {
    /// Where it stands in a list.
    #[must_use]
    pub const fn rank(&self) -> TaskRank {
        TaskRank {
            priority: self.options.priority,
            visible_at: self.visible_at,
            id: self.id,
            run_id: self.run_id,
        }
    }
}

/// Which log lines of a run; by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLogFilter {
    /// The run.
    pub run_id: Uuid,
    /// Continue after this line: only larger ids.
    pub after: Option<Uuid>,
}

impl StepLogFilter {
    /// All lines of a run.
    #[must_use]
    pub const fn of_run(run_id: Uuid) -> Self {
        Self {
            run_id,
            after: None,
        }
    }
}

/// Where a run stands, and nothing of it that may be large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMark {
    /// Its status.
    pub status: WorkflowStatus,
    /// Its last event.
    pub sequence: i64,
}

/// Open work, counted for health and metrics. Ended runs are not in it: their totals are the
/// rollups.
///
/// Each figure counts at most [`COUNT_ROWS_MAX`] rows, so that the cost of a count does not depend
/// on how much work there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreCounts {
    /// Runs that have not ended, by status.
    pub runs: BTreeMap<WorkflowStatus, u64>,
    /// Tasks by type and status.
    pub tasks: BTreeMap<String, BTreeMap<TaskStatus, u64>>,
    /// Since when the longest waiting claimable task waits.
    pub oldest_pending_at: Option<Timestamp>,
    /// Dead letters nobody has decided.
    pub dead_letters: u64,
    /// Messages not delivered yet.
    pub messages: u64,
    /// Outbox events not published yet.
    pub outbox_pending: u64,
    /// Blocked runs.
    pub blocked_runs: u64,
    /// Whether every figure is the exact number. False: at least one figure was cut and is a lower
    /// bound.
    #[serde(default = "exact_unless_said")]
    pub exact: bool,
}

/// A store of an earlier build counts everything.
const fn exact_unless_said() -> bool {
    true
}

impl Default for StoreCounts {
    fn default() -> Self {
        Self {
            runs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            oldest_pending_at: None,
            dead_letters: 0,
            messages: 0,
            outbox_pending: 0,
            blocked_runs: 0,
            exact: true,
        }
    }
}

impl StoreCounts {
    /// Adds runs of a status.
    pub(crate) fn add_runs(&mut self, status: WorkflowStatus, count: u64) {
        if count > 0 {
            *self.runs.entry(status).or_default() += count;
        }
    }

    /// Adds tasks of a type and status.
    pub(crate) fn add_tasks(&mut self, activity_type: &str, status: TaskStatus, count: u64) {
        if count == 0 {
            return;
        }
        if !self.tasks.contains_key(activity_type) {
            self.tasks
                .insert(activity_type.to_owned(), BTreeMap::default());
        }
        if let Some(of_type) = self.tasks.get_mut(activity_type) {
            *of_type.entry(status).or_default() += count;
        }
    }

    /// A claimable task waits since then.
    pub(crate) fn waits_since(&mut self, at: Option<Timestamp>) {
        self.oldest_pending_at = self.oldest_pending_at.into_iter().chain(at).min();
    }

    /// Cuts every figure at [`COUNT_ROWS_MAX`] and says whether one was larger. Stores count one
    /// row more than that.
    #[must_use]
    pub(crate) fn capped(mut self) -> Self {
        let figures = self
            .runs
            .values_mut()
            .chain(self.tasks.values_mut().flat_map(BTreeMap::values_mut))
            .chain([
                &mut self.dead_letters,
                &mut self.messages,
                &mut self.outbox_pending,
                &mut self.blocked_runs,
            ]);
        for figure in figures {
            self.exact &= *figure <= COUNT_ROWS_MAX;
            *figure = COUNT_ROWS_MAX.min(*figure);
        }
        self
    }
}

/// What waits, at a glance: whether there is something to do that nobody may have rung for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// Tasks may be claimed.
    pub tasks: bool,
    /// Runs have a turn due, whoever owns them.
    pub turns: bool,
    /// Messages between runs wait.
    pub messages: bool,
    /// The first instant at which a clock or a lease runs out, or a timer fires.
    pub next_due: Option<Timestamp>,
    /// The first tick of a schedule that is not paused.
    pub next_tick: Option<Timestamp>,
    /// The store's clock, by which the instants above are to be read.
    pub at: Timestamp,
}

impl Glance {
    /// Nothing waits.
    #[must_use]
    pub const fn nothing(at: Timestamp) -> Self {
        Self {
            tasks: false,
            turns: false,
            messages: false,
            next_due: None,
            next_tick: None,
            at,
        }
    }

    /// What two shards come to together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let earlier = |a: Option<Timestamp>, b: Option<Timestamp>| a.into_iter().chain(b).min();
        Self {
            tasks: self.tasks || other.tasks,
            turns: self.turns || other.turns,
            messages: self.messages || other.messages,
            next_due: earlier(self.next_due, other.next_due),
            next_tick: earlier(self.next_tick, other.next_tick),
            at: self.at.max(other.at),
        }
    }
}

/// A log line as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLogRecord {
    /// Its id.
    pub id: Uuid,
    /// The run.
    pub run_id: Uuid,
    /// Which activity.
    pub activity_id: String,
    /// Which attempt.
    pub attempt: u32,
    /// How grave.
    pub level: LogLevel,
    /// For people.
    pub message: String,
    /// For programs.
    pub meta: Payload,
    /// When it was written.
    pub created_at: Timestamp,
}

/// Totals of one hour: how many activities (or runs) of a type ended how, and how long they took.
///
/// Durations are counted by powers of two, so that percentiles can be read from the totals.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RollupRecord {
    /// Start of the hour.
    pub hour: Timestamp,
    /// Of what.
    pub kind: RollupKind,
    /// The type's name.
    pub name: String,
    /// How they ended.
    pub outcome: RollupOutcome,
    /// Durations from 2^(n-1) up to 2^n milliseconds; 0 is below one millisecond.
    pub duration_exp: i16,
    /// How many.
    pub count: i64,
    /// Their milliseconds together.
    pub total_ms: i64,
    /// The milliseconds that activities waited together, each from when it was scheduled to the start of its first attempt, or to its end
    /// where none began; 0 for runs.
    pub wait_ms: i64,
}

/// What a rollup counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollupKind {
    /// Activities, from the start of their last attempt to its end.
    Activity,
    /// Runs, from start to end.
    Workflow,
}

impl RollupKind {
    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Workflow => "workflow",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Activity, Self::Workflow]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// How what a rollup counts ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollupOutcome {
    /// With a result.
    Completed,
    /// With a failure.
    Failed,
    /// Given up.
    Cancelled,
}

impl RollupOutcome {
    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|o| o.as_str() == name)
    }
}

/// Which finished runs to delete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PurgeRuns {
    /// Only those that ended before.
    pub finished_before: Timestamp,
    /// Most runs.
    pub max: usize,
    /// Shard to begin with.
    pub first_shard: u16,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// Instants before which details are deleted although their run may go on. None keeps them.
///
/// A run that has ended is deleted as a whole by [`PurgeRuns`]; these are for runs that never end,
/// and for what belongs to no run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PurgeOld {
    /// Events of earlier iterations that were appended before.
    pub history_before: Option<Timestamp>,
    /// Signals that a turn took before.
    pub signals_before: Option<Timestamp>,
    /// Updates that were answered before.
    pub updates_before: Option<Timestamp>,
    /// Log lines written before.
    pub logs_before: Option<Timestamp>,
    /// Outbox events, published or failed, whose last claim ended before.
    pub outbox_before: Option<Timestamp>,
    /// Dead letters about which a decision was made and whose activity failed before.
    pub letters_before: Option<Timestamp>,
    /// Results of `run_once` that were recorded before.
    pub results_before: Option<Timestamp>,
    /// Stopped workers whose last heartbeat came before.
    pub workers_before: Option<Timestamp>,
    /// Totals of hours that began before: they are added up by the day.
    pub rollups_before: Option<Timestamp>,
    /// Most rows of each kind, in each shard.
    pub max: usize,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// How much a [`PurgeOld`] deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgedOld {
    /// Events of earlier iterations.
    pub events: u64,
    /// Signals.
    pub signals: u64,
    /// Updates.
    pub updates: u64,
    /// Log lines.
    pub step_logs: u64,
    /// Outbox events.
    pub outbox: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Results of `run_once`.
    pub results: u64,
    /// Workers.
    pub workers: u64,
    /// Totals that were added to those of their day.
    pub rollups: u64,
    /// Deleted runs some of whose rows could not be deleted at the last attempt.
    pub stuck_runs: u64,
    /// More is left: a limit was reached.
    pub more: bool,
}

impl PurgedOld {
    /// Rows that were deleted.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.events
            + self.signals
            + self.updates
            + self.step_logs
            + self.outbox
            + self.dead_letters
            + self.results
            + self.workers
            + self.rollups
    }
}

/// What became of the request to delete one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeleteOutcome {
    /// The run is deleted, and none of its rows is left.
    Deleted,
    /// The run is deleted; some of its rows are still to be deleted. The same call goes on, and so
    /// does retention.
    Deleting,
    /// The run was deleted before, with all its rows.
    AlreadyDeleted,
    /// There is no such run.
    NotFound,
    /// The run has not ended.
    Open(super::run::WorkflowStatus),
    /// The run has ended, but messages to other runs or outbox events of it are not delivered yet.
    Undelivered,
}
