//! Totals: how many ended how, and how long they took, by the hour.

use std::collections::BTreeMap;

use durable_core::Timestamp;

use crate::persistence::limits::ROLLUP_DAYS;
use crate::persistence::model::{RollupKind, RollupOutcome, RollupRecord};

type Key = (Timestamp, RollupKind, String, RollupOutcome, i16);

/// What is summed up under a key.
#[derive(Debug, Default)]
struct Sums {
    count: i64,
    total_ms: i64,
    wait_ms: i64,
}

/// All totals, in order.
#[derive(Debug, Default)]
pub(super) struct Rollups(BTreeMap<Key, Sums>);

impl Rollups {
    /// Counts one activity or run that ended now, after a wait from one instant to another.
    pub(super) fn count(
        &mut self,
        kind: RollupKind,
        name: &str,
        outcome: RollupOutcome,
        began: Timestamp,
        waited: [Timestamp; 2],
        now: Timestamp,
    ) {
        let millis = millis([began, now]);
        let key = (hour(now), kind, name.to_owned(), outcome, exponent(millis));
        let sums = self.0.entry(key).or_default();
        sums.count += 1;
        sums.total_ms += millis;
        sums.wait_ms += self::millis(waited);
    }

    /// Adds totals of hours that began before to those of their day, and those of very old days to
    /// one row; at most so many. Answers how many were added to others.
    pub(super) fn fold(&mut self, before: Timestamp, now: Timestamp, max: usize) -> u64 {
        let long_before = days_before(now, ROLLUP_DAYS);
        let fine = |key: &Key| key.0 < before && bucket(key.0, long_before) != key.0;
        let old: Vec<Key> = self
            .0
            .keys()
            .filter(|key| fine(key))
            .take(max)
            .cloned()
            .collect();
        for key in &old {
            let Some(sums) = self.0.remove(key) else {
                continue;
            };
            let (hour, kind, name, outcome, exp) = key.clone();
            let coarse = (bucket(hour, long_before), kind, name, outcome, exp);
            let total = self.0.entry(coarse).or_default();
            total.count += sums.count;
            total.total_ms += sums.total_ms;
            total.wait_ms += sums.wait_ms;
        }
        old.len() as u64
    }

    /// The totals since an instant.
    pub(super) fn since(&self, from: Timestamp) -> impl Iterator<Item = RollupRecord> {
        self.0
            .iter()
            .filter(move |((hour, ..), _)| *hour >= from)
            .map(|((hour, kind, name, outcome, exp), sums)| RollupRecord {
                hour: *hour,
                kind: *kind,
                name: name.clone(),
                outcome: *outcome,
                duration_exp: *exp,
                count: sums.count,
                total_ms: sums.total_ms,
                wait_ms: sums.wait_ms,
            })
    }
}

/// From one instant to the other; time that ran backwards is none.
fn millis([from, until]: [Timestamp; 2]) -> i64 {
    (until.as_microsecond() - from.as_microsecond()).max(0) / 1000
}

/// The hour's start.
fn hour(now: Timestamp) -> Timestamp {
    const HOUR: i64 = 60 * 60;
    let start = now.as_second().div_euclid(HOUR) * HOUR;
    Timestamp::from_second(start).unwrap_or(Timestamp::MIN)
}

/// Under which instant old totals are added up: their day's start, or the epoch.
fn bucket(hour: Timestamp, long_before: Timestamp) -> Timestamp {
    const DAY: i64 = 24 * 60 * 60;
    if hour < long_before {
        return Timestamp::UNIX_EPOCH;
    }
    let start = hour.as_second().div_euclid(DAY) * DAY;
    Timestamp::from_second(start).unwrap_or(Timestamp::MIN)
}

fn days_before(now: Timestamp, days: i64) -> Timestamp {
    let age = jiff::SignedDuration::from_hours(days * 24);
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// The power of two that a duration stays below.
fn exponent(millis: i64) -> i16 {
    millis
        .checked_ilog2()
        .map_or(0, |log| i16::try_from(log + 1).expect("an i64 has 63 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_under_the_power_of_two_above_it() {
        let expected = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 3),
            (1023, 10),
            (1024, 11),
        ];
        for (millis, exp) in expected {
            assert_eq!(exponent(millis), exp, "{millis} ms");
        }
        assert_eq!(exponent(i64::MAX), 63);
    }

    #[test]
    fn the_hour_is_cut_and_time_that_ran_backwards_counts_as_none() {
        let now = Timestamp::from_second(7_199).unwrap();
        let later = Timestamp::from_second(9_000).unwrap();
        let mut rollups = Rollups::default();
        rollups.count(
            RollupKind::Workflow,
            "w",
            RollupOutcome::Completed,
            later,
            [later, now],
            now,
        );
        let all: Vec<_> = rollups.since(Timestamp::MIN).collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].hour, Timestamp::from_second(3_600).unwrap());
        assert_eq!((all[0].duration_exp, all[0].total_ms), (0, 0));
        assert_eq!(all[0].wait_ms, 0);
    }
}
