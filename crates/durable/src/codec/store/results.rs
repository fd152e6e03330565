//! Tasks and their results, one by one: what is wrong with one is not the others' trouble.

use std::time::Duration;

use durable_core::{Failure, error_types};
use futures_util::future::join_all;

use super::CodecStore;
use crate::persistence::model::{ClaimedTask, TaskOutcome, TaskRelease, TaskResult};
use crate::persistence::{StoreError, StoreResult, check};

/// How long tasks wait when what the codec needs cannot be reached.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);

impl CodecStore {
    /// Claimed tasks, decoded. Where that cannot be done for now, they are put back: otherwise each lease that runs out would
    /// count as a delivery.
    pub(super) async fn decoded_tasks(
        &self,
        tasks: Vec<ClaimedTask>,
    ) -> StoreResult<Vec<ClaimedTask>> {
        let leases: Vec<_> = tasks.iter().map(|task| task.lease.clone()).collect();
        let decoded = self.decoded_each(tasks).await;
        if decoded.is_err() {
            let park = |lease| TaskRelease::parked(lease, UNREACHABLE_PAUSE);
            let releases = leases.into_iter().map(park).collect();
            self.inner.release_tasks(releases, None).await?;
        }
        decoded
    }

    /// Results, encoded.
    pub(super) async fn encoded_results(
        &self,
        results: Vec<TaskResult>,
    ) -> StoreResult<Vec<TaskResult>> {
        let encoded = results
            .into_iter()
            .map(|result| self.encoded_result(result));
        join_all(encoded).await.into_iter().collect()
    }

    /// A result that can never be stored would be computed for ever: the run sees that instead.
    async fn encoded_result(&self, result: TaskResult) -> StoreResult<TaskResult> {
        let (lease, jitter) = (result.lease.clone(), result.jitter);
        let encoded = self.encoded(result).await;
        let checked = encoded.and_then(|result| {
            check::results(std::slice::from_ref(&result))?;
            Ok(result)
        });
        match checked {
            Err(error) if is_about_the_payload(&error) => {
                let message = format!("the result cannot be stored: {error}");
                let failure = Failure::new(error_types::INVALID_OUTPUT, message).non_retryable();
                Ok(TaskResult {
                    lease,
                    outcome: TaskOutcome::Failed { failure },
                    jitter,
                    step_logs: Vec::new(),
                })
            }
            checked => checked,
        }
    }
}

/// Not what a retry mends, and not what would be wrong without the payload.
fn is_about_the_payload(error: &StoreError) -> bool {
    let about_it = matches!(error, StoreError::Codec { .. } | StoreError::Limit { .. });
    about_it && !error.is_retryable()
}
