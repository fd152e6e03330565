//! Slots: how many activities may run at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of a worker.
#[derive(Clone)]
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    max: usize,
}

/// The right to run one activity. Held until its result is stored, then free by being dropped.
pub(crate) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
}

impl Slot {
    const fn of(permit: OwnedSemaphorePermit) -> Self {
        Self {
            permit: Some(permit),
        }
    }

    /// Free before it is dropped: only by mistake.
    pub(crate) fn free(&mut self) {
        self.permit = None;
    }
}

impl Slots {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(max)),
            max,
        }
    }

    /// A slot, if one is free.
    pub(crate) fn try_take(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Slot::of(permit))
    }

    /// Waits for a slot. None: the worker takes no more.
    pub(crate) async fn take(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(Slot::of(permit))
    }

    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn used(&self) -> usize {
        self.max.saturating_sub(self.free())
    }

    /// No slot is given out any more.
    pub(crate) fn close(&self) {
        self.permits.close();
    }
}
