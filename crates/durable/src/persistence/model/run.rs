//! Runs and how they are started.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use durable_core::ClosePolicy;
use durable_core::{AttributeValue, Failure, Payload, Timestamp, TraceContext};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::time::after;

/// Search attributes by name.
pub type Attributes = BTreeMap<String, AttributeValue>;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    /// Started, no turn taken yet.
    Pending,
    /// At least one turn taken.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because it was asked to.
    Cancelled,
}

impl WorkflowStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether the run is over.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for WorkflowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A run as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The run's id.
    pub id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// The version it is pinned to; empty when its type has none.
    pub version: String,
    /// The user's own key.
    pub business_id: Option<String>,
    /// The key it was started under.
    pub idempotency_key: Option<String>,
    /// [`StartRun::fingerprint`] of its start: tells a repeated start from another one under the same key.
    pub fingerprint: i64,
    /// Where it stands.
    pub status: WorkflowStatus,
    /// Input of the current iteration.
    pub input: Payload,
    /// Result; absent unless completed.
    pub result: Payload,
    /// Error; only when failed.
    pub error: Option<Failure>,
    /// Metadata given at the start.
    pub memo: Payload,
    /// Trace context given at the start.
    pub trace: Option<TraceContext>,
    /// The run that started it as a child.
    pub parent: Option<ParentLink>,
    /// Whether it ever started a child.
    pub has_children: bool,
    /// Sequence number of its last event; 0 before the first. Never goes back.
    pub sequence: i64,
    /// Sequence number of the event before the current iteration's first one.
    pub history_start: i64,
    /// Iteration, from 0; continue-as-new adds one.
    pub iteration: u32,
    /// Epoch, from 0; a reset adds one, and every older fence dies.
    pub epoch: u32,
    /// Facts that ever arrived in its inbox.
    pub arrivals: i64,
    /// Facts that its turns have taken: all with an arrival number up to this one.
    pub consumed: i64,
    /// Id of the last committed turn.
    pub last_turn: Option<Uuid>,
    /// Since when a turn is due: it was never turned, or facts wait. None: nothing to do, or over.
    pub ready_at: Option<Timestamp>,
    /// Who is taking its turns, and until when others leave it alone.
    pub owner: Option<Owner>,
    /// Set while a build could not take its turn.
    pub blocked: Option<Blocked>,
    /// When all its iterations together must be over.
    pub execution_deadline: Option<Timestamp>,
    /// When this iteration must be over.
    pub run_deadline: Option<Timestamp>,
    /// Length given to each iteration.
    pub run_timeout: Option<Duration>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its first turn was committed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

impl RunRecord {
    /// Whether its current iteration has events: its input is then part of the history.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.sequence != self.history_start
    }

    /// What a turn is given of the run, in bytes: the input while the run has not begun, and the
    /// memo.
    #[must_use]
    pub fn turn_bytes(&self) -> u64 {
        let input = if self.has_begun() {
            0
        } else {
            self.input.len()
        };
        let bytes = input.saturating_add(self.memo.len());
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// A run as it is when it has just been started, before it finds signals or updates.
    #[must_use]
    pub fn new(start: &StartRun, parent: Option<ParentLink>, now: Timestamp) -> Self {
        Self {
            id: start.run_id,
            workflow_type: start.workflow_type.clone(),
            version: start.version.clone(),
            business_id: start.business_id.clone(),
            idempotency_key: start.idempotency_key.clone(),
            fingerprint: start.fingerprint(),
            status: WorkflowStatus::Pending,
            input: start.input.clone(),
            result: Payload::ABSENT,
            error: None,
            memo: start.memo.clone(),
            trace: start.trace.clone(),
            parent,
            has_children: false,
            sequence: 0,
            history_start: 0,
            iteration: 0,
            epoch: 0,
            arrivals: 0,
            consumed: 0,
            last_turn: None,
            ready_at: Some(now),
            owner: start.owner.as_ref().map(|request| request.from(now)),
            blocked: None,
            execution_deadline: start.execution_timeout.map(|t| after(now, t)),
            run_deadline: start.run_timeout.map(|t| after(now, t)),
            run_timeout: start.run_timeout,
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
        }
    }

    /// The earlier of its two deadlines.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        [self.execution_deadline, self.run_deadline]
            .into_iter()
            .flatten()
            .min()
    }
}

/// A child's way back to its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentLink {
    /// The parent.
    pub run_id: Uuid,
    /// The name the parent gave the child.
    pub child_id: String,
    /// The parent's epoch when it asked for the child.
    pub epoch: u32,
    /// The parent's iteration when it asked for the child.
    pub iteration: u32,
    /// What happens to the child when the parent ends first.
    pub close_policy: ClosePolicy,
}

/// Who takes a run's turns: a hint for speed, never for safety.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The worker process.
    pub worker_id: String,
    /// Until when.
    pub expires_at: Timestamp,
}

/// A run whose turn could not be taken by some build: its code diverged or panicked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The build that could not.
    pub build: String,
    /// Why.
    pub reason: String,
}

/// What happens when a business id is used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReusePolicy {
    /// Always start another run.
    #[default]
    AllowDuplicate,
    /// Refuse if any run has it.
    RejectDuplicate,
    /// Start only if the last run with it failed (or none has it).
    AllowDuplicateFailedOnly,
    /// Terminate the last run if it has not ended, then start.
    TerminateIfRunning,
}

/// A run to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartRun {
    /// Made by the caller; starting it twice is one start.
    pub run_id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// Version to pin it to; empty when its type has none.
    pub version: String,
    /// Input.
    pub input: Payload,
    /// The user's own key.
    pub business_id: Option<String>,
    /// What happens when the business id is used again.
    pub reuse_policy: ReusePolicy,
    /// One run per key, whoever asks and how often.
    pub idempotency_key: Option<String>,
    /// Search attributes.
    pub attributes: Attributes,
    /// Metadata that never changes.
    pub memo: Payload,
    /// Time for all iterations together.
    pub execution_timeout: Option<Duration>,
    /// Time for each iteration.
    pub run_timeout: Option<Duration>,
    /// Trace context.
    pub trace: Option<TraceContext>,
    /// Signals it finds waiting (signal-with-start); they also reach a run that exists already.
    pub signals: Vec<NewSignal>,
    /// Updates it finds waiting (update-with-start); likewise.
    pub updates: Vec<NewUpdate>,
    /// Makes the caller its owner at once, so that no claim is needed.
    pub owner: Option<OwnerRequest>,
    /// Stands for the start as it was before a codec changed its input; absent where none did.
    pub sealed_fingerprint: Option<i64>,
}

impl StartRun {
    /// A plain start.
    #[must_use]
    pub fn new(run_id: Uuid, workflow_type: impl Into<String>, input: Payload) -> Self {
        Self {
            run_id,
            workflow_type: workflow_type.into(),
            version: String::new(),
            input,
            business_id: None,
            reuse_policy: ReusePolicy::default(),
            idempotency_key: None,
            attributes: Attributes::new(),
            memo: Payload::ABSENT,
            execution_timeout: None,
            run_timeout: None,
            trace: None,
            signals: Vec::new(),
            updates: Vec::new(),
            owner: None,
            sealed_fingerprint: None,
        }
    }

    /// Whether nothing but its id decides which run it means, and it brings nothing along: no workflow id, key, signals, updates.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.business_id.is_none()
            && self.idempotency_key.is_none()
            && self.signals.is_empty()
            && self.updates.is_empty()
    }

    /// Stands for workflow type, version and input: the same start has the same one, also where a codec encodes the same
    /// input differently each time.
    #[must_use]
    pub fn fingerprint(&self) -> i64 {
        if let Some(sealed) = self.sealed_fingerprint {
            return sealed;
        }
        let mut hash = Sha256::new();
        for part in [
            self.workflow_type.as_bytes(),
            self.version.as_bytes(),
            self.input.as_bytes(),
        ] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        i64::from_le_bytes(
            digest[..8]
                .try_into()
                .expect("a digest has more than eight bytes"),
        )
    }
}

/// Who wants to own a run, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRequest {
    /// The worker process.
    pub worker_id: String,
    /// For how long.
    pub lease: Duration,
}

impl OwnerRequest {
    /// The owner that it makes as of then.
    #[must_use]
    pub fn from(&self, now: Timestamp) -> Owner {
        Owner {
            worker_id: self.worker_id.clone(),
            expires_at: after(now, self.lease),
        }
    }
}

/// A signal on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSignal {
    /// Made by the caller; sending it twice is one signal.
    pub signal_id: Uuid,
    /// Its name.
    pub signal_type: String,
    /// Its data.
    #[serde(with = "durable_core::payload::text")]
    pub payload: Payload,
}

/// An update on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUpdate {
    /// Made by the caller, unique within the run; sending it twice is one update.
    pub update_id: String,
    /// Which handler.
    pub name: String,
    /// Its input.
    #[serde(with = "durable_core::payload::text")]
    pub input: Payload,
}

/// What became of a start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StartOutcome {
    /// The run was created by this call.
    Started {
        /// Its id.
        run_id: Uuid,
    },
    /// The same start was made before; its signals and updates reached that run.
    Existing {
        /// The run that exists.
        run_id: Uuid,
    },
    /// Nothing was written.
    Rejected(StartRejection),
}

/// Why a run was not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StartRejection {
    /// The idempotency key (or run id) belongs to a start with another type or input.
    #[error("run {run_id} was started under this key with another workflow type or input")]
    KeyConflict {
        /// The run that has the key.
        run_id: Uuid,
    },
    /// The reuse policy does not allow another run with this business id.
    #[error(
        "run {run_id} ({status}) has this workflow id and the reuse policy does not allow another"
    )]
    DuplicateBusinessId {
        /// The last run with the business id.
        run_id: Uuid,
        /// Where it stands.
        status: WorkflowStatus,
    },
    /// Signal- or update-with-start found a run that has ended.
    #[error("run {run_id} has ended ({status}); it takes nothing more")]
    RunFinished {
        /// The run.
        run_id: Uuid,
        /// How it ended.
        status: WorkflowStatus,
    },
    /// A run with this id was deleted; the id cannot be used again.
    #[error("run {run_id} was deleted; start with a new id")]
    Deleted {
        /// The id.
        run_id: Uuid,
    },
}

/// What a store answers to whoever waits for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Awaited {
    /// It is no nearer to the run: wait for its ring, and look.
    Here,
    /// The run as it stands; none where it does not exist.
    Run(Option<Box<RunRecord>>),
    /// It has ended with this result.
    Result(Payload),
}
