//! Results of activities whose run is not at hand: stored in batches, until the store has them.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{ExhaustedPolicy, RetryDecision};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, error};

use super::Slot;
use crate::persistence::limits::BATCH_ITEMS_MAX;
use crate::persistence::model::{ClaimedTask, FinishOutcome, NewStepLog, TaskOutcome, TaskResult};
use crate::persistence::{Bug, WorkerPort, planted};
use crate::runtime::Runtime;

/// An activity that has ended and whose outcome is not stored yet.
pub(crate) struct Finished {
    pub(crate) task: ClaimedTask,
    pub(crate) outcome: TaskOutcome,
    pub(crate) step_logs: Vec<NewStepLog>,
    pub(crate) kept: Kept,
    /// Free only when the outcome is stored: otherwise the worker would take on more than it can finish.
    #[allow(
        dead_code,
        reason = "held, not read: dropping it is what frees the slot"
    )]
    pub(crate) slot: Slot,
}

impl Finished {
    /// Whether the outcome is one that a turn commits: the activity is over and the run sees it.
    pub(crate) fn may_join_a_turn(&self) -> bool {
        match &self.outcome {
            TaskOutcome::Completed { .. } => true,
            TaskOutcome::Failed { failure } => {
                let options = &self.task.options;
                let attempt = self.task.lease.attempt;
                let decision = options.retry_policy.decide(attempt, failure, 0.0);
                !matches!(decision, RetryDecision::Retry(_))
                    && options.on_exhausted == ExhaustedPolicy::Fail
            }
            TaskOutcome::Cancelled { .. } => false,
        }
    }
}

/// Whether the store has an outcome already: the activity's own transaction may have brought it there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kept {
    /// It has not.
    NotYet,
    /// It has, and this became of it.
    Already(FinishOutcome),
    /// Nobody knows whether its commit was carried out. The outcome here is that it was not; the store refuses it if it was.
    Unknown,
}

/// What follows from a stored result.
pub(crate) trait ResultListener: Send + Sync + 'static {
    /// The run has a fact waiting; where its line moved up, the next task may be claimed.
    fn recorded(&self, task: &ClaimedTask, line_moved: bool);
    /// The activity is tried again then.
    fn retrying(&self, task: &ClaimedTask, visible_at: durable_core::Timestamp);
}

/// Stores results by `finish_tasks`. While one batch is under way the next one forms.
pub(crate) struct ResultSink {
    port: Arc<dyn WorkerPort>,
    runtime: Runtime,
    waiting: Mutex<Vec<Finished>>,
    bell: Notify,
    /// Results given in and not stored yet, those under way included.
    open: Mutex<usize>,
    stored: Notify,
}

/// First wait before results are stored again after the store could not be reached; doubles up to the largest.
const RETRY_MS_FIRST: u64 = 20;
/// Largest such wait.
const RETRY_MS_MAX: u64 = 2_000;

impl ResultSink {
    pub(crate) fn new(port: Arc<dyn WorkerPort>, runtime: Runtime) -> Self {
        Self {
            port,
            runtime,
            waiting: Mutex::default(),
            bell: Notify::new(),
            open: Mutex::new(0),
            stored: Notify::new(),
        }
    }

    /// Takes outcomes in; returns at once.
    pub(crate) fn store(&self, finished: Vec<Finished>) {
        if finished.is_empty() {
            return;
        }
        *self.open.lock() += finished.len();
        self.waiting.lock().extend(finished);
        self.bell.notify_one();
    }

    /// Ends when everything taken in is stored.
    pub(crate) async fn flushed(&self) {
        loop {
            let stored = self.stored.notified();
            tokio::pin!(stored);
            stored.as_mut().enable();
            if *self.open.lock() == 0 {
                return;
            }
            stored.await;
        }
    }

    /// Stores what comes in, for ever.
    pub(crate) async fn run(&self, listener: &dyn ResultListener) {
        loop {
            let batch: Vec<Finished> = {
                let mut waiting = self.waiting.lock();
                let take = waiting.len().min(BATCH_ITEMS_MAX / 10);
                waiting.drain(..take).collect()
            };
            if batch.is_empty() {
                self.bell.notified().await;
                continue;
            }
            let count = batch.len();
            self.store_batch(batch, listener).await;
            *self.open.lock() -= count;
            self.stored.notify_waiters();
        }
    }

    async fn store_batch(&self, mut batch: Vec<Finished>, listener: &dyn ResultListener) {
        batch.retain(|finished| match &finished.kept {
            Kept::Already(outcome) => {
                tell(listener, finished, outcome);
                false
            }
            Kept::NotYet | Kept::Unknown => true,
        });
        if batch.is_empty() {
            return;
        }
        let results: Vec<TaskResult> = batch.iter().map(|finished| self.result(finished)).collect();
        let mut wait_ms = RETRY_MS_FIRST;
        loop {
            match self.port.finish_tasks(results.clone(), None).await {
                Ok(outcomes) => {
                    for (finished, outcome) in batch.iter().zip(outcomes) {
                        tell(listener, finished, &outcome);
                    }
                    return;
                }
                Err(_) if planted(Bug::ResultDroppedOnError) => return,
                Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                    debug!(%error, wait_ms, "results are stored again");
                    let wait = self.runtime.jittered(Duration::from_millis(wait_ms));
                    self.runtime.sleep(wait).await;
                    wait_ms = (wait_ms * 2).min(RETRY_MS_MAX);
                }
                Err(error) => {
                    // The store will never take them as they are. Their leases run out and the tasks are tried again.
                    error!(%error, results = batch.len(), "results were refused");
                    return;
                }
            }
        }
    }

    fn result(&self, finished: &Finished) -> TaskResult {
        TaskResult {
            lease: finished.task.lease.clone(),
            outcome: finished.outcome.clone(),
            jitter: self.runtime.fraction(),
            step_logs: finished.step_logs.clone(),
        }
    }
}

fn tell(listener: &dyn ResultListener, finished: &Finished, outcome: &FinishOutcome) {
    let task = &finished.task;
    match outcome {
        FinishOutcome::Recorded { line_moved, .. } => listener.recorded(task, *line_moved),
        FinishOutcome::Retrying { visible_at } => listener.retrying(task, *visible_at),
        FinishOutcome::Parked => {}
        // The commit was carried out after all, perhaps, and the run has its fact.
        FinishOutcome::LeaseLost if finished.kept == Kept::Unknown => listener.recorded(task, true),
        FinishOutcome::LeaseLost => {
            debug!(task_id = %task.lease.task_id, "the result came too late");
        }
    }
}
