//! Slots: how many activities may run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The slots of a worker.
#[derive(Clone)]
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    max: usize,
    freed: Arc<Freed>,
    /// Bytes of payloads that the activities of all slots hold.
    bytes: Arc<AtomicUsize>,
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
    /// The total of all slots, and this slot's part of it.
    bytes: (Arc<AtomicUsize>, usize),
}

impl Drop for Slot {
    fn drop(&mut self) {
        // First free, then told.
        self.holds(0);
        drop(self.permit.take());
        self.freed.one.notify_one();
        self.freed.all.notify_waiters();
    }
}

impl Slot {
    /// Bytes of payloads that its activity holds from now on, instead of those before.
    pub(crate) fn holds(&mut self, bytes: usize) {
        let (total, held) = &mut self.bytes;
        // Added first, so that the total never falls below what is held.
        total.fetch_add(bytes, Ordering::SeqCst);
        total.fetch_sub(*held, Ordering::SeqCst);
        *held = bytes;
    }

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
            bytes: Arc::default(),
        }
    }

    fn slot(&self, permit: OwnedSemaphorePermit) -> Slot {
        Slot {
            permit: Some(permit),
            freed: Arc::clone(&self.freed),
            bytes: (Arc::clone(&self.bytes), 0),
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

    /// Bytes of payloads that running activities hold, those of unstored results included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn used(&self) -> usize {
        self.max.saturating_sub(self.free())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_slots_in_use() {
        let slots = Slots::new(3);
        let (mut one, mut two) = (slots.try_take().unwrap(), slots.try_take().unwrap());
        one.holds(5);
        two.holds(7);
        two.holds(70);
        assert_eq!(slots.bytes(), 75);
        drop(one);
        assert_eq!(slots.bytes(), 70);
        two.holds(0);
        assert_eq!(slots.bytes(), 0);
    }

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
