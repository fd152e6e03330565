//! Dead letters: written when a task fails for good, decided by people.

use durable_core::{AttemptRecord, Failure, Timestamp, WorkflowEvent};
use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::attempts::attempt_record;
use crate::persistence::limits::{ATTEMPTS_FIRST_KEPT, ATTEMPTS_LAST_KEPT};
use crate::persistence::model::after;
use crate::persistence::model::{
    DeadLetter, DeadLetterDecision, DeadLetterState, DecisionOutcome, DlqFilter, TaskRecord,
    TaskStatus, WorkflowStatus,
};
use crate::persistence::{Bug, planted};

impl State {
    /// Writes the letter of a task that failed for good.
    pub(super) fn put_dead_letter(
        &mut self,
        task: &TaskRecord,
        failure: Failure,
        parked: bool,
        now: Timestamp,
    ) {
        if planted(Bug::DeadLetterForgotten) {
            return;
        }
        let key = (task.run_id, task.id);
        let earlier = self.dead_letters.get(&key);
        let requeued_at = earlier.and_then(|letter| letter.requeued_at);
        let mut error_history = task.attempts.clone();
        keep_attempt(&mut error_history, attempt_record(task, failure.clone()));
        let letter = DeadLetter {
            id: task.id,
            run_id: task.run_id,
            activity_id: task.activity_id.clone(),
            activity_type: task.activity_type.clone(),
            input: task.input.clone(),
            options: task.options.clone(),
            epoch: task.epoch,
            attempts: task.attempt,
            last_error: failure,
            error_history,
            parked,
            state: DeadLetterState::Dead,
            dead_at: now,
            requeued_at,
            requeue_count: task.requeue_count,
        };
        self.dead_letters.insert(key, letter);
    }

    pub(super) fn decide_dead_letter(
        &mut self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
        now: Timestamp,
    ) -> DecisionOutcome {
        let Some(letter) = self.dead_letters.get(&(run_id, id)) else {
            return DecisionOutcome::NotFound;
        };
        if letter.state != DeadLetterState::Dead {
            return DecisionOutcome::AlreadyDecided(letter.state);
        }
        if letter.parked {
            self.decide_parked(run_id, id, decision, now)
        } else {
            self.decide_seen(run_id, id, &decision)
        }
    }

    /// The run waits for the decision, unless it has ended or dropped the task.
    fn decide_parked(
        &mut self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
        now: Timestamp,
    ) -> DecisionOutcome {
        if self.find(run_id).is_none_or(RunState::has_ended) {
            return DecisionOutcome::RunFinished;
        }
        let task = self.task(run_id, id);
        if task.is_none_or(|task| task.status != TaskStatus::Dead) {
            return DecisionOutcome::NotAwaited;
        }
        match decision {
            DeadLetterDecision::Requeue => {
                self.requeue_task(run_id, id, now);
                self.requeue_letter(run_id, id, now);
            }
            DeadLetterDecision::Complete { result } => {
                self.letter_mut(run_id, id).state = DeadLetterState::Completed;
                self.answer_parked(run_id, id, now, |activity_id| {
                    WorkflowEvent::ActivityCompleted {
                        activity_id,
                        result,
                    }
                });
            }
            DeadLetterDecision::Discard => {
                let letter = self.letter_mut(run_id, id);
                letter.state = DeadLetterState::Discarded;
                let error = letter.last_error.clone();
                self.answer_parked(run_id, id, now, |activity_id| {
                    WorkflowEvent::ActivityFailed {
                        activity_id,
                        error,
                        will_retry: false,
                    }
                });
            }
        }
        DecisionOutcome::Done
    }

    /// The run saw the failure when it happened.
    fn decide_seen(
        &mut self,
        run_id: Uuid,
        id: Uuid,
        decision: &DeadLetterDecision,
    ) -> DecisionOutcome {
        if *decision == DeadLetterDecision::Discard {
            self.letter_mut(run_id, id).state = DeadLetterState::Discarded;
            return DecisionOutcome::Done;
        }
        match self.find(run_id).map(|run| run.run().status) {
            None | Some(WorkflowStatus::Completed | WorkflowStatus::Cancelled) => {
                DecisionOutcome::RunFinished
            }
            Some(_) => DecisionOutcome::NeedsReset { run_id },
        }
    }

    /// The letter's activity is tried again; one that somebody has decided about stays as it is.
    pub(super) fn requeue_letter(&mut self, run_id: Uuid, id: Uuid, now: Timestamp) {
        if let Some(letter) = self.dead_letters.get_mut(&(run_id, id))
            && letter.state == DeadLetterState::Dead
        {
            letter.state = DeadLetterState::Requeued;
            letter.requeued_at = Some(now);
            letter.requeue_count += 1;
        }
    }

    /// The task begins anew, in its place in the line.
    fn requeue_task(&mut self, run_id: Uuid, task_id: Uuid, now: Timestamp) {
        let head = self.at(run_id).line_head().map(|task| task.id);
        self.edit_task(run_id, task_id, |task| {
            let waits = task.options.sequential && head != Some(task_id);
            task.status = if waits {
                TaskStatus::InLine
            } else {
                TaskStatus::Pending
            };
            task.attempt = 0;
            task.deliveries = 0;
            task.visible_at = now;
            let close = task.options.schedule_to_close_timeout;
            task.close_deadline = close.map(|timeout| after(now, timeout));
            task.requeue_count += 1;
        });
    }

    /// The task leaves and its run gets the answer.
    fn answer_parked(
        &mut self,
        run_id: Uuid,
        task_id: Uuid,
        now: Timestamp,
        event: impl FnOnce(String) -> WorkflowEvent,
    ) {
        let task = self
            .take_task(run_id, task_id)
            .expect("the caller found it");
        self.release_line(run_id, now);
        let event = event(task.activity_id);
        self.deliver_end(run_id, event, task.attempts, None, now);
    }

    fn letter_mut(&mut self, run_id: Uuid, id: Uuid) -> &mut DeadLetter {
        self.dead_letters
            .get_mut(&(run_id, id))
            .expect("the caller found it")
    }

    /// Letters that pass, newest death first, then by id.
    pub(super) fn list_dlq(&self, filter: &DlqFilter) -> Vec<&DeadLetter> {
        let mut letters: Vec<&DeadLetter> = self
            .dead_letters
            .values()
            .filter(|letter| passes(filter, letter))
            .collect();
        letters.sort_by_key(|letter| letter.rank());
        letters
    }

    pub(super) fn purge_dlq(&mut self, filter: &DlqFilter, max: usize) -> u64 {
        let is_awaited = |letter: &DeadLetter| {
            letter.parked
                && letter.state == DeadLetterState::Dead
                && self.task(letter.run_id, letter.id).is_some()
        };
        let gone: Vec<(Uuid, Uuid)> = self
            .list_dlq(filter)
            .into_iter()
            .filter(|letter| !is_awaited(letter))
            .take(max)
            .map(|letter| (letter.run_id, letter.id))
            .collect();
        for key in &gone {
            self.dead_letters.remove(key);
        }
        gone.len() as u64
    }
}

fn passes(filter: &DlqFilter, letter: &DeadLetter) -> bool {
    filter.id.is_none_or(|id| id == letter.id)
        && filter.run_id.is_none_or(|id| id == letter.run_id)
        && filter
            .activity_type
            .as_ref()
            .is_none_or(|name| *name == letter.activity_type)
        && filter.state.is_none_or(|state| state == letter.state)
        && filter.dead_before.is_none_or(|at| letter.dead_at < at)
        && filter.after.is_none_or(|after| letter.rank() > after)
}

/// Adds a failed attempt to a list that holds the first five and the last twenty.
pub(super) fn keep_attempt(attempts: &mut Vec<AttemptRecord>, attempt: AttemptRecord) {
    attempts.push(attempt);
    if attempts.len() > ATTEMPTS_FIRST_KEPT + ATTEMPTS_LAST_KEPT {
        let gone = attempts.remove(ATTEMPTS_FIRST_KEPT);
        attempts[ATTEMPTS_FIRST_KEPT].omitted_before += 1 + gone.omitted_before;
    }
}
