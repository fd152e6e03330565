//! Tasks: queued activities, their leases and their results.

use std::time::Duration;

use durable_core::{ActivityOptions, AttemptRecord, Failure, Payload, Timestamp, TraceContext};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::time::after;
use super::turn::NewStepLog;

/// A worker's fenced right to a task: good only while task, attempt and token all match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskLease {
    /// The run.
    pub run_id: Uuid,
    /// The task.
    pub task_id: Uuid,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The token of the claim (or the id of the turn that handed it over).
    pub token: Uuid,
}

/// Where a queued task stands. A finished task has no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// May be claimed now; only these are in the claim index.
    Pending,
    /// Waits behind an unfinished task of its run.
    InLine,
    /// Waits for its time (a retry, a delay).
    Delayed,
    /// Given back for a time: a breaker is open, or a limiter says no. It keeps its place in the line.
    Parked,
    /// Leased to a worker.
    Claimed,
    /// No attempt is left and its policy is `Park`: it keeps its place in the line until its dead letter is decided.
    Dead,
}

impl TaskStatus {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::InLine,
        Self::Delayed,
        Self::Parked,
        Self::Claimed,
        Self::Dead,
    ];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InLine => "in_line",
            Self::Delayed => "delayed",
            Self::Parked => "parked",
            Self::Claimed => "claimed",
            Self::Dead => "dead",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// A queued task as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The task.
    pub id: Uuid,
    /// Its run.
    pub run_id: Uuid,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: Payload,
    /// How to run it.
    pub options: ActivityOptions,
    /// Where it stands.
    pub status: TaskStatus,
    /// Place in its run's line: order in which the run's tasks were queued. Only tasks with
    /// `options.sequential` wait for those before them.
    pub line: i64,
    /// The run's epoch when it was queued.
    pub epoch: u32,
    /// When it was queued.
    pub scheduled_at: Timestamp,
    /// Since when (or from when on) it may be claimed.
    pub visible_at: Timestamp,
    /// Attempts begun; a release or an expired lease gives one back.
    pub attempt: u32,
    /// Times it was handed out without an answer.
    pub deliveries: u32,
    /// Who has it.
    pub claimed_by: Option<String>,
    /// Since when.
    pub claimed_at: Option<Timestamp>,
    /// The lease's token.
    pub token: Option<Uuid>,
    /// Until when the lease holds.
    pub lease_expires_at: Option<Timestamp>,
    /// Last heartbeat of this attempt.
    pub heartbeat_at: Option<Timestamp>,
    /// Details of the last heartbeat of any attempt.
    pub heartbeat_details: Payload,
    /// When all attempts together must be over.
    pub close_deadline: Option<Timestamp>,
    /// Failed attempts so far.
    pub attempts: Vec<AttemptRecord>,
    /// Times it came back from the dead letters.
    pub requeue_count: u32,
    /// Trace context.
    pub trace: Option<TraceContext>,
}

impl TaskRecord {
    /// The next instant at which one of the activity's clocks runs out, or a delayed or parked task may be claimed.
    ///
    /// Which clocks run depends on where the task stands: schedule-to-start only while it may be
    /// claimed (X21), start-to-close and heartbeat only while it is leased.
    #[must_use]
    pub fn timeout_at(&self) -> Option<Timestamp> {
        let own = match self.status {
            TaskStatus::Dead => return None,
            TaskStatus::Pending => Some(after(
                self.visible_at,
                self.options.schedule_to_start_timeout,
            )),
            TaskStatus::Delayed | TaskStatus::Parked => Some(self.visible_at),
            TaskStatus::InLine => None,
            TaskStatus::Claimed => {
                let started = self.claimed_at.unwrap_or(self.visible_at);
                let close = after(started, self.options.start_to_close_timeout);
                let beat = self
                    .options
                    .heartbeat_timeout
                    .map(|timeout| after(self.heartbeat_at.unwrap_or(started), timeout));
                Some(beat.map_or(close, |beat| beat.min(close)))
            }
        };
        [own, self.close_deadline].into_iter().flatten().min()
    }

    /// The next instant at which anything has to happen to it: a clock, or the end of its lease.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        [self.timeout_at(), self.lease_expires_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether this lease is the one that counts.
    #[must_use]
    pub fn is_leased_as(&self, lease: &TaskLease) -> bool {
        self.status == TaskStatus::Claimed
            && self.id == lease.task_id
            && self.attempt == lease.attempt
            && self.token == Some(lease.token)
    }
}

/// A task to queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTask {
    /// Made by the caller.
    pub task_id: Uuid,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: Payload,
    /// How to run it.
    pub options: ActivityOptions,
    /// Not to be claimed before this has passed.
    pub delay: Option<Duration>,
    /// Whether the committer wants it leased to itself in the same commit, if it may be claimed at once.
    pub lease: bool,
    /// Trace context.
    pub trace: Option<TraceContext>,
}

/// What to claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimTasks {
    /// Who claims.
    pub worker_id: String,
    /// Activity types it runs.
    pub activity_types: Vec<String>,
    /// Most tasks to claim.
    pub max: usize,
    /// For how long.
    pub lease: Duration,
    /// Token of all leases of this claim; made by the caller, new for each claim.
    pub token: Uuid,
    /// Shard to begin with; order holds within a shard.
    pub first_shard: u16,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// A task handed to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// The right to it.
    pub lease: TaskLease,
    /// Until when, unless extended.
    pub lease_expires_at: Timestamp,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: Payload,
    /// How to run it.
    pub options: ActivityOptions,
    /// Times it was handed out without an answer, this one included.
    pub deliveries: u32,
    /// When it was queued.
    pub scheduled_at: Timestamp,
    /// When this attempt began.
    pub started_at: Timestamp,
    /// Details of the last heartbeat of an earlier attempt.
    pub heartbeat_details: Payload,
    /// Failed attempts so far.
    pub attempts: Vec<AttemptRecord>,
    /// Trace context.
    pub trace: Option<TraceContext>,
}

/// A result from a worker that does not hold the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The right to report it.
    pub lease: TaskLease,
    /// How the attempt ended.
    pub outcome: TaskOutcome,
    /// Chooses within the retry delay's jitter, 0.0 to 1.0.
    pub jitter: f64,
    /// Log lines of the attempt.
    pub step_logs: Vec<NewStepLog>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskOutcome {
    /// With a result.
    Completed {
        /// The result.
        result: Payload,
    },
    /// With a failure; the task's own policy decides about a retry.
    Failed {
        /// The failure.
        failure: Failure,
    },
    /// It was given up on request.
    Cancelled {
        /// Why.
        reason: String,
    },
}

/// What became of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FinishOutcome {
    /// The activity is over; the fact waits in the run's inbox.
    Recorded {
        /// Number of its arrival.
        arrival: i64,
        /// Whether it left the head of the run's line and others stand behind it: the next may be claimed, unless something else
        /// holds it back.
        line_moved: bool,
    },
    /// The activity will be tried again.
    Retrying {
        /// From when on.
        visible_at: Timestamp,
    },
    /// No attempt is left and its policy is `Park`: the run waits for the dead letter to be decided.
    Parked,
    /// Nothing was written: the lease had passed on, the task was cancelled or its run has ended.
    LeaseLost,
}

/// A lease to extend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaseExtension {
    /// Which lease.
    pub lease: TaskLease,
    /// For how long from now.
    pub extend: Duration,
    /// A heartbeat of the user's, with details: restarts the heartbeat clock.
    pub heartbeat: Option<Payload>,
}

impl ClaimedTask {
    /// What it brings, in bytes: one claim takes no more than fits
    /// ([`CHORE_BYTES_MAX`](crate::persistence::limits::CHORE_BYTES_MAX)).
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.input.len() + self.heartbeat_details.len();
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// Whether a claim of these tasks may have left others in the queue because they did not fit.
    #[must_use]
    pub fn may_have_left_some(tasks: &[Self]) -> bool {
        let bytes: u64 = tasks.iter().map(Self::bytes).sum();
        bytes >= crate::persistence::limits::CHORE_BYTES_MAX / 2
    }
}

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseState {
    /// It holds.
    Extended {
        /// Until then.
        expires_at: Timestamp,
    },
    /// It is void: the task passed on, was cancelled, or its run ended. Stop the activity.
    Lost,
    /// Another transaction has the task, and nothing was changed: the lease holds as long as it
    /// did. Ask again soon.
    Unknown,
}

/// A task to give back unrun: neither attempt nor delivery counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRelease {
    /// The right to give it back.
    pub lease: TaskLease,
    /// Absent: it may be claimed at once. Otherwise it is parked for so long (a breaker is open, a limiter says no).
    pub park: Option<Duration>,
}

impl TaskRelease {
    /// It may be claimed at once.
    #[must_use]
    pub const fn now(lease: TaskLease) -> Self {
        Self { lease, park: None }
    }

    /// It may not be claimed before so much time has passed.
    #[must_use]
    pub const fn parked(lease: TaskLease, time: Duration) -> Self {
        Self {
            lease,
            park: Some(time),
        }
    }
}

/// Which expired leases to take back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReapLeases {
    /// Most tasks.
    pub max: usize,
    /// Shard to begin with.
    pub first_shard: u16,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// A task whose lease was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReapedTask {
    /// The run.
    pub run_id: Uuid,
    /// The task.
    pub task_id: Uuid,
    /// Which activity.
    pub activity_type: String,
    /// False: it may be claimed again. True: it was handed out too often and is a dead letter.
    pub dead: bool,
}
