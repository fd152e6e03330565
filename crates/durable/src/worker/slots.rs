//! Slots: how many activities may run at once.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The slots of a worker.
#[derive(Clone)]
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    max: usize,
    freed: Arc<Freed>,
}

/// Tells of slots that have become free.
#[derive(Default)]
struct Freed {
    /// Rung for one who waits, the claims.
    one: Notify,
    /// Rung for all who wait now, drains.
    all: Notify,
}

/// The right to run one activity. Held until its result is stored, then free by being dropped.
pub(crate) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Freed>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // First free, then told.
        drop(self.permit.take());
        self.freed.one.notify_one();
        self.freed.all.notify_waiters();
    }
}

impl Slot {
    /// Free before it is dropped: only by mistake.
    pub(crate) fn free(&mut self) {
        drop(self.permit.take());
    }
}

impl Slots {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(max)),
            max,
            freed: Arc::default(),
        }
    }

    fn slot(&self, permit: OwnedSemaphorePermit) -> Slot {
        Slot {
            permit: Some(permit),
            freed: Arc::clone(&self.freed),
        }
    }

    /// Ends when a slot has become free since it last ended.
    pub(crate) async fn freed(&self) {
        self.freed.one.notified().await;
    }

    /// Gives no more slots out, for good.
    pub(crate) fn close(&self) {
        self.permits.close();
    }

    /// Ends when no slot is in use.
    pub(crate) async fn emptied(&self) {
        loop {
            let freed = self.freed.all.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.used() == 0 {
                return;
            }
            freed.await;
        }
    }

    /// A slot, if one is free.
    pub(crate) fn try_take(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.slot(permit))
    }

    /// Waits for a slot. None: the worker takes no more.
    pub(crate) async fn take(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(self.slot(permit))
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closed_slots_are_empty_when_the_last_one_is_given_back() {
        let slots = Slots::new(2);
        let held = slots.try_take().expect("is free");
        slots.close();
        assert!(slots.try_take().is_none());
        assert!(slots.take().await.is_none());
        let emptied = slots.emptied();
        tokio::pin!(emptied);
        assert!(futures_util::poll!(emptied.as_mut()).is_pending());
        drop(held);
        emptied.await;
    }
}
