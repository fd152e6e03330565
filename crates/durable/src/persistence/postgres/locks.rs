//! Runs that another transaction keeps locked: a caller's that is still open, a session that hangs.
//!
//! A write waits for a lock for [`LOCK_TIMEOUT`], which is far longer than the store's own
//! transactions hold one. What is locked for longer is known here for a while, so that the next
//! write that names it does not spend a connection on waiting: a set is told which of its runs are
//! locked and goes on without them, and a single write waits in a lane of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

/// Longest wait for one lock.
pub(super) const LOCK_TIMEOUT: &str = "250ms";
/// Longest that a single write is tried again while something is locked.
pub(super) const LOCKED_WAIT_MAX: Duration = Duration::from_secs(10);
/// Pause between two such tries; no connection is used meanwhile.
pub(super) const LOCKED_PAUSE: Duration = Duration::from_millis(100);
/// How long a run counts as locked after it was found so.
const REMEMBERED: Duration = Duration::from_secs(2);
/// Runs that are remembered at most; beyond that a write finds out by waiting.
const REMEMBERED_MAX: usize = 10_000;
/// Writes of this process that wait at the database for something known to be locked, at once: the
/// pools belong to all the others.
const WAITING_AT_ONCE: usize = 2;

/// What is known to be locked, and the lane of those who wait for it.
#[derive(Debug)]
pub(super) struct Locks {
    seen: Mutex<HashMap<Uuid, Instant>>,
    /// How many are seen: a write looks at this first, and nearly always finds none.
    count: AtomicUsize,
    lane: Semaphore,
}

impl Locks {
    pub(super) fn new() -> Self {
        Self {
            seen: Mutex::default(),
            count: AtomicUsize::new(0),
            lane: Semaphore::new(WAITING_AT_ONCE),
        }
    }

    /// The lane of those who wait.
    pub(super) const fn lane(&self) -> &Semaphore {
        &self.lane
    }

    /// Whether one of these runs was found locked a moment ago.
    pub(super) fn knows_any(&self, runs: &[Uuid]) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let now = Instant::now();
        let mut seen = self.seen.lock();
        seen.retain(|_, until| *until > now);
        self.count.store(seen.len(), Ordering::Relaxed);
        runs.iter().any(|run| seen.contains_key(run))
    }

    /// Notes what a look at these runs has found.
    pub(super) fn found(&self, runs: &[Uuid], locked: &[Uuid]) {
        let until = Instant::now() + REMEMBERED;
        let mut seen = self.seen.lock();
        for run in runs {
            seen.remove(run);
        }
        let room = REMEMBERED_MAX.saturating_sub(seen.len());
        seen.extend(locked.iter().take(room).map(|run| (*run, until)));
        self.count.store(seen.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    #[tokio::test(start_paused = true)]
    async fn a_run_counts_as_locked_until_it_is_found_free_or_for_a_while() {
        let locks = Locks::new();
        assert!(!locks.knows_any(&[RUN]));
        locks.found(&[RUN, OTHER], &[RUN]);
        assert!(locks.knows_any(&[OTHER, RUN]));
        assert!(!locks.knows_any(&[OTHER]));
        locks.found(&[RUN], &[]);
        assert!(!locks.knows_any(&[RUN]));
        locks.found(&[RUN], &[RUN]);
        tokio::time::advance(REMEMBERED * 2).await;
        assert!(!locks.knows_any(&[RUN]));
    }

    #[test]
    fn no_more_than_so_many_runs_are_remembered() {
        let locks = Locks::new();
        let runs: Vec<Uuid> = (0..REMEMBERED_MAX as u128 + 5)
            .map(Uuid::from_u128)
            .collect();
        locks.found(&runs, &runs);
        assert_eq!(locks.seen.lock().len(), REMEMBERED_MAX);
    }
}
