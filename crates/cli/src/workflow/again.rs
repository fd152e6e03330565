//! A server that goes away while it is waited for, as in a deploy, is asked again.

use std::time::Duration;

use crate::exit::{Exit, Failure, Result};

/// Pause before it is asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// Failures in a row after which it counts as gone.
const FAILURES_MAX: u32 = 20;

/// Counts failures in a row. Whoever was never there is not waited for.
#[derive(Debug, Default)]
pub(super) struct Again {
    seen: bool,
    failures: u32,
}

impl Again {
    /// The server answered.
    pub(super) const fn well(&mut self) {
        self.seen = true;
        self.failures = 0;
    }

    /// Waits a little after a server that was there could not be reached; gives any other failure back.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<()> {
        self.failures += 1;
        if failure.exit() != Exit::Unreachable || !self.seen || self.failures > FAILURES_MAX {
            return Err(failure);
        }
        pause().await;
        Ok(())
    }
}

/// The pause alone: for a server that says that it stops.
pub(super) async fn pause() {
    tokio::time::sleep(PAUSE).await;
}
