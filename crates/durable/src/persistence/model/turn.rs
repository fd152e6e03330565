//! Turns: what one decision of a workflow writes, all or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use durable_core::{AttributeValue, Failure, Payload, Timestamp, WorkflowEvent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::fact::Fact;
use super::run::{
    ClosePolicy, NewSignal, OwnerRequest, RunRecord, StartRejection, StartRun, WorkflowStatus,
};
use super::task::{NewTask, TaskLease};

/// One turn of one run: everything it consumes and everything it writes.
///
/// The store accepts it if, under the run's lock, all of this holds: the run exists and has not
/// ended (unless [`Next::Reset`] on a failed run), its sequence and epoch are the expected ones,
/// `facts_through` is a number of facts that have arrived, every lease of `finished_tasks` is the
/// one that counts, every timer of `fired_timers` exists and is due, and, where the turn ends the
/// run without [`TurnCommit::unread_rest`], no fact has arrived that it has not taken. Otherwise
/// nothing of it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnCommit {
    /// The run.
    pub run_id: Uuid,
    /// Starts the run with this very commit, where it does not exist yet: the turn is its first one. Such a run has neither a workflow id
    /// nor an idempotency key, and brings no signals or updates: those have to be looked at first. A turn that is refused leaves the
    /// run started, as it would be after a start of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Box<StartRun>>,
    /// Made by the caller, new for each turn. Committing the same turn again writes nothing and answers
    /// [`TurnOutcome::Committed`] again, as long as it is the run's last one.
    pub turn_id: Uuid,
    /// Sequence number of the run's last event as the turn saw it.
    pub expected_sequence: i64,
    /// The run's epoch as the turn saw it.
    pub expected_epoch: u32,
    /// The turn has taken every fact with an arrival number up to this one.
    pub facts_through: i64,
    /// The run's program ended at a fact that has others behind it, so that none of those can be
    /// for it. They leave with the end: the store appends the signals among them to the history as
    /// unread, by arrival, just before the turn's last event. Means nothing in a turn that does not
    /// end the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread_rest: bool,
    /// Activities that ended with this turn, leases checked.
    pub finished_tasks: Vec<FinishedTask>,
    /// Timers that fired with this turn; each must exist and be due.
    pub fired_timers: Vec<String>,
    /// Events to append, in order; where the turn ends the run, the terminal one comes last.
    pub events: Vec<WorkflowEvent>,
    /// Tasks to queue, in the order of the run's line.
    pub tasks: Vec<NewTask>,
    /// Activities whose tasks are given up; one that has no task any more is passed over.
    pub cancelled_activities: Vec<String>,
    /// Timers to set; a timer id is used once at a time.
    pub timers: Vec<NewTimer>,
    /// Timers to forget; one that is not set any more is passed over.
    pub cancelled_timers: Vec<String>,
    /// Children to start.
    pub children: Vec<NewChild>,
    /// Signals to other runs (cancelling a child is one).
    pub signals: Vec<OutSignal>,
    /// Updates that were answered.
    pub updates: Vec<UpdateAnswer>,
    /// Search attributes to set, or to remove (None).
    pub attributes: BTreeMap<String, Option<AttributeValue>>,
    /// Events for the outside.
    pub outbox: Vec<NewOutboxEvent>,
    /// Log lines of the attempts that ended with this turn.
    pub step_logs: Vec<NewStepLog>,
    /// Dead letters whose activities are tried again with this turn, which has to be a reset: they are put down as requeued. One that
    /// somebody has decided about is passed over.
    pub requeued_letters: Vec<Uuid>,
    /// What becomes of the run.
    pub next: Next,
    /// Who gets the tasks that ask for a lease.
    pub lease: Option<LeaseRequest>,
    /// Makes the committer the run's owner, or renews that. None gives ownership up.
    pub owner: Option<OwnerRequest>,
}

impl TurnCommit {
    /// A turn that consumes and writes nothing yet.
    #[must_use]
    pub fn new(run: &RunRecord, turn_id: Uuid) -> Self {
        Self {
            run_id: run.id,
            start: None,
            turn_id,
            expected_sequence: run.sequence,
            expected_epoch: run.epoch,
            facts_through: run.consumed,
            unread_rest: false,
            finished_tasks: Vec::new(),
            fired_timers: Vec::new(),
            events: Vec::new(),
            tasks: Vec::new(),
            cancelled_activities: Vec::new(),
            timers: Vec::new(),
            cancelled_timers: Vec::new(),
            children: Vec::new(),
            signals: Vec::new(),
            updates: Vec::new(),
            attributes: BTreeMap::new(),
            outbox: Vec::new(),
            step_logs: Vec::new(),
            requeued_letters: Vec::new(),
            next: Next::Wait,
            lease: None,
            owner: None,
        }
    }

    /// Whether facts behind those it took leave with the run's end, its signals as unread events.
    #[must_use]
    pub const fn leaves_rest_unread(&self) -> bool {
        self.unread_rest && self.next.ends_run()
    }

    /// Whether it gives the run search attributes; removing some does not count.
    #[must_use]
    pub fn sets_attributes(&self) -> bool {
        self.attributes.values().any(Option::is_some)
    }

    /// Whether it can only be the first turn of a run that has just been started: it takes nothing that was there before.
    #[must_use]
    pub fn is_first_of(&self, run_id: Uuid) -> bool {
        self.run_id == run_id
            && (self.expected_sequence, self.expected_epoch) == (0, 0)
            && self.facts_through == 0
            && self.finished_tasks.is_empty()
            && self.fired_timers.is_empty()
            && self.requeued_letters.is_empty()
            && !matches!(self.next, Next::Reset { .. })
    }
}

/// What becomes of the run after a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Next {
    /// It waits for more facts.
    Wait,
    /// It ends with a result.
    Complete {
        /// The result.
        result: Payload,
    },
    /// It ends with an error.
    Fail {
        /// The error.
        error: Failure,
    },
    /// It ends because it was asked to.
    Cancel {
        /// Why.
        reason: String,
    },
    /// It goes on under the same id with an empty history; tasks and timers of the old iteration
    /// are dropped. Signals and updates that arrived and were not taken stay in the inbox for the
    /// new iteration; other waiting facts are the old iteration's and are dropped.
    ContinueAsNew {
        /// Input of the new iteration.
        input: Payload,
        /// Signals that the old iteration took and did not use: the first facts of the new one,
        /// before those that stayed in the inbox.
        carried: Vec<NewSignal>,
    },
    /// History after `to_sequence` no longer counts. The epoch rises by one, so that every older lease dies;
    /// tasks, timers and the facts of both that wait are dropped; signals, updates and children's results stay.
    /// Allowed on runs that have not ended and on failed ones, which run again.
    Reset {
        /// Last event that still counts.
        to_sequence: i64,
    },
}

impl Next {
    /// Whether the run is over with it.
    #[must_use]
    pub const fn ends_run(&self) -> bool {
        match self {
            Self::Complete { .. } | Self::Fail { .. } | Self::Cancel { .. } => true,
            Self::Wait | Self::ContinueAsNew { .. } | Self::Reset { .. } => false,
        }
    }
}

/// An activity that ended with a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedTask {
    /// The right to end it.
    pub lease: TaskLease,
    /// How it ended.
    pub end: TaskEnd,
}

/// How an activity ended for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskEnd {
    /// With a result.
    Completed,
    /// With a failure that is not retried: a dead letter is written in the same commit.
    Failed(Failure),
    /// It was given up.
    Cancelled,
}

/// A timer to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTimer {
    /// Unique within the run while it is set.
    pub timer_id: String,
    /// Fires this long after the commit.
    pub after: Duration,
}

/// A child to start. The message that creates it is part of the parent's commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewChild {
    /// The name the parent gives it, unique within the parent.
    pub child_id: String,
    /// What happens to it when the parent ends first.
    pub close_policy: ClosePolicy,
    /// How it is started; its run id is derived from parent, epoch, iteration and child id.
    pub start: StartRun,
}

/// A signal from one run to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutSignal {
    /// The receiver.
    pub run_id: Uuid,
    /// The signal.
    pub signal: NewSignal,
}

/// The answer to an update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateAnswer {
    /// Which update.
    pub update_id: String,
    /// The answer.
    pub result: Result<Payload, Failure>,
}

/// An event for the outside, published at least once if and only if the turn commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewOutboxEvent {
    /// Made by the caller; receivers use it to drop repeats.
    pub id: Uuid,
    /// What kind of event.
    pub event_type: String,
    /// Its data.
    pub payload: Payload,
    /// The producer's own key, for receivers that drop repeats by meaning.
    pub idempotency_key: Option<String>,
}

/// One log line of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewStepLog {
    /// Made by the caller.
    pub id: Uuid,
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
}

/// How grave a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// For operators.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// Who gets the tasks that a turn wants leased, and for how long. The turn's id is the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The worker.
    pub worker_id: String,
    /// For how long.
    pub lease: Duration,
}

/// What became of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TurnOutcome {
    /// All of it was written (now, or by an earlier call with the same turn id).
    Committed(Committed),
    /// Nothing of it was written.
    Rejected(Rejection),
}

/// What a committed turn left behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Sequence number of the run's last event.
    pub sequence: i64,
    /// Facts that ever arrived: more than the turn took means another turn is due.
    pub arrivals: i64,
    /// Where the new tasks stand, in the order of [`TurnCommit::tasks`]. For a repeated commit: those
    /// that still exist.
    pub tasks: Vec<PlacedTask>,
    /// Whether messages to other runs were written: [`super::super::WorkflowEventStore::relay_messages`] delivers them.
    pub has_messages: bool,
    /// Whether a task left the head of the run's line and others, of earlier turns, stand behind it: the next may be claimed, unless
    /// something else holds it back. Not told by a repeated commit.
    pub line_moved: bool,
    /// True when an earlier call had written it.
    pub repeated: bool,
}

/// Where a new task stands after the commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedTask {
    /// The task.
    pub task_id: Uuid,
    /// Its place.
    pub place: TaskPlace,
}

/// Where a new task stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskPlace {
    /// Leased to the committer: run it.
    Leased {
        /// The right to it.
        lease: TaskLease,
        /// Until when.
        expires_at: Timestamp,
        /// When it was queued, which is when this attempt began.
        started_at: Timestamp,
    },
    /// Anyone may claim it.
    Claimable,
    /// It waits: in its run's line or for its time.
    Waiting,
}

/// Why a turn was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// The run was to be started with the turn, and may not be.
    #[error("the run cannot be started: {0}")]
    NotStarted(StartRejection),
    /// No such run.
    #[error("no such run")]
    NotFound,
    /// The run has ended.
    #[error("the run has ended ({status})")]
    RunFinished {
        /// How.
        status: WorkflowStatus,
    },
    /// The run was reset meanwhile.
    #[error("the run is in epoch {found}")]
    Epoch {
        /// Its epoch.
        found: u32,
    },
    /// Somebody else's turn came first.
    #[error("the run's last event is {found}")]
    Sequence {
        /// Its sequence number.
        found: i64,
    },
    /// `facts_through` is not a number of facts that have arrived and not been taken before.
    #[error("facts up to {consumed} are taken and up to {arrivals} have arrived")]
    Facts {
        /// Facts taken.
        consumed: i64,
        /// Facts arrived.
        arrivals: i64,
    },
    /// The turn would end the run, and a fact has arrived that it has not taken. Take the turn again.
    #[error("facts up to {arrivals} have arrived and the turn has not taken them all")]
    UnseenFacts {
        /// Facts arrived.
        arrivals: i64,
    },
    /// A lease is not the one that counts.
    #[error("the lease on task {task_id} is lost")]
    LeaseLost {
        /// The task.
        task_id: Uuid,
    },
    /// A timer is not set, or not due yet.
    #[error("timer {timer_id} is not due")]
    TimerNotDue {
        /// The timer.
        timer_id: String,
    },
    /// A task, timer or activity id of the turn is in use.
    #[error("{what} {id} is in use")]
    IdInUse {
        /// What kind of id.
        #[serde(deserialize_with = "kind_of_id")]
        what: KindOfId,
        /// Which.
        id: String,
    },
    /// A reset to a place where the run's current history does not reach.
    #[error("cannot reset to {to_sequence}: the current history is {first} to {last}")]
    ResetOutside {
        /// The place asked for.
        to_sequence: i64,
        /// First event of the current iteration.
        first: i64,
        /// Last event.
        last: i64,
    },
    /// The run would have more search attributes than a run may have
    /// ([`ATTRIBUTES_MAX`](super::super::limits::ATTRIBUTES_MAX)).
    #[error("the run would have {found} search attributes")]
    Attributes {
        /// How many it would have.
        found: usize,
    },
}

/// `task`, `activity` or `timer`. Under a name of its own, since serde would borrow a plain `&str` from what it reads.
type KindOfId = &'static str;

/// One of the kinds that [`Rejection::IdInUse`] is about.
fn kind_of_id<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<KindOfId, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = ["task", "activity", "timer"].into_iter();
    let mut found = known.filter(|kind| *kind == name);
    found
        .next()
        .ok_or_else(|| serde::de::Error::custom(format!("{name:?} is no kind of id")))
}

/// Which runs with a turn due to claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimTurns {
    /// Who claims.
    pub worker_id: String,
    /// Its build; runs that this build could not turn are passed over.
    pub build: String,
    /// Workflow types and versions that it hosts.
    pub hosted: Vec<HostedType>,
    /// Most runs to claim.
    pub max: usize,
    /// For how long others leave them alone.
    pub lease: Duration,
    /// Shard to begin with; within a shard, the longest ready come first.
    pub first_shard: u16,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// A workflow type in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostedType {
    /// The type.
    pub workflow_type: String,
    /// The version; empty when the type has none.
    pub version: String,
}

/// Types of what waits to be claimed, whoever may claim it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTypes {
    /// Of runs with a turn due.
    pub runs: BTreeSet<HostedType>,
    /// Of tasks that may be claimed.
    pub tasks: BTreeSet<String>,
}

/// A run with the first of the facts that wait for it, as many as one turn takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedTurn {
    /// The run; its input only while the run (or iteration) has not begun: afterwards no turn needs
    /// the input, and a set of turns would load every one.
    pub run: RunRecord,
    /// Facts, by arrival: at most [`TURN_FACTS_MAX`](crate::persistence::limits::TURN_FACTS_MAX),
    /// and as many as
    /// [`TURN_FACTS_BYTES_MAX`](crate::persistence::limits::TURN_FACTS_BYTES_MAX) allows.
    pub facts: Vec<Fact>,
    /// What a turn that takes all of `facts` has taken ([`TurnCommit::facts_through`]): the arrival
    /// number of the last one where others wait behind it, else all that have arrived. Numbers
    /// without a fact (a reset drops facts) are included.
    pub facts_through: i64,
}

impl ClaimedTurn {
    /// Whether facts wait behind those at hand.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.facts_through < self.run.arrivals
    }

    /// A run with what of its inbox was read: the facts that a turn takes, and the number of the
    /// last fact that waits.
    pub(crate) fn new(mut run: RunRecord, facts: Vec<Fact>, last_waiting: Option<i64>) -> Self {
        if run.has_begun() {
            run.input = Payload::ABSENT;
        }
        let last_read = facts.last().map(|fact| fact.arrival);
        let facts_through = if last_waiting > last_read {
            last_read.unwrap_or(run.consumed)
        } else {
            run.arrivals.max(last_read.unwrap_or(run.consumed))
        };
        Self {
            run,
            facts,
            facts_through,
        }
    }

    /// What the run itself brings, in bytes: one claim takes no more than fits
    /// ([`CHORE_BYTES_MAX`](crate::persistence::limits::CHORE_BYTES_MAX)), and one run at least.
    /// Facts have a limit of their own.
    #[must_use]
    pub fn run_bytes(&self) -> u64 {
        self.run.turn_bytes()
    }

    /// Whether a claim of these turns may have left others because they did not fit.
    #[must_use]
    pub fn may_have_left_some(turns: &[Self]) -> bool {
        let bytes: u64 = turns.iter().map(Self::run_bytes).sum();
        bytes >= crate::persistence::limits::CHORE_BYTES_MAX / 2
    }
}

/// A run that a build could not turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRun {
    /// The run.
    pub run_id: Uuid,
    /// Its last event as the build saw it; if it has gone on since, it is not blocked.
    pub expected_sequence: i64,
    /// The build.
    pub build: String,
    /// What went wrong.
    pub reason: String,
}

/// A run's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The run.
    pub run: RunRecord,
    /// Events with their sequence numbers, as stored, in order.
    pub events: Vec<HistoryEvent>,
}

/// An event in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// Its place.
    pub sequence_num: i64,
    /// The event.
    pub event: WorkflowEvent,
    /// When it was committed.
    pub created_at: Timestamp,
}
