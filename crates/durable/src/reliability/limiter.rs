//! A rate limiter whose state is in the store.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Granted, RateLimitConfig, RateLimiter};
use futures_util::future::try_join;

use super::kept::{CONFLICTS_MAX, Kept};
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};

/// A rate limiter that all processes on a store share.
///
/// Its row is listed with the breakers, under `limit:` and the limiter's key. It goes by the store's clock, so that processes whose own
/// clocks disagree, or jump, keep to the rate together.
pub struct DistributedRateLimiter {
    store: Arc<dyn WorkflowEventStore>,
    key: String,
    config: RateLimitConfig,
}

impl DistributedRateLimiter {
    /// The limiter of a key, such as `activity:charge` or `external:openai`.
    #[must_use]
    pub fn new(store: Arc<dyn WorkflowEventStore>, key: &str, config: RateLimitConfig) -> Self {
        Self {
            store,
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
            let read = Kept::<RateLimiter>::read(&*self.store, &self.key);
            let (mut kept, now) = try_join(read, self.store.clock(None)).await?;
            let before = kept.machine;
            let answer = kept.machine.admit(&self.config, wanted, now);
            // What changes nothing is not written. A refusal does where the store's clock went back: unwritten, the limiter would grant
            // nothing until time has caught up.
            if kept.machine == before || kept.save(&*self.store).await? {
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
