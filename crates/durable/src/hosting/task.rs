//! Tasks for workers in other processes: claimed, answered and given back as those of this process are.

use std::time::Duration;

use durable_core::Timestamp;
use tracing::debug;

use super::Hosting;
use crate::engine::Node;
use crate::persistence::model::{
    ClaimTasks, ClaimedTask, FinishOutcome, TaskLease, TaskOutcome, TaskRelease, TaskResult,
};
use crate::persistence::{StoreError, StoreResult};
use crate::worker::{admitted, outcome};

/// First wait before a result is stored again after the store could not be reached; doubles up to the largest.
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// Largest such wait.
const RETRY_MAX: Duration = Duration::from_secs(2);

impl Hosting {
    /// Claims tasks for a worker that keeps its leases by itself.
    ///
    /// # Errors
    /// The store's; [`StoreError::Unavailable`] where the engine has stopped.
    pub async fn claim_tasks(
        &self,
        worker_id: &str,
        activity_types: Vec<String>,
        max: usize,
        lease: Duration,
    ) -> StoreResult<Vec<ClaimedTask>> {
        let turner = self.turner().ok_or_else(stopped)?;
        turner
            .node
            .claim_for(worker_id, activity_types, max, lease)
            .await
    }

    /// Stores how tasks ended, one outcome for each, in order.
    ///
    /// # Errors
    /// The store's, for what it refuses; [`StoreError::Unavailable`] where the engine has stopped.
    pub async fn finish_tasks(
        &self,
        ended: Vec<(TaskLease, TaskOutcome)>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        let turner = self.turner().ok_or_else(stopped)?;
        turner.node.finish_for(ended).await
    }

    /// Gives tasks back unrun; false for a lease that was lost before.
    ///
    /// # Errors
    /// The store's; [`StoreError::Unavailable`] where the engine has stopped.
    pub async fn release_tasks(&self, leases: Vec<TaskLease>) -> StoreResult<Vec<bool>> {
        let turner = self.turner().ok_or_else(stopped)?;
        turner.node.release_for(leases).await
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable {
        message: "the engine has stopped".to_owned(),
        source: None,
    }
}

impl Node {
    pub(super) async fn claim_for(
        &self,
        worker_id: &str,
        activity_types: Vec<String>,
        max: usize,
        lease: Duration,
    ) -> StoreResult<Vec<ClaimedTask>> {
        let claim = ClaimTasks {
            worker_id: worker_id.to_owned(),
            activity_types,
            max,
            lease,
            token: self.runtime.new_id(),
            first_shard: self.first_shard(),
            now: None,
        };
        let tasks = self.store.claim_tasks(claim).await?;
        Ok(admitted(&*self.store, &self.pool, &self.hub, tasks).await)
    }

    /// Stores how tasks ended until the store says what became of it, and rings for whoever it concerns.
    pub(super) async fn finish_for(
        &self,
        ended: Vec<(TaskLease, TaskOutcome)>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        let results: Vec<TaskResult> = ended.into_iter().map(|ended| self.result(ended)).collect();
        let mut wait = RETRY_FIRST;
        let outcomes = loop {
            match self.store.finish_tasks(results.clone(), None).await {
                Ok(outcomes) => break outcomes,
                Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                    debug!(%error, "results are stored again");
                    self.runtime.sleep(self.runtime.jittered(wait)).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
                Err(error) => return Err(error),
            }
        };
        let mut moved = false;
        for (result, outcome) in results.iter().zip(&outcomes) {
            match outcome {
                FinishOutcome::Recorded { line_moved, .. } => {
                    moved |= line_moved;
                    self.hub.ready_runs([result.lease.run_id]);
                }
                FinishOutcome::Retrying { visible_at } => self.retried_at(*visible_at),
                FinishOutcome::Parked | FinishOutcome::LeaseLost => {}
            }
        }
        if moved {
            self.queue_has_moved().await;
        }
        Ok(outcomes)
    }

    /// Tasks may be claimed whose types only the store knows.
    async fn queue_has_moved(&self) {
        match self.store.waiting_types().await {
            Ok(waiting) => self.hub.claimable(waiting.tasks.iter().map(String::as_str)),
            // What was stored is stored; whoever looks here looks.
            Err(_) => self.hub.claimable_here(),
        }
    }

    fn result(&self, (lease, outcome): (TaskLease, TaskOutcome)) -> TaskResult {
        let outcome = match outcome {
            TaskOutcome::Completed { result } => {
                outcome::completed(result, self.store.encodes_payloads())
            }
            TaskOutcome::Failed { failure } => outcome::failed(failure),
            TaskOutcome::Cancelled { reason } => outcome::cancelled(reason),
        };
        TaskResult {
            lease,
            outcome,
            jitter: self.runtime.fraction(),
            step_logs: Vec::new(),
        }
    }

    fn retried_at(&self, visible_at: Timestamp) {
        let wait = self.until(visible_at);
        self.hub.due.due_in(self.runtime.instant(), wait);
    }

    pub(super) async fn release_for(&self, leases: Vec<TaskLease>) -> StoreResult<Vec<bool>> {
        let releases = leases.into_iter().map(TaskRelease::now).collect();
        let released = self.store.release_tasks(releases, None).await?;
        if released.contains(&true) {
            self.queue_has_moved().await;
        }
        Ok(released)
    }
}
