//! Transactions of activities: begun on a connection of their own, ended with the task's result.

use std::ops::Deref;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use futures_util::FutureExt as _;
use tokio_postgres::Client;

use super::slots::Slots;
use super::sqlstate::{pool_error, store_error};
use super::tx::{PgTx, Words};
use super::wire::{Line, Shared, Wire};
use crate::persistence::model::{FinishOutcome, TaskResult};
use crate::persistence::sql::intents::finish_tasks::FinishTasks;
use crate::persistence::sql::tx::Intent as _;
use crate::persistence::{OpenTransaction, Shards, StoreError, StoreResult, Transactions, check};

/// The transaction of an activity, in the engine's own database: what is written here and the activity's result commit as one.
///
/// It is a connection of the driver's with the transaction open: query and execute as usual. Begin and end nothing yourself: the
/// library commits when the activity has answered, and rolls back when it failed, ran out of time or lost its lease.
pub struct ActivityTransaction {
    client: Object,
    /// Committed, or rolled back with the result: there is nothing left to end.
    ended: bool,
}

impl Deref for ActivityTransaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl std::fmt::Debug for ActivityTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActivityTransaction")
            .finish_non_exhaustive()
    }
}

impl Drop for ActivityTransaction {
    fn drop(&mut self) {
        if !self.ended {
            // Sent, not waited for: whoever gets the connection next speaks after it.
            let _ = self.client.batch_execute("ROLLBACK").now_or_never();
        }
    }
}

/// What it takes to begin and to end them.
pub(super) struct PgTransactions {
    pub(super) pool: Pool,
    pub(super) shared: Arc<Shared>,
    pub(super) shards: Shards,
    pub(super) slots: Arc<Slots>,
}

#[async_trait]
impl Transactions for PgTransactions {
    async fn begin(&self, patience: Duration) -> StoreResult<OpenTransaction> {
        let client = self.pool.get().await.map_err(pool_error)?;
        let patience_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = {patience_ms}"
        );
        // Made before it is begun: whoever stops waiting here leaves nothing open.
        let transaction = ActivityTransaction {
            client,
            ended: false,
        };
        transaction
            .batch_execute(&begin)
            .await
            .map_err(store_error)?;
        Ok(Arc::new(transaction))
    }

    async fn finish(
        &self,
        transaction: OpenTransaction,
        result: TaskResult,
    ) -> StoreResult<FinishOutcome> {
        check::results(slice::from_ref(&result))?;
        let transaction: Arc<ActivityTransaction> = transaction
            .downcast()
            .map_err(|_| StoreError::Invalid("the transaction is another store's".to_owned()))?;
        let Some(mut transaction) = Arc::into_inner(transaction) else {
            return Err(StoreError::Invalid(
                "the activity answered while its transaction was still in use; await all that it does in it, and let go of it"
                    .to_owned(),
            ));
        };
        let outcome = self.store(&transaction, result).await?;
        transaction.ended = true;
        Ok(outcome)
    }
}

impl PgTransactions {
    /// Stores the result and commits; rolls back where the lease is lost.
    async fn store(&self, client: &Client, result: TaskResult) -> StoreResult<FinishOutcome> {
        let wire = Wire::new(Line::Lent(client), Arc::clone(&self.shared));
        let mut tx = PgTx::saying(Words::last_part(), wire, self.shards, None);
        let intent = FinishTasks {
            results: vec![result],
            now: None,
        };
        let (mut outcomes, changes) = intent.plan(&mut tx).await?;
        let outcome = outcomes.pop().expect("one result has one outcome");
        if outcome != FinishOutcome::LeaseLost {
            tx.commit(&changes, &self.slots).await?;
        }
        Ok(outcome)
    }
}
