//! Fires what is due.

use std::sync::Arc;

use crate::persistence::model::{FireDue, Fired};
use crate::persistence::{StoreResult, WorkflowEventStore};
use crate::runtime::Runtime;

/// Ends what took too long: activities by their schedule-to-start, start-to-close, heartbeat and schedule-to-close clocks, runs by their run and
/// execution timeouts; and fires what else is due: timers, and tasks that were delayed or parked.
///
/// Each engine has one, which asks when the next clock it knows of runs out. Any number may ask at once: the store gives each item to one of
/// them, and its clock decides.
pub struct TimeoutManager {
    store: Arc<dyn WorkflowEventStore>,
    runtime: Runtime,
    batch: usize,
}

impl TimeoutManager {
    /// Handles at most `batch` items of each kind at a time.
    #[must_use]
    pub fn new(store: Arc<dyn WorkflowEventStore>, runtime: Runtime, batch: usize) -> Self {
        Self {
            store,
            runtime,
            batch,
        }
    }

    /// Handles what is due now, and answers what that was and when the next item is.
    ///
    /// # Errors
    /// The store's; ask again later.
    pub async fn check_timeouts(&self) -> StoreResult<Fired> {
        self.store
            .fire_due(FireDue {
                max: self.batch,
                first_shard: self.runtime.any_shard(self.store.shards()),
                jitter: self.runtime.fraction(),
                now: None,
            })
            .await
    }
}
