//! Dead letters are decided.

use durable_core::{Timestamp, WorkflowEvent};
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    DeadLetter, DeadLetterDecision, DeadLetterState, DecisionOutcome, TaskRecord, TaskStatus,
    WorkflowStatus, after,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};

/// Decides about a letter.
#[derive(Debug)]
pub(crate) struct DecideDeadLetter {
    pub(crate) run_id: Uuid,
    pub(crate) id: Uuid,
    pub(crate) decision: DeadLetterDecision,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for DecideDeadLetter {
    type Answer = DecisionOutcome;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let key = (self.run_id, self.id);
        let load = Load {
            runs: vec![self.run_id],
            tasks: vec![key],
            lines_of: vec![self.run_id],
            letters: vec![key],
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let outcome = work.decide(key, &self.decision);
        Ok((outcome, work.finish()))
    }
}

impl Work {
    fn decide(&mut self, key: (Uuid, Uuid), decision: &DeadLetterDecision) -> DecisionOutcome {
        let Some(letter) = self.loaded.letters.get(&key).cloned() else {
            return DecisionOutcome::NotFound;
        };
        if letter.state != DeadLetterState::Dead {
            return DecisionOutcome::AlreadyDecided(letter.state);
        }
        if !letter.parked {
            return self.decide_seen(letter, decision);
        }
        let open = self.run(key.0).is_some_and(|run| !run.status.is_terminal());
        let task = self
            .loaded
            .tasks
            .get(&key)
            .filter(|task| task.status == TaskStatus::Dead);
        match task.filter(|_| open).cloned() {
            Some(task) => self.decide_parked(letter, task, decision),
            None if open => DecisionOutcome::NotAwaited,
            None => DecisionOutcome::RunFinished,
        }
    }

    /// The letter's activity is tried again by a turn.
    pub(crate) fn requeue_letter(&mut self, key: (Uuid, Uuid)) {
        let letter = self.loaded.letters.get(&key);
        let dead = letter.filter(|letter| letter.state == DeadLetterState::Dead);
        if let Some(letter) = dead.cloned() {
            self.put_back(letter);
        }
    }

    fn put_back(&mut self, mut letter: DeadLetter) {
        letter.requeued_at = Some(self.now);
        letter.requeue_count += 1;
        self.resolve(letter, DeadLetterState::Requeued);
    }

    /// The run saw the failure: all that can be done here is to put the letter away.
    fn decide_seen(
        &mut self,
        letter: DeadLetter,
        decision: &DeadLetterDecision,
    ) -> DecisionOutcome {
        if *decision == DeadLetterDecision::Discard {
            self.resolve(letter, DeadLetterState::Discarded);
            return DecisionOutcome::Done;
        }
        let resettable = self.run(letter.run_id).is_some_and(|run| {
            !matches!(
                run.status,
                WorkflowStatus::Completed | WorkflowStatus::Cancelled
            )
        });
        if resettable {
            DecisionOutcome::NeedsReset {
                run_id: letter.run_id,
            }
        } else {
            DecisionOutcome::RunFinished
        }
    }

    fn decide_parked(
        &mut self,
        letter: DeadLetter,
        task: TaskRecord,
        decision: &DeadLetterDecision,
    ) -> DecisionOutcome {
        let activity_id = task.activity_id.clone();
        match decision {
            DeadLetterDecision::Requeue => {
                self.requeue(task);
                self.put_back(letter);
            }
            DeadLetterDecision::Complete { result } => {
                let result = result.clone();
                self.end_activity(
                    &task,
                    WorkflowEvent::ActivityCompleted {
                        activity_id,
                        result,
                    },
                );
                self.resolve(letter, DeadLetterState::Completed);
            }
            DeadLetterDecision::Discard => {
                let error = letter.last_error.clone();
                let event = WorkflowEvent::ActivityFailed {
                    activity_id,
                    error,
                    will_retry: false,
                };
                self.end_activity(&task, event);
                self.resolve(letter, DeadLetterState::Discarded);
            }
        }
        DecisionOutcome::Done
    }

    /// Back to its place in the line; mostly it is the head, but its time may also have run out while it was in line.
    fn requeue(&mut self, mut task: TaskRecord) {
        let first = self.loaded.lines.get(&task.run_id);
        let behind = task.options.sequential && first.is_some_and(|first| *first < task.line);
        task.status = if behind {
            TaskStatus::InLine
        } else {
            TaskStatus::Pending
        };
        task.attempt = 0;
        task.deliveries = 0;
        task.visible_at = self.now;
        task.close_deadline = task
            .options
            .schedule_to_close_timeout
            .map(|timeout| after(self.now, timeout));
        task.requeue_count += 1;
        self.update_task(task);
    }

    fn resolve(&mut self, mut letter: DeadLetter, state: DeadLetterState) {
        letter.state = state;
        self.changes.put_letters.push(letter);
    }
}
