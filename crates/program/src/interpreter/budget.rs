//! How much a program does without waiting: one that only spins would hold up its worker.

use std::sync::atomic::{AtomicU32, Ordering};

use everruns_durable::core::Failure;

use super::exit::{Exit, raised};

/// What may be spent between two waits: a million plain steps, ten thousand that are recorded, or 256 MB of copied values.
const BETWEEN_WAITS: u32 = 1_000_000;
/// A plain step.
pub(super) const STEP: u32 = 1;
/// A step that leaves an event: a turn takes so many (`TURN_ITEMS_MAX`).
pub(super) const RECORDED: u32 = 100;

/// What values cost.
pub(super) fn of_bytes(bytes: usize) -> u32 {
    u32::try_from(bytes / 256).unwrap_or(u32::MAX)
}

/// What was spent since the program last waited.
#[derive(Debug, Default)]
pub(super) struct Budget {
    spent: AtomicU32,
}

impl Budget {
    /// The program waits, or is allowed to clean up.
    pub(super) fn renew(&self) {
        self.spent.store(0, Ordering::Relaxed);
    }

    pub(super) fn spend(&self, cost: u32) -> Result<(), Exit> {
        let spent = self.spent.load(Ordering::Relaxed).saturating_add(cost);
        self.spent.store(spent, Ordering::Relaxed);
        if spent > BETWEEN_WAITS {
            let message = "the program goes on and on without waiting for anything: let it sleep, wait or call an activity in between, or continue as new";
            let failure = Failure::new(raised::STEP_LIMIT, message).non_retryable();
            return Err(Exit::Overrun(failure));
        }
        Ok(())
    }
}
