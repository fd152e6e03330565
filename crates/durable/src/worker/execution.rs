//! One attempt of one activity.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{ActivityError, Failure, TimeoutType, error_types};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::results::Kept;
use super::{WorkerPool, outcome};
use crate::activity::{
    ActivityContext, AnyActivity, AttemptTransaction, ContextParts, HeartbeatSink,
};
use crate::engine::panic_text;
use crate::persistence::model::{ClaimedTask, NewStepLog, TaskOutcome, TaskResult};
use crate::persistence::{OpenTransaction, StoreError};

/// An attempt about to run.
pub(super) struct Execution<'a> {
    pool: &'a Arc<WorkerPool>,
    task: ClaimedTask,
    cancel: CancellationToken,
}

/// An attempt that has ended.
pub(super) struct Ended {
    pub(super) task: ClaimedTask,
    pub(super) outcome: TaskOutcome,
    pub(super) step_logs: Vec<NewStepLog>,
    pub(super) kept: Kept,
    pub(super) took: Duration,
}

/// How long an activity that was asked to stop may take before it is dropped where it stands.
const STOP_GRACE: Duration = Duration::from_secs(10);

impl<'a> Execution<'a> {
    pub(super) const fn new(
        pool: &'a Arc<WorkerPool>,
        task: ClaimedTask,
        cancel: CancellationToken,
    ) -> Self {
        Self { pool, task, cancel }
    }

    pub(super) async fn run(self) -> Ended {
        let runtime = &self.pool.runtime;
        let began = runtime.instant();
        let activity = self.activity();
        let context = ActivityContext::new(
            &self.task,
            ContextParts {
                cancelled: self.cancel.clone(),
                heartbeats: Arc::clone(&self.pool.leases) as Arc<dyn HeartbeatSink>,
                once: Arc::clone(&self.pool.once),
                transaction: self.transaction(activity.as_deref().ok()),
                runtime: runtime.clone(),
            },
        );
        let mut outcome = match activity {
            Ok(activity) => self.outcome(&*activity, &context).await,
            Err(failure) => TaskOutcome::Failed { failure },
        };
        let step_logs = context.take_logs();
        let mut kept = Kept::NotYet;
        if let Some(transaction) = context.take_transaction().await {
            (outcome, kept) = self.end(transaction, outcome, &step_logs).await;
        }
        Ended {
            step_logs,
            outcome,
            kept,
            took: began.elapsed(),
            task: self.task,
        }
    }

    /// The activity to run, or why it cannot be run here.
    fn activity(&self) -> Result<Arc<dyn AnyActivity>, Failure> {
        let activity_type = &self.task.activity_type;
        let Some(activity) = self.pool.activities.get(activity_type) else {
            let message = format!("this worker has no activity {activity_type}");
            return Err(Failure::new(error_types::ACTIVITY_FAILED, message));
        };
        if activity.is_transactional() && self.pool.transactions.is_none() {
            let message = format!(
                "activity {activity_type} is transactional, and this store has no transactions to share; PostgreSQL has"
            );
            return Err(Failure::new(error_types::ACTIVITY_FAILED, message).non_retryable());
        }
        Ok(activity)
    }

    fn transaction(&self, activity: Option<&dyn AnyActivity>) -> AttemptTransaction {
        let transactional = activity.is_some_and(AnyActivity::is_transactional);
        match &self.pool.transactions {
            Some(transactions) if transactional => {
                let patience = self.task.options.start_to_close_timeout;
                AttemptTransaction::of(Arc::clone(transactions), patience)
            }
            _ => AttemptTransaction::none(),
        }
    }

    /// Ends the activity's transaction: a result is stored in it and it commits; after anything else it is rolled back.
    async fn end(
        &self,
        transaction: OpenTransaction,
        outcome: TaskOutcome,
        step_logs: &[NewStepLog],
    ) -> (TaskOutcome, Kept) {
        let (Some(transactions), TaskOutcome::Completed { .. }) =
            (&self.pool.transactions, &outcome)
        else {
            return (outcome, Kept::NotYet);
        };
        let result = TaskResult {
            lease: self.task.lease.clone(),
            outcome: outcome.clone(),
            jitter: self.pool.runtime.fraction(),
            step_logs: step_logs.to_vec(),
        };
        match transactions.finish(transaction, result).await {
            Ok(stored) => (outcome, Kept::Already(stored)),
            Err(error) => uncommitted(&error),
        }
    }

    async fn outcome(&self, activity: &dyn AnyActivity, context: &ActivityContext) -> TaskOutcome {
        let call = activity.call(context.clone(), self.task.input.clone());
        let guarded = AssertUnwindSafe(call).catch_unwind();
        let time_is_up = self
            .pool
            .runtime
            .sleep(self.task.options.start_to_close_timeout);
        // Dropping the losing branches is what is meant: an activity past its time is given up where it stands.
        tokio::select! {
            biased;
            answered = guarded => match answered {
                Ok(Ok(result)) => outcome::completed(result, self.pool.results.encodes_payloads()),
                Ok(Err(error)) => self.failed(error),
                Err(panic) => {
                    let message = format!("the activity panicked: {}", panic_text(&*panic));
                    outcome::failed(Failure::new(error_types::ACTIVITY_FAILED, message))
                }
            },
            () = time_is_up => {
                self.cancel.cancel();
                TaskOutcome::Failed { failure: TimeoutType::StartToClose.failure() }
            }
            () = self.stopped_for_long() => TaskOutcome::Cancelled {
                reason: "it did not stop when it was asked to".to_owned(),
            },
        }
    }

    /// An error after a request to stop is the answer to that request.
    fn failed(&self, error: ActivityError) -> TaskOutcome {
        if self.cancel.is_cancelled() {
            outcome::cancelled(error.to_string())
        } else {
            outcome::failed(error.into_failure())
        }
    }

    async fn stopped_for_long(&self) {
        self.cancel.cancelled().await;
        self.pool.runtime.sleep(STOP_GRACE).await;
    }
}

/// The attempt has failed: what it wrote is gone, or that is what has to be found out.
fn uncommitted(error: &StoreError) -> (TaskOutcome, Kept) {
    if let StoreError::Limit { .. } = error {
        return (outcome::refused(error), Kept::NotYet);
    }
    let kept = if error.is_outcome_unknown() {
        Kept::Unknown
    } else {
        Kept::NotYet
    };
    let message = format!("the activity's transaction could not be committed: {error}");
    let failure = Failure::new(error_types::ACTIVITY_FAILED, message);
    (outcome::failed(failure), kept)
}
