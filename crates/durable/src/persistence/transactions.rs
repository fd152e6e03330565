//! Transactions of the store that user code writes in.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreResult;
use super::model::{FinishOutcome, TaskResult};

/// A transaction that is open. What it is, only the store and those who know that store can tell; dropped, it is rolled back.
pub type OpenTransaction = Arc<dyn Any + Send + Sync>;

/// Transactions in which user code writes and in which the result of its task is stored: both, or neither.
#[async_trait]
pub trait Transactions: Send + Sync + 'static {
    /// Begins one. It is given up when nothing has come for `patience`, so that a worker that hangs does not hold its locks for ever.
    async fn begin(&self, patience: Duration) -> StoreResult<OpenTransaction>;

    /// Stores a result, by the rules of [`super::WorkerPort::finish_tasks`], and commits. A lease that was lost: nothing is
    /// committed, not even what user code wrote. So is it where somebody else still has a hand on the transaction.
    ///
    /// Crash: all or nothing. An error means that nothing was committed, unless [`super::StoreError::is_outcome_unknown`] says otherwise.
    async fn finish(
        &self,
        transaction: OpenTransaction,
        result: TaskResult,
    ) -> StoreResult<FinishOutcome>;
}
