//! What breakers and limiters keep in the store.

use durable_core::{CircuitState, Payload, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::persistence::model::BreakerRecord;
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};

/// How often a compare-and-set that others were faster than is tried again: each time one of them got on.
pub(super) const CONFLICTS_MAX: usize = 16;

/// A state machine and the record it was read from.
pub(super) struct Kept<M> {
    pub(super) record: BreakerRecord,
    pub(super) machine: M,
}

impl<M: Serialize + DeserializeOwned + Default> Kept<M> {
    /// Reads what is kept under a key; a new one where there is nothing.
    pub(super) async fn read(store: &dyn WorkflowEventStore, key: &str) -> StoreResult<Self> {
        let found = store.get_breaker(key).await?;
        // The memory store never waits: without this, two that ask at once would never meet between reading and saving.
        #[cfg(test)]
        tokio::task::yield_now().await;
        let Some(record) = found else {
            return Ok(Self {
                record: unwritten(key),
                machine: M::default(),
            });
        };
        let machine = record.data.to_value().map_err(|error| {
            StoreError::corrupt(format!("breaker or limiter {key} cannot be read"), error)
        })?;
        Ok(Self { record, machine })
    }

    /// Writes it back. False: somebody else wrote since it was read.
    pub(super) async fn save(self, store: &dyn WorkflowEventStore) -> StoreResult<bool> {
        let Self {
            mut record,
            machine,
        } = self;
        record.data = Payload::from_value(&machine)?;
        store.save_breaker(record, None).await
    }
}

/// Version 0: it must not exist when it is saved.
fn unwritten(key: &str) -> BreakerRecord {
    BreakerRecord {
        key: key.to_owned(),
        state: CircuitState::Closed,
        failure_count: 0,
        success_count: 0,
        opened_at: None,
        data: Payload::ABSENT,
        version: 0,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}
