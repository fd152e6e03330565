//! Schedules whose tick failed or waits for a write of its own, each of which holds up itself alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::LOCKED_AGAIN;

/// Longest wait before a schedule that failed is tried again. The first wait is [`LOCKED_AGAIN`],
/// and each failure doubles it.
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// The schedules of this process that are not to be tried yet.
#[derive(Default)]
pub(super) struct PutOff(Mutex<State>);

#[derive(Default)]
struct State {
    /// Schedules whose last try failed.
    failed: BTreeMap<String, Failed>,
    /// Schedules whose last run is being terminated.
    stopping: BTreeSet<String>,
}

struct Failed {
    attempts: u32,
    again_at: Instant,
}

impl PutOff {
    /// Whether a schedule is to be left alone for now.
    pub(super) fn holds(&self, schedule_id: &str, now: Instant) -> bool {
        let state = self.0.lock();
        let failed = state.failed.get(schedule_id);
        failed.is_some_and(|failed| failed.again_at > now) || state.stopping.contains(schedule_id)
    }

    /// The try of a schedule failed.
    pub(super) fn failed(&self, schedule_id: &str, now: Instant) {
        let mut state = self.0.lock();
        let failed = state
            .failed
            .entry(schedule_id.to_owned())
            .or_insert(Failed {
                attempts: 0,
                again_at: now,
            });
        let doubled = 1_u32 << failed.attempts.min(16);
        failed.attempts = failed.attempts.saturating_add(1);
        failed.again_at = now + LOCKED_AGAIN.saturating_mul(doubled).min(AGAIN_MAX);
    }

    /// The last run of a schedule is being terminated. False: so many are already that this one
    /// has to wait for the next look.
    pub(super) fn stopping(&self, schedule_id: &str, at_most: usize) -> bool {
        let mut state = self.0.lock();
        state.stopping.len() < at_most && state.stopping.insert(schedule_id.to_owned())
    }

    /// The attempt to terminate the last run of a schedule has ended.
    pub(super) fn stopped(&self, schedule_id: &str) {
        self.0.lock().stopping.remove(schedule_id);
    }

    /// The tick of a schedule was taken.
    pub(super) fn succeeded(&self, schedule_id: &str) {
        self.0.lock().failed.remove(schedule_id);
    }

    /// Forgets the failures of schedules that are not due any more. Answers whether none is left.
    pub(super) fn retain(&self, is_due: impl Fn(&str) -> bool) -> bool {
        let mut state = self.0.lock();
        state.failed.retain(|id, _| is_due(id));
        state.failed.is_empty()
    }

    /// How long until the first of those that failed is tried again.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let state = self.0.lock();
        let first = state.failed.values().map(|failed| failed.again_at).min();
        first.map(|again_at| again_at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_that_fails_is_held_ever_longer_and_forgotten_once_it_fired_or_is_not_due() {
        let (put_off, now) = (PutOff::default(), Instant::now());
        assert!(!put_off.holds("a", now) && put_off.wait(now).is_none());
        put_off.failed("a", now);
        assert!(put_off.holds("a", now) && !put_off.holds("b", now));
        assert_eq!(put_off.wait(now), Some(LOCKED_AGAIN));
        assert!(!put_off.holds("a", now + LOCKED_AGAIN));
        put_off.failed("a", now);
        assert_eq!(put_off.wait(now), Some(LOCKED_AGAIN * 2));
        for _ in 0..100 {
            put_off.failed("a", now);
        }
        assert_eq!(put_off.wait(now), Some(AGAIN_MAX));
        assert!(!put_off.retain(|id| id == "a"));
        put_off.succeeded("a");
        assert!(!put_off.holds("a", now));
        put_off.failed("b", now);
        assert!(put_off.retain(|_| false) && !put_off.holds("b", now));
    }

    #[test]
    fn a_schedule_is_held_while_its_last_run_is_terminated() {
        let (put_off, now) = (PutOff::default(), Instant::now());
        assert!(put_off.stopping("a", 1) && !put_off.stopping("a", 2));
        assert!(!put_off.stopping("b", 1), "as many as may be");
        assert!(put_off.retain(|_| false), "none of them has failed");
        assert!(put_off.holds("a", now) && !put_off.holds("b", now));
        put_off.stopped("a");
        assert!(!put_off.holds("a", now));
    }
}
