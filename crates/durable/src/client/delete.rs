//! Deleting one run for good, before its time of keeping is over.

use std::time::Duration;

use uuid::Uuid;

use super::Client;
use crate::error::{Kind, Result};
use crate::persistence::StoreError;
use crate::persistence::model::DeleteOutcome;

/// How far the deletion of a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// None of its rows is left.
    Complete,
    /// The run is gone for every call, but rows of it are left in the database; they are deleted in
    /// the background.
    UnderWay,
}

impl Client {
    /// Deletes a run that has ended with all that belongs to it: its history, payloads, signals,
    /// updates, attributes, log lines, outbox events, dead letters and keys. What stays is its id,
    /// which is refused to new runs for a while, counts in the totals, and audit rows. Its result
    /// as it stands in a parent's history stays with the parent.
    ///
    /// A run with a very long history is deleted in slices; the call waits for at most `within` and
    /// then answers [`Deletion::UnderWay`].
    ///
    /// # Errors
    /// [`Error::is_not_found`](crate::Error::is_not_found), also if it was deleted before; [`Error::is_run_open`](crate::Error::is_run_open);
    /// [`Error::is_conflict`](crate::Error::is_conflict) while messages or outbox events of it are not delivered; the store's.
    pub async fn delete_run(&self, run_id: Uuid, within: Duration) -> Result<Deletion> {
        let runtime = &self.shared.runtime;
        let begun = runtime.now();
        let mut doubtful = false;
        loop {
            let (outcome, doubt) = self
                .retried_with_doubt(|| self.store().delete_run(run_id, None))
                .await?;
            doubtful |= doubt == super::Doubt::Some;
            match outcome {
                DeleteOutcome::Deleted => return Ok(Deletion::Complete),
                // By a try whose answer was lost.
                DeleteOutcome::AlreadyDeleted if doubtful => return Ok(Deletion::Complete),
                DeleteOutcome::AlreadyDeleted => return Err(Kind::Deleted(run_id).into()),
                DeleteOutcome::NotFound => return Err(Kind::NotFound(run_id).into()),
                DeleteOutcome::Open(status) => return Err(Kind::Open { run_id, status }.into()),
                DeleteOutcome::Undelivered => {
                    let message = format!(
                        "messages or outbox events of run {run_id} are not delivered yet; delete it when they are"
                    );
                    return Err(StoreError::Conflict(message).into());
                }
                DeleteOutcome::Deleting => {
                    // Retention may finish it meanwhile.
                    doubtful = true;
                    let passed = runtime.now().duration_since(begun);
                    if passed.unsigned_abs() >= within {
                        return Ok(Deletion::UnderWay);
                    }
                }
            }
        }
    }
}
