//! Transactions of activities: what they write is their own, their results pass through the codec.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::CodecStore;
use crate::persistence::model::{FinishOutcome, TaskResult};
use crate::persistence::{OpenTransaction, StoreResult, Transactions};

struct Encoding {
    transactions: Arc<dyn Transactions>,
    store: CodecStore,
}

impl CodecStore {
    /// Those of the store below, if it has any.
    pub(super) fn encoding_transactions(&self) -> Option<Arc<dyn Transactions>> {
        let transactions = self.inner.transactions()?;
        let store = self.clone();
        Some(Arc::new(Encoding {
            transactions,
            store,
        }))
    }
}

#[async_trait]
impl Transactions for Encoding {
    async fn begin(&self, patience: Duration) -> StoreResult<OpenTransaction> {
        self.transactions.begin(patience).await
    }

    async fn finish(
        &self,
        transaction: OpenTransaction,
        result: TaskResult,
    ) -> StoreResult<FinishOutcome> {
        let result = self.store.encoded(result).await?;
        self.transactions.finish(transaction, result).await
    }
}
