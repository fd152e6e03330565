//! Totals by type and hour.

use durable_core::Timestamp;

use super::work::Work;
use crate::persistence::model::{RollupKind, RollupOutcome, RollupRecord, WorkflowStatus};

const HOUR_SECONDS: i64 = 3600;

impl Work {
    /// Counts something that ended now and began then, after so long a wait.
    pub(crate) fn count(
        &mut self,
        kind: RollupKind,
        name: &str,
        outcome: RollupOutcome,
        began: Option<Timestamp>,
        wait_ms: i64,
    ) {
        let elapsed = began.map_or(0, |began| millis_between(began, self.now));
        let counted = RollupRecord {
            hour: hour_of(self.now),
            kind,
            name: name.to_owned(),
            outcome,
            duration_exp: exponent(elapsed),
            count: 1,
            total_ms: elapsed,
            wait_ms,
        };
        let same = |r: &&mut RollupRecord| {
            (r.hour, r.kind, &r.name, r.outcome, r.duration_exp)
                == (
                    counted.hour,
                    kind,
                    &counted.name,
                    outcome,
                    counted.duration_exp,
                )
        };
        match self.changes.add_rollups.iter_mut().find(same) {
            Some(row) => {
                row.count += 1;
                row.total_ms += elapsed;
                row.wait_ms += wait_ms;
            }
            None => self.changes.add_rollups.push(counted),
        }
    }
}

/// How a run that ended counts.
pub(crate) fn outcome_of(status: WorkflowStatus) -> RollupOutcome {
    match status {
        WorkflowStatus::Completed => RollupOutcome::Completed,
        WorkflowStatus::Cancelled => RollupOutcome::Cancelled,
        _ => RollupOutcome::Failed,
    }
}

/// Whole milliseconds from one instant to another; none where time ran backwards.
pub(crate) fn millis_between(from: Timestamp, until: Timestamp) -> i64 {
    (until.as_microsecond() - from.as_microsecond()).max(0) / 1000
}

fn hour_of(instant: Timestamp) -> Timestamp {
    let hour = instant.as_second().div_euclid(HOUR_SECONDS) * HOUR_SECONDS;
    Timestamp::from_second(hour).unwrap_or(instant)
}

/// 0 for 0 ms, else the number of binary digits.
fn exponent(millis: i64) -> i16 {
    i16::try_from(i64::BITS - millis.leading_zeros()).expect("64 at most")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_count_by_powers_of_two() {
        let exponents: Vec<i16> = [0, 1, 2, 3, 4, 1023, 1024]
            .into_iter()
            .map(exponent)
            .collect();
        assert_eq!(exponents, [0, 1, 2, 2, 3, 10, 11]);
    }

    #[test]
    fn hours_are_cut_towards_the_past() {
        let before_epoch = Timestamp::from_second(-1).unwrap();
        assert_eq!(
            hour_of(before_epoch),
            Timestamp::from_second(-3600).unwrap()
        );
    }
}
