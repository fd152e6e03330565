//! Facts that wait in a run's inbox, and what is sent to a run.

use durable_core::{AttemptRecord, Failure, Payload, Timestamp, WorkflowEvent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::run::{NewSignal, NewUpdate, WorkflowStatus};

/// A fact that arrived without its turn and waits in the run's inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Number of its arrival, from 1, without gaps. A signal that continue-as-new carries over gets
    /// a new number, before those that wait.
    pub arrival: i64,
    /// The event that the turn appends for it.
    pub event: WorkflowEvent,
    /// For the end of an activity: the attempt that ended it, to be appended before the event as
    /// `activity.started`, and the failed ones before, as `activity.started` and `activity.failed`.
    pub attempts: Vec<AttemptRecord>,
    /// For the end of an activity: the attempt that ended it.
    pub last_attempt: Option<LastAttempt>,
    /// When it arrived.
    pub arrived_at: Timestamp,
}

impl Fact {
    /// Bytes that count towards what one turn takes: the stored event and its payload, and the
    /// attempts it tells of.
    pub(crate) fn stored_bytes(&self) -> usize {
        let event = self.event.encode();
        let attempts = if self.attempts.is_empty() {
            0
        } else {
            serde_json::to_vec(&self.attempts).map_or(0, |json| json.len())
        };
        event.data.len() + event.payload.len() + attempts
    }
}

/// The attempt that ended an activity.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LastAttempt {
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Who ran it.
    pub worker_id: String,
    /// When it began.
    pub started_at: Timestamp,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSignal {
    /// To which run.
    pub run_id: Uuid,
    /// The signal.
    pub signal: NewSignal,
}

/// An update to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendUpdate {
    /// To which run.
    pub run_id: Uuid,
    /// The update.
    pub update: NewUpdate,
}

/// What became of something sent to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendOutcome {
    /// It waits in the inbox, or has been taken by a turn since.
    Accepted {
        /// Number of its arrival.
        arrival: i64,
    },
    /// It had been sent before, under the same id.
    Duplicate {
        /// Number of its arrival then.
        arrival: i64,
    },
    /// Nothing was written.
    Rejected(SendRejection),
}

/// Why a run takes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SendRejection {
    /// No such run.
    #[error("no such run")]
    NotFound,
    /// The run has ended.
    #[error("the run has ended ({status}); it takes nothing more")]
    RunFinished {
        /// How.
        status: WorkflowStatus,
    },
    /// Too many facts wait ([`crate::persistence::limits::INBOX_FACTS_MAX`]); slow down.
    #[error("{waiting} facts wait for this run; try again when it has caught up")]
    InboxFull {
        /// How many wait.
        waiting: i64,
    },
}

/// An update as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateRecord {
    /// The run.
    pub run_id: Uuid,
    /// The caller's id for it.
    pub update_id: String,
    /// Which handler.
    pub name: String,
    /// Its input.
    pub input: Payload,
    /// Number of its arrival.
    pub arrival: i64,
    /// How far it is.
    pub state: UpdateState,
    /// When it arrived.
    pub created_at: Timestamp,
    /// When it was answered.
    pub completed_at: Option<Timestamp>,
}

/// How far an update is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum UpdateState {
    /// Not answered yet.
    Pending,
    /// Answered.
    Completed(Payload),
    /// Refused, failed, or the run ended first.
    Failed(Failure),
}

/// A signal as stored: the ledger that makes sending it twice one signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalRecord {
    /// The run.
    pub run_id: Uuid,
    /// The sender's id for it.
    pub signal_id: Uuid,
    /// Its name.
    pub signal_type: String,
    /// Its data.
    pub payload: Payload,
    /// Number of its arrival.
    pub arrival: i64,
    /// When it arrived.
    pub sent_at: Timestamp,
    /// When a turn took it.
    pub processed_at: Option<Timestamp>,
}
