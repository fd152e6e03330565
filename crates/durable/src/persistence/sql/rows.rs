//! What the SQL stores load, and what they write.

use std::collections::{BTreeMap, BTreeSet};

use durable_core::{AttributeValue, Failure, Payload, StoredEvent, Timestamp};
use uuid::Uuid;

use crate::persistence::model::{
    Attributes, AuditRecord, Blocked, DeadLetter, DlqFilter, Fact, KeyKind, KeyRecord,
    MessageRecord, OutboxRecord, Owner, ParentLink, RollupRecord, RunRecord, ScheduleRecord,
    SignalRecord, StepLogRecord, TaskRecord, TaskStatus, TimerRecord, UpdateRecord, UpdateState,
    WorkerStatus, WorkflowStatus,
};

/// A run without its payloads: what a write has to know and may change.
///
/// The payloads stay in the database: a turn neither reads the input nor writes it back.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHead {
    /// See [`RunRecord`] for each field.
    pub id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// The user's own key.
    pub business_id: Option<String>,
    /// The key it was started under.
    pub idempotency_key: Option<String>,
    /// Of its start.
    pub fingerprint: i64,
    /// Where it stands.
    pub status: WorkflowStatus,
    /// The run that started it.
    pub parent: Option<ParentLink>,
    /// Whether it ever started a child.
    pub has_children: bool,
    /// Last event.
    pub sequence: i64,
    /// Event before the current iteration's first one.
    pub history_start: i64,
    /// Iteration.
    pub iteration: u32,
    /// Epoch.
    pub epoch: u32,
    /// Facts that arrived.
    pub arrivals: i64,
    /// Facts taken.
    pub consumed: i64,
    /// Last committed turn.
    pub last_turn: Option<Uuid>,
    /// Since when a turn is due.
    pub ready_at: Option<Timestamp>,
    /// Who takes its turns.
    pub owner: Option<Owner>,
    /// Set while a build could not take its turn.
    pub blocked: Option<Blocked>,
    /// When all iterations must be over.
    pub execution_deadline: Option<Timestamp>,
    /// When this iteration must be over.
    pub run_deadline: Option<Timestamp>,
    /// Length given to each iteration, in milliseconds.
    pub run_timeout_ms: Option<i64>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its first turn was committed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Tasks it has in the queue: spares a look into the queue when there are none.
    pub task_count: i32,
    /// Sequential tasks it has in the queue.
    pub line_count: i32,
}

impl RunHead {
    /// The earlier of its deadlines while it has not ended: the indexed column.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return None;
        }
        [self.execution_deadline, self.run_deadline]
            .into_iter()
            .flatten()
            .min()
    }
}

/// A changed run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunUpdate {
    /// Every column that may change, as it is to be.
    pub head: RunHead,
    /// A new input; none keeps the old one.
    pub input: Option<Payload>,
    /// A new result and error; none keeps the old ones.
    pub outcome: Option<(Payload, Option<Failure>)>,
}

/// A changed task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskUpdate {
    /// Every column that may change, as it is to be.
    pub task: TaskRecord,
    /// Whether the details of its last heartbeat are written; if not, the stored ones stay.
    pub heartbeat: bool,
    /// Whether its failed attempts are written; if not, the stored ones stay.
    pub attempts: bool,
}

/// A new run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInsert {
    /// The whole record.
    pub record: RunRecord,
    /// Its tasks in the queue.
    pub task_count: i32,
    /// Those of them that stand in its line.
    pub line_count: i32,
}

/// With an empty queue.
impl From<RunRecord> for RunInsert {
    fn from(record: RunRecord) -> Self {
        Self {
            record,
            task_count: 0,
            line_count: 0,
        }
    }
}

/// An event in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// The run.
    pub run_id: Uuid,
    /// Its place.
    pub sequence_num: i64,
    /// The event.
    pub event: StoredEvent,
}

/// Signals that wait for a run, from one arrival to another: as many as one statement moves into
/// the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadSlice {
    /// Arrival of its first signal.
    pub first: i64,
    /// Arrival of its last signal.
    pub last: i64,
    /// How many signals.
    pub signals: i64,
    /// Bytes of the signals, as stored.
    pub bytes: i64,
}

/// Waiting signals that become unread events when their run ends. Their payloads stay in the
/// database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepUnread {
    /// The run.
    pub run_id: Uuid,
    /// The signals.
    pub slice: UnreadSlice,
    /// Number of the event before the first of them.
    pub sequence: i64,
}

/// An answer to an update.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateAnswerRow {
    /// The run.
    pub run_id: Uuid,
    /// The update.
    pub update_id: String,
    /// The answer; only a pending update takes it.
    pub state: UpdateState,
}

/// A write on one of the small tables, whose statement itself says what was there: what is not there cannot be locked before.
#[derive(Debug, Clone, PartialEq)]
pub enum RegistryWrite {
    /// Creates a schedule or replaces it; its past is kept.
    PutSchedule(ScheduleRecord),
    /// Creates a schedule unless there is one.
    CreateSchedule(ScheduleRecord),
    /// Deletes a schedule.
    DeleteSchedule(String),
    /// Changes a worker's status.
    SetWorkerStatus(String, WorkerStatus),
    /// Forgets a worker.
    DeleteWorker(String),
    /// Forgets a breaker.
    DeleteBreaker(String),
    /// Deletes dead letters, newest first, at most so many, but none for which a run waits.
    PurgeLetters(DlqFilter, usize),
}

/// What a [`RegistryWrite`] met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Rows that were written or deleted.
    pub rows: u64,
    /// Whether any of them is another now than it was.
    pub changed: bool,
}

impl Touched {
    /// Rows, each of them changed.
    #[must_use]
    pub const fn rows(rows: u64) -> Self {
        Self {
            rows,
            changed: rows > 0,
        }
    }
}

/// A deleted run whose rows are still to be deleted, or a run whose own row could not be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRecord {
    /// The run.
    pub run_id: Uuid,
    /// Its idempotency key.
    pub idempotency_key: Option<String>,
    /// Its business id.
    pub business_id: Option<String>,
    /// How often the deletion of its rows failed.
    pub failures: i32,
    /// Its events up to this number are deleted. The next slice begins behind them: PostgreSQL's
    /// index still has their entries, and a slice that began with the first would walk over all of
    /// them.
    pub events_through: i64,
}

/// The deletion of a run's rows that failed and goes on later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostponedPurge {
    /// The run.
    pub run_id: Uuid,
    /// How often it failed.
    pub failures: i32,
    /// When to go on.
    pub retry_at: Timestamp,
    /// The last error.
    pub error: String,
}

/// A place among ended runs: by the instant of their end, then id.
pub type EndedAt = (Timestamp, Uuid);

/// Ended runs that may be deleted, from a bounded look at those that ended first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Purgeable {
    /// The runs, locked, with the bytes of their own payloads, by the instant of their end.
    pub runs: Vec<(EndedAt, i64)>,
    /// Where to go on; none: there are no more.
    pub next: Option<EndedAt>,
}

/// Most rows and bytes of each kind that one slice of a deletion takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceLimit {
    /// Rows.
    pub rows: usize,
    /// Bytes of payloads. The row that passes the limit is taken.
    pub bytes: i64,
}

/// Rows that are deleted by their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OldRows {
    /// Signals that a turn took.
    Signals,
    /// Updates that were answered.
    Updates,
    /// Log lines.
    Logs,
    /// Outbox events that were published or failed.
    Outbox,
    /// Dead letters about which a decision was made.
    Letters,
    /// Results of `run_once`.
    Results,
    /// Stopped workers.
    Workers,
    /// Totals by the hour, which are added up by the day.
    Rollups,
}

impl OldRows {
    /// What a log line calls them.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signals => "signals",
            Self::Updates => "updates",
            Self::Logs => "step logs",
            Self::Outbox => "outbox events",
            Self::Letters => "dead letters",
            Self::Results => "results of run_once",
            Self::Workers => "workers",
            Self::Rollups => "totals",
        }
    }

    /// Whether each shard has its own.
    #[must_use]
    pub const fn is_sharded(self) -> bool {
        !matches!(self, Self::Results | Self::Workers)
    }
}

/// A slice of what was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Rows that were deleted.
    pub rows: u64,
    /// A limit was reached: there may be more.
    pub more: bool,
}

/// A task that a list found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFound {
    /// The run.
    pub run_id: Uuid,
    /// The task.
    pub task_id: Uuid,
    /// What is stored with it, in bytes: input, details of heartbeats, attempts.
    pub bytes: u64,
}

impl TaskFound {
    /// Its key.
    #[must_use]
    pub const fn key(&self) -> (Uuid, Uuid) {
        (self.run_id, self.task_id)
    }
}

/// Messages picked for delivery.
#[derive(Debug, Default)]
pub struct Picked {
    /// The messages.
    pub messages: Vec<MessageRecord>,
    /// Whether more may be there: as many as were asked for, or as many bytes as fit, were found.
    pub full: bool,
}

/// Key of a message: sender, sequence number, index.
pub type MessageKey = (Uuid, i64, i32);

/// What an intent wants to know, in the order in which it is locked and read.
///
/// Keys, schedules, runs and tasks are locked (each in key order), so that what the
/// rules decide still holds when it is written. Everything else belongs to a locked run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Load {
    /// Keys, locked; one that does not exist is reserved, so that two starts with one key come one after the other.
    /// Tombstones are only looked at: neither locked nor reserved.
    pub keys: Vec<(KeyKind, String)>,
    /// Schedules, locked.
    pub schedules: Vec<String>,
    /// Runs, locked.
    pub runs: Vec<Uuid>,
    /// Tasks by run and id, locked.
    pub tasks: Vec<(Uuid, Uuid)>,
    /// Tasks by run and id that somebody says he has leased. The lock of their runs is enough for
    /// one that leaves the queue: a claim takes only what nobody has, and of a leased task whose
    /// run is locked nothing changes but its lease and its heartbeat. One that is not leased as he
    /// says must not be changed.
    pub leased: Vec<(Uuid, Uuid)>,
    /// Which tasks these runs have in the queue: their ids, and nothing that may be large. The lock
    /// of their runs is enough: only who holds it adds and removes tasks.
    pub queued_of: Vec<Uuid>,
    /// Queued tasks by run and activity: where they stand. The answer may name others of the same
    /// runs. A claim may move one on meanwhile, from pending to claimed, and no rule tells these
    /// two apart here.
    pub activities: Vec<(Uuid, String)>,
    /// The first places in the lines of these runs.
    pub lines_of: Vec<Uuid>,
    /// Tasks by run and id, locked by their own rows alone, whatever transaction holds their runs.
    /// One that another transaction has locked is passed over and named in [`Loaded::busy_tasks`].
    pub leases: Vec<(Uuid, Uuid)>,
    /// Timers by run and id.
    pub timers: Vec<(Uuid, String)>,
    /// Runs that may end over waiting facts, each with the arrival behind which the signals count:
    /// how many wait, in slices.
    pub unread_of: Vec<(Uuid, i64)>,
    /// Names of the search attributes that these runs have.
    pub attributes_of: Vec<Uuid>,
    /// Signals by run and id.
    pub signals: Vec<(Uuid, Uuid)>,
    /// Updates by run and id.
    pub updates: Vec<(Uuid, String)>,
    /// Dead letters by run and id.
    pub letters: Vec<(Uuid, Uuid)>,
    /// Outbox events by run and id.
    pub outbox: Vec<(Uuid, Uuid)>,
    /// Runs and tasks that another transaction has locked are passed over instead of waited for;
    /// the runs are named in [`Loaded::busy`].
    pub passing: bool,
}

/// Where a queued task stands: what a rule needs in order to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingTask {
    /// The activity.
    pub activity_id: String,
    /// Its status.
    pub status: TaskStatus,
    /// Whether it stands in its run's line.
    pub sequential: bool,
}

/// What was there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// Keys that exist and have a run.
    pub keys: BTreeMap<(KeyKind, String), KeyRecord>,
    /// Schedules.
    pub schedules: BTreeMap<String, ScheduleRecord>,
    /// Runs.
    pub runs: BTreeMap<Uuid, RunHead>,
    /// Tasks asked for, without their inputs and without the details of their heartbeats, which
    /// stay in the database. Those asked for by [`Load::leases`] come without their failed attempts
    /// too.
    pub tasks: BTreeMap<(Uuid, Uuid), TaskRecord>,
    /// Activities of all tasks that some runs have in the queue.
    pub queued: BTreeMap<(Uuid, Uuid), String>,
    /// Where tasks stand that were asked for by their activities.
    pub standing: BTreeMap<(Uuid, Uuid), StandingTask>,
    /// First place in line, by run.
    pub lines: BTreeMap<Uuid, i64>,
    /// Timers.
    pub timers: BTreeMap<(Uuid, String), TimerRecord>,
    /// Signals that wait, in slices by arrival; a run without any is not in it.
    pub unread: BTreeMap<Uuid, Vec<UnreadSlice>>,
    /// Names of search attributes; a run without any is not in it.
    pub attributes: BTreeMap<Uuid, BTreeSet<String>>,
    /// Signals.
    pub signals: BTreeMap<(Uuid, Uuid), SignalRecord>,
    /// Updates.
    pub updates: BTreeMap<(Uuid, String), UpdateRecord>,
    /// Dead letters.
    pub letters: BTreeMap<(Uuid, Uuid), DeadLetter>,
    /// Outbox events.
    pub outbox: BTreeMap<(Uuid, Uuid), OutboxRecord>,
    /// Runs that were passed over because another transaction has them locked.
    pub busy: BTreeSet<Uuid>,
    /// Tasks that were passed over for the same reason.
    pub busy_tasks: BTreeSet<(Uuid, Uuid)>,
}

/// What an intent writes. Applied in the order of the fields, each kind as a set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// The instant of the commit: `created_at` of events, `processed_at` of signals, `completed_at` of answers.
    pub now: Timestamp,
    /// Letters of queued tasks that are dead: new, or written anew; `requeued_at` of a stored one is
    /// kept. Their inputs are those of the tasks, which are still in the queue then, and move inside
    /// the database.
    pub bury_tasks: Vec<DeadLetter>,
    /// Queued tasks that leave, by run and id.
    pub delete_tasks: Vec<(Uuid, Uuid)>,
    /// Runs all of whose queued tasks leave.
    pub delete_tasks_of: Vec<Uuid>,
    /// Timers that leave, by run and id.
    pub delete_timers: Vec<(Uuid, String)>,
    /// Runs all of whose timers leave.
    pub delete_timers_of: Vec<Uuid>,
    /// Waiting signals that become unread events; before the facts leave.
    pub keep_unread: Vec<KeepUnread>,
    /// Facts that leave: all of the run with an arrival number up to this one; their signals that are not marked yet are marked.
    pub consume_facts: Vec<(Uuid, i64)>,
    /// Runs that were reset: waiting facts of type `activity.*` or `timer.fired` leave.
    pub drop_stale_facts: Vec<Uuid>,
    /// Runs that continued as new: waiting facts that are neither signals nor updates leave.
    pub drop_iteration_facts: Vec<Uuid>,
    /// New runs.
    pub insert_runs: Vec<RunInsert>,
    /// Changed runs.
    pub update_runs: Vec<RunUpdate>,
    /// Runs of which only the counters, the last turn, the end of the ownership and `updated_at` changed.
    pub advance_runs: Vec<RunHead>,
    /// New events.
    pub insert_events: Vec<EventRow>,
    /// Timers set.
    pub insert_timers: Vec<TimerRecord>,
    /// Tasks queued.
    pub insert_tasks: Vec<TaskRecord>,
    /// Changed tasks (all but run, activity, input, options, line, epoch, scheduled_at, trace).
    pub update_tasks: Vec<TaskUpdate>,
    /// Runs whose line moves up: the sequential task with the smallest line, if `in_line`, becomes `delayed` if its `visible_at` is
    /// after now, else `pending` with `visible_at = now`.
    pub release_lines: Vec<Uuid>,
    /// Facts delivered.
    pub insert_facts: Vec<(Uuid, Fact)>,
    /// Signals for the ledger; one that exists gets the new arrival and is unmarked (continue-as-new carries it over).
    pub put_signals: Vec<SignalRecord>,
    /// New updates.
    pub insert_updates: Vec<UpdateRecord>,
    /// Updates answered.
    pub answer_updates: Vec<UpdateAnswerRow>,
    /// Runs that ended: updates still pending after the answers above fail with this.
    pub fail_open_updates: Vec<(Uuid, Failure)>,
    /// Search attributes set (or removed).
    pub attributes: Vec<(Uuid, String, Option<AttributeValue>)>,
    /// Messages to other runs.
    pub insert_messages: Vec<MessageRecord>,
    /// Messages delivered.
    pub delete_messages: Vec<MessageKey>,
    /// Keys written or moved to another run.
    pub put_keys: Vec<KeyRecord>,
    /// Dead letters that were decided; `requeued_at` of a stored one is kept where the new one has none.
    pub put_letters: Vec<DeadLetter>,
    /// New outbox events; an id that exists is passed over.
    pub insert_outbox: Vec<OutboxRecord>,
    /// Changed outbox events.
    pub update_outbox: Vec<OutboxRecord>,
    /// New log lines; an id that exists is passed over.
    pub insert_logs: Vec<StepLogRecord>,
    /// Changed schedules.
    pub put_schedules: Vec<ScheduleRecord>,
    /// Counts to add to the totals.
    pub add_rollups: Vec<RollupRecord>,
    /// New audit rows.
    pub insert_audit: Vec<AuditRecord>,
    /// Runs to delete. What belongs to them stays for a deletion in slices, which `insert_purges`
    /// records.
    pub delete_runs: Vec<Uuid>,
    /// Deleted runs whose rows are still to be deleted.
    pub insert_purges: Vec<PurgeRecord>,
    /// Deletions that met an error: when to go on, after how many failures, and the last of them.
    pub postpone_purges: Vec<PostponedPurge>,
    /// How far the events of deleted runs are deleted.
    pub advance_purges: Vec<(Uuid, i64)>,
    /// Deleted runs of which nothing is left.
    pub delete_purges: Vec<Uuid>,
    /// Keys to delete, if they still are this run's.
    pub delete_keys: Vec<(KeyKind, String, Uuid)>,
    /// Limiters that nobody has asked since then are forgotten.
    pub forget_limiters: Option<Timestamp>,
    /// Runs that were ended so that others take their place, by those others. Only audit rows say so: it is not written by itself.
    pub replaced: BTreeMap<Uuid, Uuid>,
}

impl Changes {
    /// Attributes given at the start, as changes.
    pub fn set_attributes(&mut self, run_id: Uuid, attributes: Attributes) {
        self.attributes.extend(
            attributes
                .into_iter()
                .map(|(name, v)| (run_id, name, Some(v))),
        );
    }
}
