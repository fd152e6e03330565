//! Instants: in microseconds, and never backwards.

use std::time::Duration;

use durable_core::Timestamp;
use jiff::SignedDuration;

use crate::persistence::model::after;

/// The store's clock, for callers that bring no instant.
#[derive(Debug, Default)]
pub(super) struct Clock {
    last: Option<Timestamp>,
}

impl Clock {
    /// The given instant, or the system's; that one never goes back within the store, whatever is done to the machine's clock.
    pub(super) fn resolve(&mut self, given: Option<Timestamp>) -> Timestamp {
        if let Some(now) = given {
            return cut(now);
        }
        let now = cut(Timestamp::now());
        let now = self.last.map_or(now, |last| last.max(now));
        self.last = Some(now);
        now
    }
}

/// The instant without what is finer than a microsecond.
pub(super) fn cut(instant: Timestamp) -> Timestamp {
    // Not by `from_microsecond`: its range ends a second before that of instants.
    let finer = i64::from(instant.subsec_nanosecond()).rem_euclid(1000);
    instant
        .checked_sub(SignedDuration::from_nanos(finer))
        .unwrap_or(Timestamp::MIN)
}

/// `instant + duration`, cut, saturating.
pub(super) fn later(instant: Timestamp, duration: Duration) -> Timestamp {
    cut(after(instant, duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_given_instants_do_not_move_it() {
        let mut clock = Clock::default();
        let first = clock.resolve(None);
        clock.resolve(Some(Timestamp::MAX));
        assert!(clock.resolve(None) < Timestamp::MAX);
        clock.last = Some(later(first, Duration::from_secs(3600)));
        assert_eq!(clock.resolve(None), later(first, Duration::from_secs(3600)));
    }

    #[test]
    fn instants_are_cut_to_microseconds() {
        let instant = Timestamp::new(1, 2_999).unwrap();
        assert_eq!(cut(instant), Timestamp::new(1, 2_000).unwrap());
        assert_eq!(
            later(instant, Duration::MAX).as_microsecond(),
            Timestamp::MAX.as_microsecond()
        );
    }
}
