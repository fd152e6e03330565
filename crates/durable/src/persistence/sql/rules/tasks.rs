//! Tasks end, are tried again, or become dead letters.

use durable_core::{
    AttemptRecord, ExhaustedPolicy, Failure, Payload, RetryDecision, TimeoutType, WorkflowEvent,
    error_types,
};

use uuid::Uuid;

use super::totals::millis_between;
use super::work::Work;
use crate::persistence::attempts::attempt_record;
use crate::persistence::limits::{ATTEMPTS_FIRST_KEPT, ATTEMPTS_LAST_KEPT};
use crate::persistence::model::{
    DeadLetter, DeadLetterState, FinishOutcome, LastAttempt, RollupKind, RollupOutcome, TaskRecord,
    TaskStatus, after,
};
use crate::persistence::{Bug, planted};

/// Why an activity failed for good.
pub(crate) enum Finality {
    /// Its last attempt failed.
    Failed(Failure),
    /// One of its clocks ran out.
    TimedOut(TimeoutType),
}

impl Finality {
    fn failure(&self) -> Failure {
        match self {
            Self::Failed(failure) => failure.clone(),
            Self::TimedOut(clock) => clock.failure(),
        }
    }

    fn event(self, activity_id: String) -> WorkflowEvent {
        match self {
            Self::Failed(error) => WorkflowEvent::ActivityFailed {
                activity_id,
                error,
                will_retry: false,
            },
            Self::TimedOut(timeout_type) => WorkflowEvent::ActivityTimedOut {
                activity_id,
                timeout_type,
            },
        }
    }
}

/// The failure of a task that nobody ever answers for.
pub(crate) fn deliveries_exhausted(deliveries: u32) -> Failure {
    let message = format!("handed out {deliveries} times without an answer");
    Failure::new(error_types::DELIVERIES_EXHAUSTED, message).non_retryable()
}

impl Work {
    /// A failed attempt: tried again by the policy, or the end.
    pub(crate) fn fail_attempt(
        &mut self,
        task: TaskRecord,
        why: Finality,
        jitter: f64,
    ) -> FinishOutcome {
        let failure = why.failure();
        match task
            .options
            .retry_policy
            .decide(task.attempt, &failure, jitter)
        {
            RetryDecision::Retry(delay) => {
                let mut task = task;
                let record = attempt_record(&task, failure);
                note_attempt(&mut task.attempts, record);
                clear_claim(&mut task);
                task.deliveries = 0;
                task.status = TaskStatus::Delayed;
                task.visible_at = after(self.now, delay);
                let visible_at = task.visible_at;
                self.update_task(task);
                FinishOutcome::Retrying { visible_at }
            }
            RetryDecision::Exhausted | RetryDecision::NonRetryable => self.fail_for_good(task, why),
        }
    }

    /// The end of an activity by a failure: a dead letter, and either the fact or (`Park`) a task that waits.
    pub(crate) fn fail_for_good(&mut self, mut task: TaskRecord, why: Finality) -> FinishOutcome {
        let failure = why.failure();
        let parked = task.options.on_exhausted == ExhaustedPolicy::Park;
        self.put_letter(dead_letter(&task, &failure, parked, self.now));
        self.count_activity(&task, RollupOutcome::Failed);
        if parked {
            let record = attempt_record(&task, failure);
            note_attempt(&mut task.attempts, record);
            clear_claim(&mut task);
            task.visible_at = self.now;
            task.status = TaskStatus::Dead;
            self.update_task(task);
            return FinishOutcome::Parked;
        }
        if !task.options.sequential && planted(Bug::LineReleasedByFailure) {
            let run = self.run_mut(task.run_id);
            run.line_count = (run.line_count - 1).max(0);
        }
        let event = why.event(task.activity_id.clone());
        self.end_activity(&task, event)
    }

    /// The end of an activity: the task leaves, the line moves up, the run is told.
    pub(crate) fn end_activity(
        &mut self,
        task: &TaskRecord,
        event: WorkflowEvent,
    ) -> FinishOutcome {
        let line_moved = self.remove_task(task);
        let last = match (&task.claimed_by, task.claimed_at) {
            (Some(worker_id), Some(started_at)) => Some(LastAttempt {
                attempt: task.attempt,
                worker_id: worker_id.clone(),
                started_at,
            }),
            _ => None,
        };
        FinishOutcome::Recorded {
            arrival: self.deliver_end(task.run_id, event, task.attempts.clone(), last),
            line_moved,
        }
    }

    /// A queued task leaves; the line moves up if it was the head. Answers whether it did.
    pub(crate) fn remove_task(&mut self, task: &TaskRecord) -> bool {
        self.remove_from_queue((task.run_id, task.id), task.status, task.options.sequential)
    }

    /// [`Work::remove_task`] by where the task stands.
    pub(crate) fn remove_from_queue(
        &mut self,
        key: (Uuid, Uuid),
        status: TaskStatus,
        sequential: bool,
    ) -> bool {
        self.loaded.tasks.remove(&key);
        self.loaded.standing.remove(&key);
        self.tasks.remove(&key);
        self.changes.delete_tasks.push(key);
        let run = self.run_mut(key.0);
        run.task_count -= 1;
        if !sequential {
            return false;
        }
        run.line_count -= 1;
        let was_head = status != TaskStatus::InLine;
        let moves = was_head && run.line_count > 0;
        if moves {
            self.lines.insert(key.0);
        }
        moves
    }

    /// Counts an activity that ended.
    pub(crate) fn count_activity(&mut self, task: &TaskRecord, outcome: RollupOutcome) {
        let attempts = task.attempts.iter().map(|attempt| attempt.started_at);
        let first = attempts.chain([task.claimed_at]).flatten().next();
        let wait_ms = millis_between(task.scheduled_at, first.unwrap_or(self.now));
        self.count(
            RollupKind::Activity,
            &task.activity_type,
            outcome,
            task.claimed_at,
            wait_ms,
        );
    }

    /// Writes the letter of a task that is dead, with the input that the task has in the queue.
    pub(crate) fn put_letter(&mut self, letter: DeadLetter) {
        if planted(Bug::DeadLetterForgotten) {
            return;
        }
        self.changes.bury_tasks.push(letter);
    }
}

/// The letter of a task that is dead, without its input.
pub(crate) fn dead_letter(
    task: &TaskRecord,
    failure: &Failure,
    parked: bool,
    now: durable_core::Timestamp,
) -> DeadLetter {
    let mut error_history = task.attempts.clone();
    note_attempt(&mut error_history, attempt_record(task, failure.clone()));
    DeadLetter {
        id: task.id,
        run_id: task.run_id,
        activity_id: task.activity_id.clone(),
        activity_type: task.activity_type.clone(),
        input: Payload::ABSENT,
        options: task.options.clone(),
        epoch: task.epoch,
        attempts: task.attempt,
        last_error: failure.clone(),
        error_history,
        parked,
        state: DeadLetterState::Dead,
        dead_at: now,
        requeued_at: None,
        requeue_count: task.requeue_count,
    }
}

/// Adds a failed attempt. The first and the last ones are kept, and the number of those between
/// them.
fn note_attempt(attempts: &mut Vec<AttemptRecord>, record: AttemptRecord) {
    attempts.push(record);
    let over = attempts
        .len()
        .saturating_sub(ATTEMPTS_FIRST_KEPT + ATTEMPTS_LAST_KEPT);
    if over == 0 {
        return;
    }
    let gone = attempts.drain(ATTEMPTS_FIRST_KEPT..ATTEMPTS_FIRST_KEPT + over);
    let omitted = gone.fold(0_u32, |sum, gone| {
        sum.saturating_add(1).saturating_add(gone.omitted_before)
    });
    if let Some(next) = attempts.get_mut(ATTEMPTS_FIRST_KEPT) {
        next.omitted_before = next.omitted_before.saturating_add(omitted);
    }
}

/// The task is nobody's.
pub(crate) fn clear_claim(task: &mut TaskRecord) {
    task.claimed_by = None;
    task.claimed_at = None;
    task.token = None;
    task.lease_expires_at = None;
    task.heartbeat_at = None;
}
