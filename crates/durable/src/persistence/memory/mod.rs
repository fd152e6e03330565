//! The store in memory: the reference for the others, and an embedded store in its own right.
//!
//! One lock around plain maps of the model's records. Every intent is a synchronous function on
//! [`State`] that is told the instant: it checks everything first and changes something only then,
//! which makes it all or nothing. The two traits ([`port`], [`store`]) check the edge, take the
//! lock, resolve the instant and call it.
//!
//! Architecture invariant: only `state.rs` changes what an index is made of, so that no intent can
//! forget to keep one; the fields it guards are private to it.

mod accept;
mod admin;
mod audit;
mod dead_letter;
mod due;
mod end;
mod fact;
mod index;
mod ledger;
mod message;
mod outbox;
mod owner;
mod port;
mod queue;
mod retention;
mod rollup;
mod schedule;
mod start;
mod state;
mod store;
mod task;
mod turn;
mod worker;

use std::fmt;
use std::sync::Arc;

use durable_core::Timestamp;
use parking_lot::Mutex;

use self::state::State;
use super::Shards;
use super::audit::Noting;
use super::clock::StoreClock;
use super::trays::Trays;

/// A store that keeps everything in memory and forgets it when it is dropped.
pub struct MemoryStore {
    shards: Shards,
    // A lock of short sections, never held across an await: no async mutex is needed.
    inner: Arc<Mutex<(StoreClock, State)>>,
    listeners: Arc<Trays>,
    /// Whose changes leave audit rows.
    noting: Option<Arc<Noting>>,
}

impl MemoryStore {
    /// An empty store with one shard.
    #[must_use]
    pub fn new() -> Self {
        Self::with_shards(Shards::default())
    }

    /// An empty store that hands things out shard by shard, as a database with as many shards does.
    #[must_use]
    pub fn with_shards(shards: Shards) -> Self {
        Self::of(shards, StoreClock::default())
    }

    /// An empty store with one shard that tells the time by another clock than the system's.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn crate::runtime::Clock>) -> Self {
        Self::of(Shards::default(), StoreClock::of(clock))
    }

    fn of(shards: Shards, clock: StoreClock) -> Self {
        Self {
            shards,
            inner: Arc::new(Mutex::new((clock, State::new(shards)))),
            listeners: Arc::default(),
            noting: None,
        }
    }

    /// Stops the clock at an instant, for tests that need to know the time.
    #[cfg(test)]
    pub(crate) fn set_clock(&self, now: Timestamp) {
        struct Stopped(Timestamp);
        impl crate::runtime::Clock for Stopped {
            fn now(&self) -> Timestamp {
                self.0
            }
        }
        self.inner.lock().0 = StoreClock::of(Arc::new(Stopped(now)));
    }

    /// Reads at one instant.
    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inner.lock().1)
    }

    /// Writes without needing to know the time.
    fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        write(&mut self.inner.lock().1)
    }

    /// Writes at the given instant, or now.
    fn write_at<T>(
        &self,
        now: Option<Timestamp>,
        write: impl FnOnce(&mut State, Timestamp) -> T,
    ) -> T {
        let (clock, state) = &mut *self.inner.lock();
        let now = clock.resolve(now);
        write(state, now)
    }

    /// Writes one item after the other, all at the same instant; one answer for each.
    fn write_each<I, T>(
        &self,
        items: Vec<I>,
        now: Option<Timestamp>,
        mut write: impl FnMut(&mut State, I, Timestamp) -> T,
    ) -> Vec<T> {
        self.write_at(now, |state, now| {
            items
                .into_iter()
                .map(|item| write(state, item, now))
                .collect()
        })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}
