//! One attempt of one activity.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{ActivityError, Failure, TimeoutType, error_types};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::{WorkerPool, outcome};
use crate::activity::{ActivityContext, ContextParts, HeartbeatSink};
use crate::engine::panic_text;
use crate::persistence::model::{ClaimedTask, NewStepLog, TaskOutcome};

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
        let context = ActivityContext::new(
            &self.task,
            ContextParts {
                cancelled: self.cancel.clone(),
                heartbeats: Arc::clone(&self.pool.leases) as Arc<dyn HeartbeatSink>,
                once: Arc::clone(&self.pool.once),
                runtime: runtime.clone(),
            },
        );
        let outcome = self.outcome(&context).await;
        Ended {
            step_logs: context.take_logs(),
            outcome,
            took: began.elapsed(),
            task: self.task,
        }
    }

    async fn outcome(&self, context: &ActivityContext) -> TaskOutcome {
        let Some(activity) = self.pool.activities.get(&self.task.activity_type) else {
            let message = format!("this worker has no activity {}", self.task.activity_type);
            let failure = Failure::new(error_types::ACTIVITY_FAILED, message);
            return TaskOutcome::Failed { failure };
        };
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
