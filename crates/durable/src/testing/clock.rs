//! Virtual time.

use durable_core::Timestamp;
use jiff::SignedDuration;
use tokio::time::Instant;

use crate::runtime::Clock;

/// Shows the paused time of the tokio runtime that it was made in; to be read there only.
pub(super) struct VirtualClock {
    beginning: Timestamp,
    began: Instant,
}

impl VirtualClock {
    /// It is this late now.
    pub(super) fn starting_at(beginning: Timestamp) -> Self {
        Self {
            beginning,
            began: Instant::now(),
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        self.beginning
            .saturating_add(elapsed)
            .unwrap_or(Timestamp::MAX)
    }
}
