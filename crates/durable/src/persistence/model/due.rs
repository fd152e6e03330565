//! What becomes due by itself, and what runs tell each other.

use std::collections::BTreeSet;

use durable_core::{Failure, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::run::{ClosePolicy, NewSignal, WorkflowStatus};

/// A timer as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerRecord {
    /// The run.
    pub run_id: Uuid,
    /// The timer.
    pub timer_id: String,
    /// When it fires.
    pub fire_at: Timestamp,
    /// The run's epoch when it was set.
    pub epoch: u32,
}

/// How much of what is due to handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FireDue {
    /// Most items of each kind (timers, tasks, runs) and shard.
    pub max: usize,
    /// Shard to begin with.
    pub first_shard: u16,
    /// Chooses within the jitter of retries after a timeout, 0.0 to 1.0.
    pub jitter: f64,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// What was due.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Fired {
    /// Timers that fired; their facts wait in the inboxes.
    pub timers: usize,
    /// Delayed and parked tasks that may be claimed now.
    pub tasks_ready: usize,
    /// Tasks of which a clock ran out.
    pub tasks_timed_out: usize,
    /// Activity types of tasks that may be claimed because of it. Where a line moved up, which the next one is is not looked up: then it is the
    /// type of the one that made way.
    pub claimable_types: BTreeSet<String>,
    /// Runs of which the time ran out, by id: they have ended.
    pub runs_timed_out: Vec<Uuid>,
    /// Runs that have a turn due because of it, each once, by id.
    pub ready_runs: Vec<Uuid>,
    /// The next instant at which something is due; earlier than now if `max` cut the work short.
    pub next_due: Option<Timestamp>,
    /// Runs of which something is due that was left alone, because another transaction has them
    /// locked: `next_due` knows nothing of theirs.
    /// Ask again soon.
    #[serde(default)]
    pub put_off: usize,
}

/// How many messages to deliver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelayMessages {
    /// Most messages per shard.
    pub max: usize,
    /// Shard to begin with.
    pub first_shard: u16,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// What was delivered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Relayed {
    /// Messages that reached a run (or started one).
    pub delivered: usize,
    /// Messages whose receiver was gone, over, reset or had them already.
    pub dropped: usize,
    /// Runs that have a turn due because of it, each once, by id.
    pub ready_runs: Vec<Uuid>,
    /// Senders whose messages wait for a run that another transaction has locked. Ask again soon.
    #[serde(default)]
    pub put_off: usize,
}

/// A message between runs, as stored in the sender's shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// The sender.
    pub sender: Uuid,
    /// The sender's sequence number after the commit that wrote it.
    pub sequence_num: i64,
    /// Its place among that commit's messages, from 0.
    pub idx: i32,
    /// What it says.
    pub message: Message,
}

/// What one run tells another.
///
/// Its JSON has the content beside the kind: serde cannot read a payload out of an internally tagged form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum Message {
    /// Start a child.
    StartChild {
        /// The start, in its stored form.
        start: StoredStart,
        /// What happens to it when the parent ends first.
        close_policy: ClosePolicy,
        /// The name the parent gave it.
        child_id: String,
        /// The parent's epoch.
        epoch: u32,
        /// The parent's iteration.
        iteration: u32,
    },
    /// A child has ended.
    ChildFinished {
        /// The parent.
        parent: Uuid,
        /// The name the parent gave the child.
        child_id: String,
        /// The parent's epoch when it asked for the child.
        epoch: u32,
        /// The parent's iteration when it asked for the child.
        iteration: u32,
        /// How the child ended.
        status: WorkflowStatus,
        /// Its result.
        #[serde(with = "durable_core::payload::text")]
        result: Payload,
        /// Its error.
        error: Option<Failure>,
    },
    /// A signal.
    Signal {
        /// The receiver.
        run_id: Uuid,
        /// The signal.
        signal: NewSignal,
    },
    /// The sender has ended: apply the close policies of its children.
    CloseChildren,
}

/// A child's start as a message carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredStart {
    /// The child's run id.
    pub run_id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// Version.
    pub version: String,
    /// Input.
    #[serde(with = "durable_core::payload::text")]
    pub input: Payload,
    /// The user's own key.
    pub business_id: Option<String>,
    /// What happens when it is used again.
    pub reuse_policy: super::run::ReusePolicy,
    /// Search attributes.
    pub attributes: super::run::Attributes,
    /// Metadata.
    #[serde(with = "durable_core::payload::text")]
    pub memo: Payload,
    /// Time for all iterations, in milliseconds.
    pub execution_timeout_ms: Option<u64>,
    /// Time for each iteration, in milliseconds.
    pub run_timeout_ms: Option<u64>,
    /// Trace context.
    pub trace: Option<durable_core::TraceContext>,
    /// [`super::run::StartRun::sealed_fingerprint`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_fingerprint: Option<i64>,
}

/// A run to terminate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateRun {
    /// The run.
    pub run_id: Uuid,
    /// Why.
    pub reason: String,
}

/// What became of a termination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminateOutcome {
    /// The run is failed with `WorkflowTerminated`; its tasks, timers and waiting facts are gone.
    Terminated,
    /// It had ended before.
    AlreadyFinished(WorkflowStatus),
    /// No such run.
    NotFound,
}
