//! The node's own clock.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use durable_core::Timestamp;

/// Where the machine's monotonic time begins for this process.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Tells a node's own idea of the time. Nodes may disagree; nothing that is stored depends on it.
pub trait Clock: Send + Sync + 'static {
    /// The time here.
    fn now(&self) -> Timestamp;

    /// Time since a fixed instant, which setting the clock does not change.
    fn monotonic(&self) -> Duration {
        BEGAN.elapsed()
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
