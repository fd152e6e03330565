//! Looks, now and then and at one glance, for work that nobody rang for.
//!
//! The other loops sleep until they are rung. A ring may be lost (a process died before it rang, a notification did not arrive), so
//! this one asks the store what waits, by one statement a shard, and rings. It is all that an idle process asks of its store besides
//! its signs of life.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;

/// The lookout.
pub(crate) struct Lookout {
    node: Arc<Node>,
}

impl Lookout {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

#[async_trait]
impl Chore for Lookout {
    fn name(&self) -> &'static str {
        "lookout"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let glance = node.store.glance(None).await?;
        node.set_clock(glance.at);
        if glance.tasks {
            node.hub.tasks.notify_one();
        }
        if glance.turns {
            node.hub.turns.notify_one();
        }
        if glance.messages {
            node.hub.messages.notify_one();
        }
        if glance.next_tick.is_some() {
            node.hub.schedules.ring();
        }
        let fallback = node.runtime.jittered(node.settings.chores.fallback_poll);
        let Some(due) = glance.next_due else {
            return Ok(fallback);
        };
        let wait = node.until(due);
        if wait.is_zero() {
            // A clock, a timer or a lease: whoever it concerns finds out by one look.
            node.hub.due.ring();
            node.hub.leases.notify_one();
            return Ok(fallback.min(node.settings.chores.reap_interval));
        }
        node.hub.due.due_in(node.runtime.instant(), wait);
        // Leases run out between two looks when a worker dies: be there.
        Ok(fallback.min(wait.max(node.settings.worker.poll_interval)))
    }
}
