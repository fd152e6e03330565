//! Sums over the rollups.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::Timestamp;
use tokio::sync::Mutex;

use crate::persistence::limits::ROLLUP_ROWS_MAX;
use crate::persistence::model::{RollupKind, RollupOutcome, RollupRecord};
use crate::persistence::{StoreResult, WorkflowEventStore};

/// Hours that may still change: the one under way, and the one before, for commits that were slow.
const OPEN_HOURS: Duration = HOUR;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Everything that ever ended, by kind, type and outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger(BTreeMap<(RollupKind, String, RollupOutcome), Durations>);

impl Ledger {
    fn add(&mut self, rollup: &RollupRecord) {
        let key = (rollup.kind, rollup.name.clone(), rollup.outcome);
        self.0.entry(key).or_default().add(rollup);
    }

    /// Its entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = (RollupKind, &str, RollupOutcome, &Durations)> {
        self.0
            .iter()
            .map(|((kind, name, outcome), durations)| (*kind, name.as_str(), *outcome, durations))
    }

    /// How many in all.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (kind, _, outcome, durations) in self.entries() {
            let total = match (kind, outcome) {
                (RollupKind::Activity, RollupOutcome::Completed) => &mut totals.tasks_completed,
                (RollupKind::Activity, RollupOutcome::Failed) => &mut totals.tasks_failed,
                (RollupKind::Activity, RollupOutcome::Cancelled) => &mut totals.tasks_cancelled,
                (RollupKind::Workflow, RollupOutcome::Completed) => &mut totals.workflows_completed,
                (RollupKind::Workflow, RollupOutcome::Failed) => &mut totals.workflows_failed,
                (RollupKind::Workflow, RollupOutcome::Cancelled) => &mut totals.workflows_cancelled,
            };
            *total += durations.count;
        }
        totals
    }
}

/// Reads the ledger again and again, but hours that are over only once.
#[derive(Debug, Default)]
pub struct LedgerReader {
    over: Mutex<Over>,
}

/// The hours that are over.
#[derive(Debug, Default)]
struct Over {
    ledger: Ledger,
    /// Hours before this one are in it.
    until: Timestamp,
}

impl Over {
    /// Takes the hours of a page that are over; answers those that are not, or none where another
    /// page is to be read first. A page of `rows_max` was cut: its last hour may go on behind it
    /// and is read again. An hour that fills a page by itself is taken as it is.
    fn take(
        &mut self,
        mut page: Vec<RollupRecord>,
        closed_before: Timestamp,
        rows_max: usize,
    ) -> Option<Vec<RollupRecord>> {
        let bounds = page.first().zip(page.last());
        let bounds = bounds.map(|(first, last)| (first.hour, last.hour));
        let cut = page.len() >= rows_max;
        let until = match bounds {
            Some((first, last)) if cut && first < last => {
                page.retain(|rollup| rollup.hour < last);
                last.min(closed_before)
            }
            Some((_, last)) if cut && last < closed_before => {
                last.checked_add(HOUR).unwrap_or(closed_before)
            }
            _ => closed_before,
        };
        self.until = until.max(self.until);
        let until = self.until;
        let (closed, open): (Vec<_>, Vec<_>) =
            page.into_iter().partition(|rollup| rollup.hour < until);
        closed.iter().for_each(|rollup| self.ledger.add(rollup));
        let read_on = cut && open.is_empty() && !closed.is_empty();
        (!read_on).then_some(open)
    }
}

impl LedgerReader {
    /// Everything that ever ended. `now` is the store's, read before.
    ///
    /// # Errors
    /// The store's.
    pub async fn read(
        &self,
        store: &dyn WorkflowEventStore,
        now: Timestamp,
    ) -> StoreResult<Ledger> {
        let mut over = self.over.lock().await;
        let closed_before = hour_of(now).checked_sub(OPEN_HOURS).unwrap_or(over.until);
        let open = loop {
            let page = store.rollups(over.until).await?;
            if let Some(open) = over.take(page, closed_before, ROLLUP_ROWS_MAX) {
                break open;
            }
        };
        let mut whole = over.ledger.clone();
        open.iter().for_each(|rollup| whole.add(rollup));
        Ok(whole)
    }
}

/// The hour of the clock that an instant lies in.
pub(super) fn hour_of(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(3_600)).unwrap_or(at)
}

/// How many ended how, since the first day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Activities that completed.
    pub tasks_completed: u64,
    /// Activities that failed for good.
    pub tasks_failed: u64,
    /// Activities that were given up.
    pub tasks_cancelled: u64,
    /// Runs that completed.
    pub workflows_completed: u64,
    /// Runs that failed.
    pub workflows_failed: u64,
    /// Runs that were cancelled.
    pub workflows_cancelled: u64,
}

/// How long things took, by powers of two of milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many took at most 2^n milliseconds and more than half of that, by n; 0 is below one millisecond.
    pub by_exp: BTreeMap<i16, u64>,
    /// How many.
    pub count: u64,
    /// All together, in milliseconds.
    pub total_ms: u64,
    /// What activities waited for their first attempts, together, in milliseconds.
    pub wait_ms: u64,
}

impl Durations {
    /// Adds a rollup.
    pub fn add(&mut self, rollup: &RollupRecord) {
        let count = count(rollup);
        *self.by_exp.entry(rollup.duration_exp).or_default() += count;
        self.count += count;
        self.total_ms += u64::try_from(rollup.total_ms).unwrap_or_default();
        self.wait_ms += u64::try_from(rollup.wait_ms).unwrap_or_default();
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        for (exp, count) in &other.by_exp {
            *self.by_exp.entry(*exp).or_default() += count;
        }
        self.count += other.count;
        self.total_ms += other.total_ms;
        self.wait_ms += other.wait_ms;
    }

    /// The mean, in milliseconds; 0 of nothing.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.mean(self.total_ms)
    }

    /// The mean wait for the first attempt, in milliseconds; 0 of nothing.
    #[must_use]
    pub fn mean_wait_ms(&self) -> f64 {
        self.mean(self.wait_ms)
    }

    #[allow(clippy::cast_precision_loss, reason = "a mean for people")]
    fn mean(&self, sum_ms: u64) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            sum_ms as f64 / self.count as f64
        }
    }

    /// What 99 of 100 stayed within, in milliseconds: the upper end of the power of two that holds it; 0 of nothing.
    #[must_use]
    pub fn p99_ms(&self) -> f64 {
        let wanted = (self.count * 99).div_ceil(100);
        let mut seen = 0;
        for (exp, count) in &self.by_exp {
            seen += count;
            if seen >= wanted && self.count > 0 {
                return f64::from(*exp).exp2();
            }
        }
        0.0
    }
}

pub(super) fn count(rollup: &RollupRecord) -> u64 {
    u64::try_from(rollup.count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollup(exp: i16, count: i64, total_ms: i64) -> RollupRecord {
        RollupRecord {
            hour: durable_core::Timestamp::UNIX_EPOCH,
            kind: RollupKind::Activity,
            name: "a".to_owned(),
            outcome: RollupOutcome::Completed,
            duration_exp: exp,
            count,
            total_ms,
            wait_ms: 2 * count,
        }
    }

    #[test]
    fn pages_of_totals_are_read_to_the_end_and_no_row_twice() {
        let at = |hour: i64| Timestamp::from_second(hour * 3_600).unwrap();
        let in_hour = |hour, exp| RollupRecord {
            hour: at(hour),
            ..rollup(exp, 1, 1)
        };
        // Two rows in the first hour, three in the second, which fills a page alone, one in the
        // third; the fourth is open.
        let all: Vec<_> = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1)]
            .map(|(hour, exp)| in_hour(hour, exp))
            .into();
        for rows_max in [3, 4, 7, 100] {
            let mut over = Over::default();
            let mut reads = 0;
            let open = loop {
                reads += 1;
                let since = all.iter().filter(|rollup| rollup.hour >= over.until);
                let page = since.take(rows_max).cloned().collect();
                if let Some(open) = over.take(page, at(4), rows_max) {
                    break open;
                }
                assert!(reads < 10, "it ends");
            };
            assert_eq!(open, [in_hour(4, 1)], "{rows_max}");
            assert_eq!(over.ledger.totals().tasks_completed, 6, "{rows_max}");
        }
    }

    #[test]
    fn percentile_is_the_power_of_two_that_holds_it() {
        let mut durations = Durations::default();
        assert_eq!((durations.p99_ms(), durations.mean_ms()), (0.0, 0.0));
        durations.add(&rollup(3, 99, 600));
        durations.add(&rollup(10, 1, 1_000));
        assert_eq!((durations.p99_ms(), durations.mean_ms()), (8.0, 16.0));
        assert_eq!(durations.mean_wait_ms(), 2.0);
        durations.add(&rollup(10, 1, 1_000));
        assert_eq!(durations.p99_ms(), 1024.0);
    }
}
