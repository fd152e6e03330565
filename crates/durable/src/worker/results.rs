//! Results of activities whose run is not at hand: stored in batches, until the store has them.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{ExhaustedPolicy, RetryDecision};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, error, warn};
use uuid::Uuid;

use super::batches::batches;
use super::leases::HeldLease;
use super::{Slot, outcome};
use crate::persistence::attempts::failure_bytes;
use crate::persistence::model::{ClaimedTask, FinishOutcome, NewStepLog, TaskOutcome, TaskResult};
use crate::persistence::{Bug, StoreError, WorkerPort, check, planted};
use crate::runtime::{Runtime, guarded};

/// An activity that has ended and whose outcome is not stored yet.
pub(crate) struct Finished {
    pub(crate) task: ClaimedTask,
    pub(crate) outcome: TaskOutcome,
    pub(crate) step_logs: Vec<NewStepLog>,
    pub(crate) kept: Kept,
    /// Renewed until the outcome is stored, so that no other worker is given the task meanwhile.
    #[expect(dead_code, reason = "what counts is when it is dropped")]
    pub(crate) held: HeldLease,
    /// Free only when the outcome is stored: otherwise the worker would take on more than it can finish.
    pub(crate) slot: Slot,
}

impl Finished {
    fn bytes(&self) -> usize {
        // The attempts before this one are written again with it.
        let attempts = self.task.attempts.iter();
        let kept: usize = attempts
            .map(|attempt| failure_bytes(&attempt.failure))
            .sum();
        check::result_bytes(&self.outcome, &self.step_logs) + kept
    }

    /// Whether the outcome is one that a turn commits: the activity is over, the run sees it, and it brings little.
    pub(crate) fn may_join_a_turn(&self) -> bool {
        if self.step_logs.len() > JOIN_LINES_MAX || self.bytes() > JOIN_BYTES_MAX {
            return false;
        }
        match &self.outcome {
            TaskOutcome::Completed { .. } => true,
            TaskOutcome::Failed { failure } => {
                let options = &self.task.options;
                let attempt = self.task.lease.attempt;
                let decision = options.retry_policy.decide(attempt, failure, 0.0);
                !matches!(decision, RetryDecision::Retry(_))
                    && options.on_exhausted == ExhaustedPolicy::Fail
            }
            TaskOutcome::Cancelled { .. } => false,
        }
    }
}

/// Whether the store has an outcome already: the activity's own transaction may have brought it there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kept {
    /// It has not.
    NotYet,
    /// It has, and this became of it.
    Already(FinishOutcome),
    /// Nobody knows whether its commit was carried out: that of its own transaction, or of a try
    /// whose answer was lost. The outcome here is that it was not; the store refuses it if it was.
    Unknown,
}

/// Most log lines, and most bytes, that an outcome may bring to a turn: a turn takes all that ended meanwhile, perhaps in every slot, and has
/// limits of its own.
const JOIN_LINES_MAX: usize = 16;
const JOIN_BYTES_MAX: usize = 128 * 1024;

/// What follows from a stored result.
pub(crate) trait ResultListener: Send + Sync + 'static {
    /// The run has a fact waiting; where its line moved up, the next task may be claimed.
    fn recorded(&self, task: &ClaimedTask, line_moved: bool);
    /// The activity is tried again then.
    fn retrying(&self, task: &ClaimedTask, visible_at: durable_core::Timestamp);
    /// The result may have been stored by a try whose answer was lost: any of the others may have followed.
    fn unsure(&self, task: &ClaimedTask);
}

/// Stores results by `finish_tasks`. While one batch is under way the next one forms.
pub(crate) struct ResultSink {
    port: Arc<dyn WorkerPort>,
    runtime: Runtime,
    waiting: Mutex<Vec<Finished>>,
    /// Results of runs that another transaction has locked: they come again after a moment, and
    /// delay no others.
    locked: Mutex<Locked>,
    bell: Notify,
    /// Results given in and not stored yet, those under way included.
    open: Mutex<usize>,
    stored: Notify,
}

/// Results that are set aside.
#[derive(Default)]
struct Locked {
    results: Vec<Finished>,
    /// When they are stored again.
    again_at: Option<Instant>,
}

/// First wait before results are stored again after the store could not be reached; doubles up to the largest.
const RETRY_MS_FIRST: u64 = 20;
/// Largest such wait.
const RETRY_MS_MAX: u64 = 2_000;
/// Tries of a batch that fails although the store answers, before its parts are tried on their own.
const TRIES_TOGETHER: u32 = 6;
/// Wait before results of runs that another transaction had locked are stored again.
const LOCKED_AGAIN: Duration = Duration::from_millis(250);

impl ResultSink {
    pub(crate) fn new(port: Arc<dyn WorkerPort>, runtime: Runtime) -> Self {
        Self {
            port,
            runtime,
            waiting: Mutex::default(),
            locked: Mutex::default(),
            bell: Notify::new(),
            open: Mutex::new(0),
            stored: Notify::new(),
        }
    }

    /// Takes outcomes in; returns at once.
    pub(crate) fn store(&self, finished: Vec<Finished>) {
        if finished.is_empty() {
            return;
        }
        *self.open.lock() += finished.len();
        self.waiting.lock().extend(finished);
        self.bell.notify_one();
    }

    /// Whether payloads are encoded on their way, so that their size is not known here.
    pub(super) fn encodes_payloads(&self) -> bool {
        self.port.encodes_payloads()
    }

    /// Ends when everything taken in is stored.
    pub(crate) async fn flushed(&self) {
        loop {
            let stored = self.stored.notified();
            tokio::pin!(stored);
            stored.as_mut().enable();
            if *self.open.lock() == 0 {
                return;
            }
            stored.await;
        }
    }

    /// Stores what comes in, for ever.
    pub(crate) async fn run(&self, listener: &dyn ResultListener) {
        loop {
            self.unlock_some();
            let waiting = std::mem::take(&mut *self.waiting.lock());
            if waiting.is_empty() {
                self.rest().await;
                continue;
            }
            for batch in batches(waiting, Finished::bytes) {
                let count = batch.len();
                let locked = self.locked.lock().results.len();
                // What a panic takes along is tried again when its leases run out, as after a crash.
                guarded("results", self.store_batch(batch, listener)).await;
                let set_aside = self.locked.lock().results.len() - locked;
                *self.open.lock() -= count - set_aside;
                self.stored.notify_waiters();
            }
        }
    }

    /// Until there is something to store, or what was locked by another transaction is looked at
    /// again.
    async fn rest(&self) {
        let again_at = self.locked.lock().again_at;
        let Some(again_at) = again_at else {
            self.bell.notified().await;
            return;
        };
        let pause = again_at.saturating_duration_since(self.runtime.instant());
        tokio::select! {
            biased;
            () = self.bell.notified() => {}
            () = self.runtime.sleep(pause) => {}
        }
    }

    /// Sets results of locked runs aside for a moment.
    fn set_aside(&self, mut results: Vec<Finished>) {
        debug!(
            results = results.len(),
            "another transaction has the runs of results locked"
        );
        let again_at = self.runtime.instant() + LOCKED_AGAIN;
        let mut locked = self.locked.lock();
        locked.results.append(&mut results);
        locked.again_at.get_or_insert(again_at);
    }

    /// Takes up those whose moment has come, whatever else comes in.
    fn unlock_some(&self) {
        let now = self.runtime.instant();
        let mut locked = self.locked.lock();
        if locked.again_at.is_some_and(|at| at <= now) {
            let Locked { results, .. } = std::mem::take(&mut *locked);
            self.waiting.lock().extend(results);
        }
    }

    /// Stores a batch. One that the store refuses is split until only the one at fault is refused, which then ends as a failed attempt: to
    /// try the activity again would end in the same refusal.
    async fn store_batch(&self, mut batch: Vec<Finished>, listener: &dyn ResultListener) {
        batch.retain(|finished| match &finished.kept {
            Kept::Already(outcome) => {
                tell(listener, finished, outcome);
                false
            }
            Kept::NotYet | Kept::Unknown => true,
        });
        if batch.is_empty() {
            return;
        }
        let error = match self.store_until_known(&mut batch, listener).await {
            Ok(()) => return,
            Err(StoreError::Busy { runs }) => {
                return Box::pin(self.store_without(batch, &runs, listener)).await;
            }
            Err(error) => error,
        };
        if !error.is_refusal() {
            // Their leases run out and the tasks are tried again.
            error!(%error, results = batch.len(), "results could not be stored");
        } else if batch.len() > 1 {
            let other = batch.split_off(batch.len() / 2);
            Box::pin(self.store_batch(batch, listener)).await;
            Box::pin(self.store_batch(other, listener)).await;
        } else {
            let task_id = batch[0].task.lease.task_id;
            error!(%error, %task_id, "a result was refused; the activity has failed");
            batch[0].outcome = outcome::refused(&error);
            batch[0].step_logs.clear();
            if let Err(error) = self.store_until_known(&mut batch, listener).await {
                error!(%error, %task_id, "and its failure was refused too");
            }
        }
    }

    /// Sets the results of locked runs aside and stores the others.
    async fn store_without(
        &self,
        batch: Vec<Finished>,
        locked: &[Uuid],
        listener: &dyn ResultListener,
    ) {
        let is_locked = |finished: &Finished| locked.contains(&finished.task.lease.run_id);
        let (mut aside, mut others): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_locked);
        if aside.is_empty() {
            // It is not known which: the halves tell.
            aside = others.split_off(others.len() / 2);
            if others.is_empty() {
                self.set_aside(aside);
                return;
            }
            self.store_batch(aside, listener).await;
        } else {
            self.set_aside(aside);
        }
        self.store_batch(others, listener).await;
    }

    /// # Errors
    /// What the store refuses; [`StoreError::Busy`] also where the batch fails again and again
    /// although the store answers.
    async fn store_until_known(
        &self,
        batch: &mut [Finished],
        listener: &dyn ResultListener,
    ) -> Result<(), StoreError> {
        let results: Vec<TaskResult> = batch.iter().map(|finished| self.result(finished)).collect();
        let mut wait_ms = RETRY_MS_FIRST;
        let mut failures = 0_u32;
        loop {
            match self.port.finish_tasks(results.clone(), None).await {
                Ok(outcomes) => {
                    for (finished, outcome) in batch.iter().zip(outcomes) {
                        tell(listener, finished, &outcome);
                    }
                    return Ok(());
                }
                Err(_) if planted(Bug::ResultDroppedOnError) => return Ok(()),
                Err(error @ StoreError::Busy { .. }) => return Err(error),
                Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                    debug!(%error, wait_ms, "results are stored again");
                    if error.is_outcome_unknown() {
                        batch.iter_mut().for_each(|f| f.kept = Kept::Unknown);
                    }
                    failures += 1;
                    if failures >= TRIES_TOGETHER && self.port.waiting_types().await.is_ok() {
                        return Err(one_at_fault(batch, &error));
                    }
                    let wait = self.runtime.jittered(Duration::from_millis(wait_ms));
                    self.runtime.sleep(wait).await;
                    wait_ms = (wait_ms * 2).min(RETRY_MS_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn result(&self, finished: &Finished) -> TaskResult {
        TaskResult {
            lease: finished.task.lease.clone(),
            outcome: finished.outcome.clone(),
            jitter: self.runtime.fraction(),
            step_logs: finished.step_logs.clone(),
        }
    }
}

/// One of these results cannot be stored although the store answers: the halves tell which, and
/// that one is tried again apart from the others.
fn one_at_fault(batch: &[Finished], error: &StoreError) -> StoreError {
    let mut runs = Vec::new();
    if let [finished] = batch {
        let lease = &finished.task.lease;
        runs.push(lease.run_id);
        warn!(task_id = %lease.task_id, run_id = %lease.run_id, %error, "a result cannot be stored although the store answers; it is tried again");
    }
    StoreError::Busy { runs }
}

fn tell(listener: &dyn ResultListener, finished: &Finished, outcome: &FinishOutcome) {
    let task = &finished.task;
    match outcome {
        FinishOutcome::Recorded { line_moved, .. } => listener.recorded(task, *line_moved),
        FinishOutcome::Retrying { visible_at } => listener.retrying(task, *visible_at),
        FinishOutcome::Parked => {}
        // An earlier commit was carried out after all, perhaps, and the lease ended with it.
        FinishOutcome::LeaseLost if finished.kept == Kept::Unknown => listener.unsure(task),
        FinishOutcome::LeaseLost => {
            debug!(task_id = %task.lease.task_id, "the result came too late");
        }
    }
}

#[cfg(test)]
mod tests {
    use durable_core::{Failure, Payload, error_types};

    use super::*;
    use crate::persistence::limits::PAYLOAD_BYTES_MAX;
    use crate::worker::Slots;
    use crate::worker::stub_port::{StubPort, task};

    struct Deaf;

    impl ResultListener for Deaf {
        fn recorded(&self, _: &ClaimedTask, _: bool) {}
        fn retrying(&self, _: &ClaimedTask, _: durable_core::Timestamp) {}
        fn unsure(&self, _: &ClaimedTask) {}
    }

    fn finished(slots: &Slots, number: u128, result: &Payload) -> Finished {
        Finished {
            task: task(number),
            outcome: TaskOutcome::Completed {
                result: result.clone(),
            },
            step_logs: Vec::new(),
            kept: Kept::NotYet,
            held: HeldLease::unkept(task(number).lease),
            slot: slots.try_take().expect("is free"),
        }
    }

    /// Stores them all; answers what the port took, by task.
    async fn stored(port: StubPort, results: &[Payload]) -> Vec<TaskResult> {
        let port = Arc::new(port);
        let sink = ResultSink::new(Arc::clone(&port) as Arc<dyn WorkerPort>, Runtime::real());
        let slots = Slots::new(results.len());
        let all = (1..).zip(results);
        sink.store(all.map(|(n, result)| finished(&slots, n, result)).collect());
        tokio::select! {
            biased;
            () = sink.run(&Deaf) => {}
            () = sink.flushed() => {}
        }
        assert_eq!(slots.free(), results.len(), "every slot is free again");
        let mut taken = port.finished.lock().concat();
        taken.sort_by_key(|result| result.lease.task_id);
        taken
    }

    #[tokio::test]
    async fn one_refused_result_refuses_only_itself() {
        let payload = |text: &str| Payload::from_value(&text).unwrap();
        let mut results = vec![payload("fine"); 9];
        results[3] = payload("poison");
        let port = StubPort {
            poison: Some("poison"),
            ..StubPort::default()
        };
        let taken = stored(port, &results).await;
        assert_eq!(taken.len(), 9);
        for (place, result) in taken.iter().enumerate() {
            match &result.outcome {
                TaskOutcome::Completed { .. } => assert_ne!(place, 3),
                TaskOutcome::Failed {
                    failure:
                        Failure {
                            error_type,
                            retryable: false,
                            ..
                        },
                } => {
                    assert_eq!((place, &**error_type), (3, error_types::INVALID_OUTPUT));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn result_that_cannot_be_stored_although_the_store_answers_stops_no_others() {
        let payload = |text: &str| Payload::from_value(&text).unwrap();
        let port = Arc::new(StubPort {
            stuck: Some("stuck"),
            ..StubPort::default()
        });
        let sink = ResultSink::new(Arc::clone(&port) as Arc<dyn WorkerPort>, Runtime::real());
        let slots = Slots::new(9);
        let text = |n| if n == 4 { "stuck" } else { "fine" };
        let all = (1..=9).map(|n| finished(&slots, n, &payload(text(n))));
        sink.store(all.collect());
        let others_are_free = async {
            while slots.free() < 8 {
                tokio::task::yield_now().await;
                tokio::time::advance(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            biased;
            () = sink.run(&Deaf) => {}
            () = sink.flushed() => panic!("one result cannot be stored"),
            () = others_are_free => {}
        }
        assert_eq!(port.finished.lock().concat().len(), 8);
    }

    #[tokio::test]
    async fn more_bytes_than_one_call_takes_are_all_stored() {
        let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
        let large = Payload::from_json_text(text).unwrap();
        let taken = stored(StubPort::default(), &vec![large; 70]).await;
        let completed = |r: &&TaskResult| matches!(r.outcome, TaskOutcome::Completed { .. });
        assert_eq!(taken.iter().filter(completed).count(), 70);
    }

    #[tokio::test]
    async fn results_are_stored_when_the_store_is_back() {
        let port = StubPort {
            failures: Mutex::new(3),
            ..StubPort::default()
        };
        assert_eq!(stored(port, &[Payload::ABSENT]).await.len(), 1);
    }
}
