//! Slots of the totals: a number per committer, so that two never wait for one row.

use parking_lot::Mutex;
use uuid::Uuid;

/// Slots of one process; more committers at once than this share.
const SLOTS_PER_PROCESS: usize = 64;
/// Ranges of slots among which processes choose by chance; two in one range may wait for each other, no more.
const RANGES: u8 = 16;
/// First of the slots for transactions that somebody else ends, past all ranges.
const APART: i32 = 1024;

/// The slots that are free. The smallest is given out first, so that few are ever used and readers sum little.
#[derive(Debug)]
pub(super) struct Slots {
    base: i32,
    taken: Mutex<[bool; SLOTS_PER_PROCESS]>,
}

/// A slot for a transaction that somebody else ends, who knows when: by chance, and none that a committer of the store may wait for.
pub(super) fn apart() -> i32 {
    APART + i32::from(Uuid::now_v7().as_bytes()[15])
}

/// A slot, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    index: usize,
}

impl Slots {
    pub(super) fn new() -> Self {
        let range = Uuid::now_v7().as_bytes()[15] % RANGES;
        Self {
            base: i32::from(range) * 64,
            taken: Mutex::new([false; SLOTS_PER_PROCESS]),
        }
    }

    /// A slot that nobody in this process has; the last one if all are taken.
    pub(super) fn take(&self) -> Slot<'_> {
        let mut taken = self.taken.lock();
        let free = taken.iter().position(|taken| !taken);
        let index = free.unwrap_or(SLOTS_PER_PROCESS - 1);
        taken[index] = true;
        Slot { slots: self, index }
    }
}

impl Slot<'_> {
    /// Its number.
    pub(super) fn number(&self) -> i32 {
        self.slots.base + i32::try_from(self.index).expect("few slots")
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.taken.lock()[self.index] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_at_once_have_two_slots_and_the_smallest_free_one_is_used_again() {
        let slots = Slots::new();
        let first = slots.take();
        let second = slots.take();
        assert_ne!(first.number(), second.number());
        let number = first.number();
        drop(first);
        assert_eq!(slots.take().number(), number);
    }
}
