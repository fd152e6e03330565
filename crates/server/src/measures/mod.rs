//! What passes through this server's store, counted: claims, retries, breakers that open. The store keeps no such figures, so they begin with the
//! process, as Prometheus expects of a counter.
//!
//! Counted at the store and not in the engine: what workers in other processes do goes through here as well.

mod histogram;
mod store;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everruns_durable::core::{CircuitState, Timestamp};
use everruns_durable::persistence::model::{
    BreakerRecord, ClaimedTask, DeadLetterDecision, DecisionOutcome, FinishOutcome, PurgedOld,
    TurnOutcome,
};
use parking_lot::Mutex;

pub(crate) use histogram::Histogram;
pub use store::MeasuredStore;

/// Figures of one process.
#[derive(Debug)]
pub struct Measures {
    claims: AtomicU64,
    tasks_claimed: AtomicU64,
    tasks_scheduled: AtomicU64,
    retries: AtomicU64,
    letters_requeued: AtomicU64,
    /// Rows that retention deleted by their age, and runs whose rows it could not delete when it last looked.
    old_rows: AtomicU64,
    stuck_runs: AtomicU64,
    claim_size: Mutex<Histogram>,
    claim_latency: Mutex<Histogram>,
    schedule_to_start: Mutex<Histogram>,
    retry_delay: Mutex<Histogram>,
    /// By key: how often it opened, and when it did so last.
    breakers: Mutex<BTreeMap<String, (u64, Option<Timestamp>)>>,
}

/// Tasks of one claim.
const SIZES: &[f64] = &[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
/// Seconds that a call to the store takes.
const CALLS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];
/// Seconds that something waits.
const WAITS: &[f64] = &[
    0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0,
];

impl Default for Measures {
    fn default() -> Self {
        Self {
            claims: AtomicU64::default(),
            tasks_claimed: AtomicU64::default(),
            tasks_scheduled: AtomicU64::default(),
            retries: AtomicU64::default(),
            letters_requeued: AtomicU64::default(),
            old_rows: AtomicU64::default(),
            stuck_runs: AtomicU64::default(),
            claim_size: Mutex::new(Histogram::new(SIZES)),
            claim_latency: Mutex::new(Histogram::new(CALLS)),
            schedule_to_start: Mutex::new(Histogram::new(WAITS)),
            retry_delay: Mutex::new(Histogram::new(WAITS)),
            breakers: Mutex::default(),
        }
    }
}

/// Figures as they stood at one instant.
pub(crate) struct Figures {
    pub(crate) claims: u64,
    pub(crate) tasks_claimed: u64,
    pub(crate) tasks_scheduled: u64,
    pub(crate) retries: u64,
    pub(crate) letters_requeued: u64,
    pub(crate) old_rows: u64,
    pub(crate) stuck_runs: u64,
    pub(crate) claim_size: Histogram,
    pub(crate) claim_latency: Histogram,
    pub(crate) schedule_to_start: Histogram,
    pub(crate) retry_delay: Histogram,
    pub(crate) breaker_opens: Vec<(String, u64)>,
}

impl Measures {
    pub(crate) fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let breakers = self.breakers.lock();
        let opens = breakers
            .iter()
            .map(|(key, (opens, _))| (key.clone(), *opens));
        Figures {
            claims: read(&self.claims),
            tasks_claimed: read(&self.tasks_claimed),
            tasks_scheduled: read(&self.tasks_scheduled),
            retries: read(&self.retries),
            letters_requeued: read(&self.letters_requeued),
            old_rows: read(&self.old_rows),
            stuck_runs: read(&self.stuck_runs),
            claim_size: self.claim_size.lock().clone(),
            claim_latency: self.claim_latency.lock().clone(),
            schedule_to_start: self.schedule_to_start.lock().clone(),
            retry_delay: self.retry_delay.lock().clone(),
            breaker_opens: opens.collect(),
        }
    }

    /// A claim was answered after this time.
    #[allow(clippy::cast_precision_loss, reason = "a claim is a few hundred tasks")]
    fn claimed(&self, tasks: &[ClaimedTask], took: Duration) {
        add(&self.claims, 1);
        add(&self.tasks_claimed, tasks.len());
        self.claim_size.lock().add(tasks.len() as f64);
        self.claim_latency.lock().add(took.as_secs_f64());
        let mut waits = self.schedule_to_start.lock();
        // A later attempt waited for its retry as well.
        for task in tasks.iter().filter(|task| task.attempts.is_empty()) {
            waits.add(seconds_between(task.scheduled_at, task.started_at));
        }
    }

    /// A turn with so many new tasks and so many letters put back was committed, or not.
    fn turned(&self, (tasks, letters): (usize, usize), outcome: &TurnOutcome) {
        if matches!(outcome, TurnOutcome::Committed(_)) {
            add(&self.tasks_scheduled, tasks);
            add(&self.letters_requeued, letters);
        }
    }

    /// What became of a result, by the clock of this process.
    fn finished(&self, outcome: &FinishOutcome, now: Timestamp) {
        if let FinishOutcome::Retrying { visible_at } = outcome {
            add(&self.retries, 1);
            let delay = seconds_between(now, *visible_at);
            self.retry_delay.lock().add(delay);
        }
    }

    /// Retention has looked for old rows.
    fn purged(&self, purged: &PurgedOld) {
        self.old_rows.fetch_add(purged.rows(), Ordering::Relaxed);
        self.stuck_runs.store(purged.stuck_runs, Ordering::Relaxed);
    }

    fn decided(&self, requeue: bool, outcome: &DecisionOutcome) {
        if requeue && matches!(outcome, DecisionOutcome::Done) {
            add(&self.letters_requeued, 1);
        }
    }

    /// A breaker was saved as open. It is saved so more than once; it opens when the instant is another.
    fn opened(&self, key: String, at: Option<Timestamp>) {
        let mut breakers = self.breakers.lock();
        let (opens, last) = breakers.entry(key).or_default();
        if *opens == 0 || *last != at {
            *opens += 1;
            *last = at;
        }
    }
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// Never below 0: clocks differ.
fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// The key and the instant of a breaker that is open.
fn open(breaker: &BreakerRecord) -> Option<(String, Option<Timestamp>)> {
    (breaker.state == CircuitState::Open).then(|| (breaker.key.clone(), breaker.opened_at))
}

const fn requeues(decision: &DeadLetterDecision) -> bool {
    matches!(decision, DeadLetterDecision::Requeue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breaker_opens_once_for_each_instant() {
        let measures = Measures::default();
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        for second in [1, 1, 2, 2] {
            measures.opened("b".to_owned(), at(second));
        }
        assert_eq!(measures.figures().breaker_opens, [("b".to_owned(), 2)]);
    }

    #[test]
    fn a_retry_is_counted_with_its_delay() {
        let measures = Measures::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let retrying = |visible_at| FinishOutcome::Retrying { visible_at };
        measures.finished(&retrying(at(12)), at(10));
        // The store's clock is behind.
        measures.finished(&retrying(at(9)), at(10));
        measures.finished(&FinishOutcome::Parked, at(10));
        let figures = measures.figures();
        assert_eq!(figures.retries, 2);
        assert!((figures.retry_delay.sum() - 2.0).abs() < 1e-9);
    }
}
