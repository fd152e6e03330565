//! A rate limiter whose state is in the store.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Granted, RateLimitConfig, RateLimiter};

use super::kept::{CONFLICTS_MAX, Kept};
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};
use crate::runtime::Runtime;

/// A rate limiter that all processes on a store share.
///
/// Its row is listed with the breakers, under `limit:` and the limiter's key. Processes whose clocks disagree keep to the rate
/// together: the one that is behind waits for the one that is ahead.
pub struct DistributedRateLimiter {
    store: Arc<dyn WorkflowEventStore>,
    runtime: Runtime,
    key: String,
    config: RateLimitConfig,
}

impl DistributedRateLimiter {
    /// The limiter of a key, such as `activity:charge` or `external:openai`.
    #[must_use]
    pub fn new(
        store: Arc<dyn WorkflowEventStore>,
        runtime: Runtime,
        key: &str,
        config: RateLimitConfig,
    ) -> Self {
        Self {
            store,
            runtime,
            key: format!("limit:{key}"),
            config,
        }
    }

    /// Key of its row.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Grants as many of the calls wanted as may go through now.
    ///
    /// # Errors
    /// The store's; [`StoreError::Conflict`] where others were faster again and again. Nothing may go through then.
    pub async fn admit(&self, wanted: u32) -> StoreResult<Granted> {
        for _ in 0..CONFLICTS_MAX {
            let mut kept: Kept<RateLimiter> = Kept::read(&*self.store, &self.key).await?;
            let answer = kept.machine.admit(&self.config, wanted, self.runtime.now());
            // What grants nothing is not written: it would only let a clock that is behind pull the others back.
            if answer.granted == 0 || kept.save(&*self.store).await? {
                return Ok(answer);
            }
        }
        Err(StoreError::Conflict(format!(
            "limiter {} is asked by too many at once",
            self.key
        )))
    }

    /// Time between two permits at the full rate.
    pub(super) fn interval(&self) -> Duration {
        self.config.period / self.config.permits.max(1)
    }
}
