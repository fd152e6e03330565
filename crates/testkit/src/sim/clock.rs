//! Node clocks: virtual time with an error that jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use durable_core::Timestamp;
use everruns_durable::runtime::Clock;
use jiff::SignedDuration;

use super::world::World;

/// A node's own clock: virtual time, wrong by so many milliseconds. Survives the node, as a machine's clock does.
pub(super) struct SimClock {
    world: Arc<World>,
    skew_ms: AtomicI64,
}

impl SimClock {
    pub(super) const fn new(world: Arc<World>, skew_ms: i64) -> Self {
        Self {
            world,
            skew_ms: AtomicI64::new(skew_ms),
        }
    }

    /// From now on it is wrong by this much.
    pub(super) fn jump(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let skew = SignedDuration::from_millis(self.skew_ms.load(Ordering::SeqCst));
        self.world.now() + skew
    }
}
