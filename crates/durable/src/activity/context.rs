//! What an activity knows of its attempt, and how it reports while it runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{ActivityError, Payload, Timestamp, TraceContext, error_types};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::logs::StepLogs;
use super::{AttemptTransaction, OnceLedger};
use crate::persistence::limits::{PAYLOAD_BYTES_MAX, check_id, check_payload};
use crate::persistence::model::{ClaimedTask, LogLevel, NewStepLog, TaskLease};
use crate::persistence::{OpenTransaction, StoreError, StoreResult};
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
    once: Arc<dyn OnceLedger>,
    transaction: AttemptTransaction,
    scheduled_at: Timestamp,
    started_at: Timestamp,
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
    pub(crate) once: Arc<dyn OnceLedger>,
    pub(crate) transaction: AttemptTransaction,
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

/// Which attempt of which activity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityInfo {
    /// The run.
    pub run_id: Uuid,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Attempts that the retry policy allows.
    pub max_attempts: u32,
    /// See [`ActivityContext::idempotency_key`].
    pub idempotency_key: String,
    /// When the activity was queued, by the store's clock.
    pub scheduled_at: Timestamp,
    /// When this attempt began, by the store's clock.
    pub started_at: Timestamp,
}

/// How often `run_once` asks a store that cannot be reached before it gives up: about a second in all.
const ONCE_TRIES_MAX: u32 = 6;

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
                once: parts.once,
                transaction: parts.transaction,
                scheduled_at: task.scheduled_at,
                started_at: task.started_at,
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
    /// so that a repeated call is told from a new one. The next iteration of the run has other keys. So has an activity
    /// that an operator has tried again by a retry or a reset: who remembers the failure under the old key would only repeat it.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.workflow_id, self.shared.lease.task_id)
    }

    /// Which attempt of which activity this is, as plain data.
    #[must_use]
    pub fn info(&self) -> ActivityInfo {
        ActivityInfo {
            run_id: self.workflow_id,
            activity_id: self.activity_id.clone(),
            activity_type: self.shared.activity_type.clone(),
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            idempotency_key: self.idempotency_key(),
            scheduled_at: self.shared.scheduled_at,
            started_at: self.shared.started_at,
        }
    }

    /// Does something once for a key: the first time its result is stored, later the stored one is answered and nothing is done. A failure is not stored.
    ///
    /// The key is taken as it is and shared by all runs of the store: make it from [`ActivityContext::idempotency_key`], or from what must not
    /// happen twice (`charge:order-7`). A process that dies after the deed and before its result is stored does it again, and two that
    /// begin at the same time may both do it, though both answer the result that was stored first: for the last bit of safety hand the key to
    /// what you call.
    ///
    /// The result is kept for a year
    /// ([`DetailRetention::once_results`](crate::engine::DetailRetention)), whatever becomes of the
    /// run.
    ///
    /// # Errors
    /// The function's; retryable ones where the store cannot be reached; a final one for a key or a result that cannot be stored, or a stored result that does not fit `T`.
    pub async fn run_once<T, F, Fut>(
        &self,
        key: impl AsRef<str> + Send,
        function: F,
    ) -> Result<T, ActivityError>
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce() -> Fut + Send,
        Fut: Future<Output = Result<T, ActivityError>> + Send,
    {
        let (key, once) = (key.as_ref(), &self.shared.once);
        check_id("the key of run_once", key).map_err(once_failed)?;
        if let Some(stored) = self.asked(|| once.get(key)).await? {
            return read_once(key, &stored);
        }
        let done = function().await?;
        let result = Payload::from_value(&done)
            .map_err(|error| ActivityError::from(error).non_retryable())?;
        check_payload("the result of run_once", &result).map_err(once_failed)?;
        let kept = self.asked(|| once.put(key, result.clone())).await?;
        if kept == result {
            return Ok(done);
        }
        read_once(key, &kept)
    }

    /// The deed is done when its result is stored: worth a few tries.
    async fn asked<T, F>(&self, ask: impl Fn() -> F + Send) -> Result<T, ActivityError>
    where
        F: Future<Output = StoreResult<T>> + Send,
    {
        let runtime = &self.shared.runtime;
        for attempt in 0..ONCE_TRIES_MAX {
            match ask().await {
                Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                    let wait = Duration::from_millis(20 << attempt);
                    runtime.sleep(runtime.jittered(wait)).await;
                }
                answer => return answer.map_err(once_failed),
            }
        }
        ask().await.map_err(once_failed)
    }

    /// [`ActivityContext::transaction`] as the store has it: for stores of others, whose transactions are of another type.
    ///
    /// # Errors
    /// As there.
    pub async fn store_transaction(&self) -> Result<OpenTransaction, ActivityError> {
        self.shared.transaction.open().await
    }

    /// The transaction of an activity that is [`transactional`](super::Activity::TRANSACTIONAL), in the engine's own database: what is written
    /// there and the activity's result commit as one. Begun at the first call; the same one at every later call of this attempt. The library
    /// ends it: it commits when the activity has answered and its lease still holds, and rolls back otherwise.
    ///
    /// # Errors
    /// A final one for an activity that is not transactional, or after it has answered; a retryable one where no connection can be had.
    #[cfg(feature = "postgres")]
    pub async fn transaction(
        &self,
    ) -> Result<Arc<crate::persistence::postgres::ActivityTransaction>, ActivityError> {
        let open = self.store_transaction().await?;
        open.downcast().map_err(|_| {
            let message = "the transactions of this store are not PostgreSQL's";
            ActivityError::new(error_types::ACTIVITY_FAILED, message).non_retryable()
        })
    }

    /// The transaction, if the activity asked for it; there is none any more afterwards.
    pub(crate) async fn take_transaction(&self) -> Option<OpenTransaction> {
        self.shared.transaction.take().await
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

fn read_once<T: DeserializeOwned>(key: &str, stored: &Payload) -> Result<T, ActivityError> {
    stored.to_value().map_err(|error| {
        let message = format!("the result stored under {key:?} does not fit: {error}");
        ActivityError::new(error_types::INVALID_PAYLOAD, message).non_retryable()
    })
}

fn once_failed(error: StoreError) -> ActivityError {
    let again = error.is_retryable() || error.is_outcome_unknown();
    let error = ActivityError::from(error);
    if again { error } else { error.non_retryable() }
}
