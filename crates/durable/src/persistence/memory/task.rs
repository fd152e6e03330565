//! Results of attempts: retries, final ends, and the leases in between.

use std::time::Duration;

use durable_core::{
    ExhaustedPolicy, Failure, Payload, RetryDecision, TimeoutType, Timestamp, WorkflowEvent,
    error_types,
};
use uuid::Uuid;

use super::dead_letter::keep_attempt;
use super::index::first_due;
use super::queue::{clear_claim, held_the_line, take_back};
use super::state::State;
use crate::persistence::attempts::attempt_record;
use crate::persistence::limits::DELIVERIES_MAX;
use crate::persistence::model::after;
use crate::persistence::model::{
    FinishOutcome, FinishedTask, LastAttempt, LeaseExtension, LeaseState, ReapLeases, ReapedTask,
    RollupKind, RollupOutcome, TaskEnd, TaskOutcome, TaskRecord, TaskResult, TaskStatus,
};
use crate::persistence::{Bug, planted};

/// How a task ends for good outside a turn.
pub(super) enum FinalEnd {
    Completed(Payload),
    Cancelled(String),
    Failed(Failure),
    TimedOut(TimeoutType),
}

impl FinalEnd {
    /// What went wrong, if something did.
    fn failure(&self) -> Option<Failure> {
        match self {
            Self::Completed(_) | Self::Cancelled(_) => None,
            Self::Failed(failure) => Some(failure.clone()),
            Self::TimedOut(timeout) => Some(timeout.failure()),
        }
    }

    fn outcome(&self) -> RollupOutcome {
        match self {
            Self::Completed(_) => RollupOutcome::Completed,
            Self::Cancelled(_) => RollupOutcome::Cancelled,
            Self::Failed(_) | Self::TimedOut(_) => RollupOutcome::Failed,
        }
    }

    fn event(self, activity_id: String) -> WorkflowEvent {
        match self {
            Self::Completed(result) => WorkflowEvent::ActivityCompleted {
                activity_id,
                result,
            },
            Self::Cancelled(reason) => WorkflowEvent::ActivityCancelled {
                activity_id,
                reason,
            },
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

impl State {
    pub(super) fn finish_task(&mut self, result: TaskResult, now: Timestamp) -> FinishOutcome {
        let lease = &result.lease;
        let task = if planted(Bug::UnfencedFinish) {
            self.task(lease.run_id, lease.task_id)
        } else {
            self.leased(lease)
        };
        let Some((run_id, task_id)) = task.map(|task| (task.run_id, task.id)) else {
            return FinishOutcome::LeaseLost;
        };
        self.add_step_logs(run_id, result.step_logs, now);
        let end = match result.outcome {
            TaskOutcome::Completed { result } => FinalEnd::Completed(result),
            TaskOutcome::Cancelled { reason } => FinalEnd::Cancelled(reason),
            TaskOutcome::Failed { failure } => FinalEnd::Failed(failure),
        };
        self.end_attempt(run_id, task_id, end, result.jitter, now)
    }

    /// An attempt ended: the policy decides whether a failure is the end of the task.
    pub(super) fn end_attempt(
        &mut self,
        run_id: Uuid,
        task_id: Uuid,
        end: FinalEnd,
        jitter: f64,
        now: Timestamp,
    ) -> FinishOutcome {
        let task = &self.at(run_id).tasks()[&task_id];
        if let Some(failure) = end.failure() {
            let policy = &task.options.retry_policy;
            if let RetryDecision::Retry(delay) = policy.decide(task.attempt, &failure, jitter) {
                return self.retry_task(run_id, task_id, failure, delay, now);
            }
        }
        match self.end_task(run_id, task_id, end, now) {
            Some((arrival, line_moved)) => FinishOutcome::Recorded {
                arrival,
                line_moved,
            },
            None => FinishOutcome::Parked,
        }
    }

    fn retry_task(
        &mut self,
        run_id: Uuid,
        task_id: Uuid,
        failure: Failure,
        delay: Duration,
        now: Timestamp,
    ) -> FinishOutcome {
        let visible_at = after(now, delay);
        self.edit_task(run_id, task_id, |task| {
            let record = attempt_record(task, failure);
            keep_attempt(&mut task.attempts, record);
            clear_claim(task);
            task.status = TaskStatus::Delayed;
            task.visible_at = visible_at;
            task.deliveries = 0;
        });
        FinishOutcome::Retrying { visible_at }
    }

    /// A task's final end outside a turn; answers the arrival of its fact and whether the line moved up, none when it is parked.
    pub(super) fn end_task(
        &mut self,
        run_id: Uuid,
        task_id: Uuid,
        end: FinalEnd,
        now: Timestamp,
    ) -> Option<(i64, bool)> {
        let task = self
            .take_task(run_id, task_id)
            .expect("the caller found it");
        self.count_task(&task, end.outcome(), now);
        if let Some(failure) = end.failure() {
            let parks = task.options.on_exhausted == ExhaustedPolicy::Park;
            self.put_dead_letter(&task, failure.clone(), parks, now);
            if parks {
                self.park_task(task, failure, now);
                return None;
            }
        }
        let line_moved = held_the_line(&task) && self.at(run_id).line_head().is_some();
        self.release_line(run_id, now);
        if end.failure().is_some() && planted(Bug::LineReleasedByFailure) {
            self.release_next(run_id);
        }
        let last_attempt = last_attempt(&task);
        let event = end.event(task.activity_id);
        let arrival = self.deliver_end(run_id, event, task.attempts, last_attempt, now);
        Some((arrival, line_moved))
    }

    /// Planted: the first that is in line may be claimed, whatever is ahead of it.
    fn release_next(&mut self, run_id: Uuid) {
        let tasks = self.at(run_id).tasks().values();
        let in_line = tasks.filter(|task| task.status == TaskStatus::InLine);
        if let Some(next) = in_line.min_by_key(|task| task.line).map(|task| task.id) {
            self.edit_task(run_id, next, |task| task.status = TaskStatus::Pending);
        }
    }

    /// The task keeps its place in the line until its dead letter is decided.
    fn park_task(&mut self, mut task: TaskRecord, failure: Failure, now: Timestamp) {
        let record = attempt_record(&task, failure);
        keep_attempt(&mut task.attempts, record);
        clear_claim(&mut task);
        task.visible_at = now;
        task.status = TaskStatus::Dead;
        self.put_task(task);
    }

    /// An activity that ended with its run's turn: the turn tells, so there is no fact. Answers whether it held the line.
    pub(super) fn finish_in_turn(&mut self, finished: FinishedTask, now: Timestamp) -> bool {
        let lease = finished.lease;
        let task = self
            .take_task(lease.run_id, lease.task_id)
            .expect("the turn was accepted");
        let outcome = match finished.end {
            TaskEnd::Completed => RollupOutcome::Completed,
            TaskEnd::Cancelled => RollupOutcome::Cancelled,
            TaskEnd::Failed(failure) => {
                self.put_dead_letter(&task, failure, false, now);
                RollupOutcome::Failed
            }
        };
        self.count_task(&task, outcome, now);
        held_the_line(&task)
    }

    fn count_task(&mut self, task: &TaskRecord, outcome: RollupOutcome, now: Timestamp) {
        let (name, began) = (&task.activity_type, task.claimed_at.unwrap_or(now));
        let first = task.attempts.iter().find_map(|attempt| attempt.started_at);
        let first = first.or(task.claimed_at).unwrap_or(now);
        let waited = [task.scheduled_at, first];
        self.rollups
            .count(RollupKind::Activity, name, outcome, began, waited, now);
    }

    pub(super) fn extend_lease(&mut self, extension: LeaseExtension, now: Timestamp) -> LeaseState {
        let lease = &extension.lease;
        if self.leased(lease).is_none() {
            return LeaseState::Lost;
        }
        let expires_at = after(now, extension.extend);
        self.edit_task(lease.run_id, lease.task_id, |task| {
            task.lease_expires_at = Some(expires_at);
            if let Some(details) = extension.heartbeat {
                task.heartbeat_at = Some(now);
                task.heartbeat_details = details;
            }
        });
        LeaseState::Extended { expires_at }
    }

    /// Takes back tasks whose lease has run out. The index is looked at under the lock that every extension
    /// takes, so what it says is the re-check.
    pub(super) fn reap_leases(&mut self, reap: &ReapLeases, now: Timestamp) -> Vec<ReapedTask> {
        let horizon = if planted(Bug::ReaperWithoutRecheck) {
            after(now, Duration::from_secs(60))
        } else {
            now
        };
        let mut reaped = Vec::new();
        for shard in self.shards.from(reap.first_shard) {
            let leases = &self.shard(shard).leases;
            let max = reap.max - reaped.len();
            for (_, task_id, run_id) in first_due(leases, |key| key.0, horizon, max) {
                reaped.push(self.reap_task(run_id, task_id, now));
            }
        }
        reaped
    }

    fn reap_task(&mut self, run_id: Uuid, task_id: Uuid, now: Timestamp) -> ReapedTask {
        let task = &self.at(run_id).tasks()[&task_id];
        let activity_type = task.activity_type.clone();
        let deliveries = task.deliveries;
        let dead = deliveries >= DELIVERIES_MAX;
        if dead {
            let message = format!("handed out {deliveries} times without an answer");
            let failure = Failure::new(error_types::DELIVERIES_EXHAUSTED, message).non_retryable();
            self.end_task(run_id, task_id, FinalEnd::Failed(failure), now);
        } else {
            self.edit_task(run_id, task_id, |task| take_back(task, now));
        }
        ReapedTask {
            run_id,
            task_id,
            activity_type,
            dead,
        }
    }
}

/// The attempt that ended a task, if one was under way.
fn last_attempt(task: &TaskRecord) -> Option<LastAttempt> {
    task.claimed_at.map(|started_at| LastAttempt {
        attempt: task.attempt,
        worker_id: task.claimed_by.clone().unwrap_or_default(),
        started_at,
    })
}
