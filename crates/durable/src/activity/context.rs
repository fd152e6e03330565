//! What an activity knows of its attempt, and how it reports while it runs.

use std::sync::Arc;

use durable_core::{Payload, TraceContext};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::logs::StepLogs;
use crate::persistence::limits::PAYLOAD_BYTES_MAX;
use crate::persistence::model::{ClaimedTask, LogLevel, NewStepLog, TaskLease};
use crate::runtime::Runtime;

/// One attempt of an activity, as the activity sees it. Cheap to clone.
#[derive(Clone)]
pub struct ActivityContext {
    /// Id of this attempt, unique.
    pub attempt_id: Uuid,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Attempts that the retry policy allows.
    pub max_attempts: u32,
    /// The run.
    pub workflow_id: Uuid,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Trace context of the run, if it was started with one.
    pub span_context: Option<TraceContext>,
    shared: Arc<Shared>,
}

struct Shared {
    activity_type: String,
    lease: TaskLease,
    heartbeat_details: Payload,
    cancelled: CancellationToken,
    heartbeats: Arc<dyn HeartbeatSink>,
    logs: Mutex<StepLogs>,
    runtime: Runtime,
}

/// Where heartbeats go.
pub(crate) trait HeartbeatSink: Send + Sync + 'static {
    fn queue(&self, lease: &TaskLease, details: Payload);
}

/// What a context is made of.
pub(crate) struct ContextParts {
    pub(crate) cancelled: CancellationToken,
    pub(crate) heartbeats: Arc<dyn HeartbeatSink>,
    pub(crate) runtime: Runtime,
}

/// Why a heartbeat was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeartbeatError {
    /// The activity was cancelled or its lease is lost: stop.
    #[error("the activity was cancelled or passed on to another worker; stop")]
    Cancelled,
    /// The details have no JSON form, or are too large.
    #[error("the heartbeat's details cannot be kept: {0}")]
    Details(String),
}

impl ActivityContext {
    pub(crate) fn new(task: &ClaimedTask, parts: ContextParts) -> Self {
        Self {
            attempt_id: parts.runtime.new_id(),
            attempt: task.lease.attempt,
            max_attempts: task.options.retry_policy.max_attempts,
            workflow_id: task.lease.run_id,
            activity_id: task.activity_id.clone(),
            span_context: task.trace.clone(),
            shared: Arc::new(Shared {
                activity_type: task.activity_type.clone(),
                lease: task.lease.clone(),
                heartbeat_details: task.heartbeat_details.clone(),
                cancelled: parts.cancelled,
                heartbeats: parts.heartbeats,
                logs: Mutex::default(),
                runtime: parts.runtime,
            }),
        }
    }

    /// Which activity.
    #[must_use]
    pub fn activity_type(&self) -> &str {
        &self.shared.activity_type
    }

    /// The same for every attempt of this activity and for no other: give it to what you call,
    /// so that a repeated call is told from a new one.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.workflow_id, self.shared.lease.task_id)
    }

    /// Tells that the activity is alive, with details for the next attempt if this one dies. Does not wait for the store.
    ///
    /// # Errors
    /// [`HeartbeatError::Cancelled`]: stop. [`HeartbeatError::Details`]: the details do not fit.
    #[allow(
        clippy::unused_async,
        reason = "S0's signature; a remote worker may have to wait"
    )]
    pub async fn heartbeat(
        &self,
        details: Option<serde_json::Value>,
    ) -> Result<(), HeartbeatError> {
        match details {
            None => self.beat(Payload::ABSENT),
            Some(details) => self.heartbeat_with(&details),
        }
    }

    /// [`ActivityContext::heartbeat`] with details of your own type.
    ///
    /// # Errors
    /// As there.
    pub fn heartbeat_with<T: Serialize>(&self, details: &T) -> Result<(), HeartbeatError> {
        let payload = Payload::from_value(details)
            .map_err(|error| HeartbeatError::Details(error.to_string()))?;
        self.beat(payload)
    }

    fn beat(&self, details: Payload) -> Result<(), HeartbeatError> {
        if self.is_cancelled() {
            return Err(HeartbeatError::Cancelled);
        }
        let bytes = details.as_bytes().len();
        if bytes > PAYLOAD_BYTES_MAX {
            let message = format!("{bytes} bytes, the limit is {PAYLOAD_BYTES_MAX}");
            return Err(HeartbeatError::Details(message));
        }
        self.shared.heartbeats.queue(&self.shared.lease, details);
        Ok(())
    }

    /// Details of the last heartbeat of an earlier attempt, if there was one and it fits `T`.
    #[must_use]
    pub fn heartbeat_details<T: DeserializeOwned>(&self) -> Option<T> {
        let details = &self.shared.heartbeat_details;
        if details.is_absent() {
            return None;
        }
        details.to_value().ok()
    }

    /// Whether the activity should stop: it was cancelled, its time is up, or another worker has it now.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.is_cancelled()
    }

    /// Ends when the activity should stop.
    pub async fn cancelled(&self) {
        self.shared.cancelled.cancelled().await;
    }

    /// Adds a line to the run's log; it is stored together with the attempt's outcome.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.log_with(level, message, &serde_json::Value::Null);
    }

    /// [`ActivityContext::log`] with data for programs; data without a JSON form is left out. Of one attempt a thousand lines are kept, and
    /// a mebibyte of them.
    pub fn log_with<T: Serialize>(&self, level: LogLevel, message: impl Into<String>, meta: &T) {
        self.shared.logs.lock().add(NewStepLog {
            id: self.shared.runtime.new_id(),
            activity_id: self.activity_id.clone(),
            attempt: self.attempt,
            level,
            message: message.into(),
            meta: Payload::from_value(meta).unwrap_or(Payload::ABSENT),
        });
    }

    pub(crate) fn take_logs(&self) -> Vec<NewStepLog> {
        self.shared.logs.lock().take()
    }
}

impl std::fmt::Debug for ActivityContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActivityContext")
            .field("workflow_id", &self.workflow_id)
            .field("activity_id", &self.activity_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
