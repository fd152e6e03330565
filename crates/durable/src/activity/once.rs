//! Results that are kept under a key, so that what they stand for is not done again.

use std::sync::Arc;

use async_trait::async_trait;
use durable_core::Payload;

use crate::persistence::{StoreResult, WorkflowEventStore};

/// Where results are kept under keys.
#[async_trait]
pub(crate) trait OnceLedger: Send + Sync + 'static {
    /// The result under a key.
    async fn get(&self, key: &str) -> StoreResult<Option<Payload>>;
    /// Keeps a result unless there is one, and answers the one that is kept.
    async fn put(&self, key: &str, result: Payload) -> StoreResult<Payload>;
}

/// The store's own ledger.
pub(crate) struct StoreLedger(pub(crate) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl OnceLedger for StoreLedger {
    async fn get(&self, key: &str) -> StoreResult<Option<Payload>> {
        self.0.get_once(key).await
    }

    async fn put(&self, key: &str, result: Payload) -> StoreResult<Payload> {
        self.0.put_once(key, result, None).await
    }
}
