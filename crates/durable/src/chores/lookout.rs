//! Looks, now and then and at one glance, for work that nobody rang for.
//!
//! The other loops sleep until they are rung. A ring may be lost (a process died before it rang, a notification did not arrive), so
//! this one asks the store what waits, by one statement a shard, and rings. It is all that an idle process asks of its store besides
//! its signs of life. Of a database with many shards it asks less often: [`SHARDS_PER_POLL`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Chore;
use crate::engine::Node;
use crate::persistence::{Bug, StoreResult, planted};

/// A glance is a statement a shard (each statement names one: the rule of a distributed database), and an idle process sends no more than
/// one statement a second in all. So with more shards than this the pause grows with their number, 2 s a shard by default, and a ring that
/// is lost costs as much.
const SHARDS_PER_POLL: u32 = 5;

/// The lookout.
pub(crate) struct Lookout {
    node: Arc<Node>,
}

impl Lookout {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

impl Lookout {
    /// Until the next glance: never longer than was asked for, and not the same for all processes.
    fn pause(&self) -> Duration {
        let node = &self.node;
        let poll = node.settings.chores.fallback_poll;
        let shards = u32::from(node.store.shards().count());
        let longest = poll * shards.max(SHARDS_PER_POLL) / SHARDS_PER_POLL;
        longest.mul_f64(0.8 + 0.2 * node.runtime.fraction())
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
            node.hub.claimable_here();
        }
        if glance.turns && !planted(Bug::LostRingNotNoticed) {
            node.hub.turns.notify_one();
        }
        if !node.hub.does_housekeeping() {
            return Ok(self.pause());
        }
        if glance.messages {
            node.hub.messages.notify_one();
        }
        if glance.next_tick.is_some() {
            node.hub.schedules.ring();
        }
        let fallback = self.pause();
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

    async fn rung(&self) {
        self.node.hub.lookout.notified().await;
    }
}
