//! The node's own clock.

use durable_core::Timestamp;

/// Tells a node's own idea of the time. Nodes may disagree; nothing that is stored depends on it.
pub trait Clock: Send + Sync + 'static {
    /// The time here.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
