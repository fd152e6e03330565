//! Instants, as stores keep them: in microseconds.

use std::time::Duration;

use durable_core::Timestamp;
use jiff::SignedDuration;

/// The instant without what is finer than a microsecond.
#[must_use]
pub fn cut(instant: Timestamp) -> Timestamp {
    // Not by `from_microsecond`: its range ends a second before that of instants.
    let finer = i64::from(instant.subsec_nanosecond()).rem_euclid(1000);
    instant
        .checked_sub(SignedDuration::from_nanos(finer))
        .unwrap_or(Timestamp::MIN)
}

/// `instant + duration`, cut; the latest instant that a store can keep if that overflows.
#[must_use]
pub fn after(instant: Timestamp, duration: Duration) -> Timestamp {
    let last = latest();
    instant
        .checked_add(duration)
        .map_or(last, |sum| cut(sum).min(last))
}

/// The latest instant that counts in microseconds: a second before that of instants.
fn latest() -> Timestamp {
    Timestamp::from_second(Timestamp::MAX.as_second() - 1).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_cut_to_microseconds() {
        let instant = Timestamp::new(1, 2_999).unwrap();
        assert_eq!(cut(instant), Timestamp::new(1, 2_000).unwrap());
        assert_eq!(
            after(instant, Duration::from_nanos(1)),
            Timestamp::new(1, 3_000).unwrap()
        );
        let last = after(Timestamp::MAX, Duration::MAX);
        assert_eq!(
            Timestamp::from_microsecond(last.as_microsecond()).unwrap(),
            last
        );
    }
}
