//! What becomes due by itself: deadlines, timers, the clocks of tasks.

use std::collections::BTreeSet;

use durable_core::{Failure, TimeoutType, Timestamp, WorkflowEvent, error_types};
use uuid::Uuid;

use super::accept::timer_horizon;
use super::clock::later;
use super::index::{clock, first_due};
use super::state::State;
use super::task::FinalEnd;
use crate::persistence::model::{FinishOutcome, FireDue, Fired, TaskRecord, TaskStatus};

/// Which of a task's clocks ran out.
enum Ran {
    /// A delay: the task may be claimed.
    Delay,
    /// The task is over.
    Out(TimeoutType),
    /// One attempt is over.
    AttemptOut(TimeoutType),
}

impl State {
    /// Shard by shard; each list is made when its turn comes, and each item looked at again.
    pub(super) fn fire_due(&mut self, due: &FireDue, now: Timestamp) -> Fired {
        let mut fired = Fired::default();
        let mut ready = BTreeSet::new();
        for shard in self.shards.from(due.first_shard) {
            self.end_late_runs(shard, due.max, &mut fired, now);
            self.fire_timers(shard, due.max, &mut fired, &mut ready, now);
            self.run_clocks(shard, due, &mut fired, &mut ready, now);
        }
        fired.ready_runs = ready.into_iter().collect();
        fired.next_due = self.next_due();
        fired
    }

    fn end_late_runs(&mut self, shard: i32, max: usize, fired: &mut Fired, now: Timestamp) {
        for (_, run_id) in first_due(&self.shard(shard).deadlines, |key| key.0, now, max) {
            let execution = self.at(run_id).run().execution_deadline;
            let (error_type, message) = if execution.is_some_and(|at| at <= now) {
                let message = "the time for the whole execution ran out";
                (error_types::EXECUTION_TIMEOUT, message)
            } else {
                (error_types::RUN_TIMEOUT, "the time for this run ran out")
            };
            let error = Failure::new(error_type, message).non_retryable();
            self.end_by_store(run_id, error, now);
            fired.runs_timed_out += 1;
        }
    }

    fn fire_timers(
        &mut self,
        shard: i32,
        max: usize,
        fired: &mut Fired,
        ready: &mut BTreeSet<Uuid>,
        now: Timestamp,
    ) {
        let horizon = timer_horizon(now);
        for (_, run_id, timer_id) in first_due(&self.shard(shard).timers, |key| key.0, horizon, max)
        {
            self.take_timer(run_id, &timer_id);
            self.deliver(run_id, WorkflowEvent::TimerFired { timer_id }, now);
            fired.timers += 1;
            ready.insert(run_id);
        }
    }

    fn run_clocks(
        &mut self,
        shard: i32,
        due: &FireDue,
        fired: &mut Fired,
        ready: &mut BTreeSet<Uuid>,
        now: Timestamp,
    ) {
        for (_, task_id, run_id) in first_due(&self.shard(shard).clocks, |key| key.0, now, due.max)
        {
            // A task before it in the list may have moved its run's line.
            let task = &self.at(run_id).tasks()[&task_id];
            let Some(ran) = which_clock(task, now) else {
                continue;
            };
            let told = match ran {
                Ran::Delay => {
                    self.edit_task(run_id, task_id, |task| {
                        task.status = TaskStatus::Pending;
                        task.visible_at = now;
                    });
                    fired.tasks_ready += 1;
                    continue;
                }
                Ran::Out(timeout) => self
                    .end_task(run_id, task_id, FinalEnd::TimedOut(timeout), now)
                    .is_some(),
                Ran::AttemptOut(timeout) => {
                    let end = FinalEnd::TimedOut(timeout);
                    let outcome = self.end_attempt(run_id, task_id, end, due.jitter, now);
                    matches!(outcome, FinishOutcome::Recorded { .. })
                }
            };
            fired.tasks_timed_out += 1;
            if told {
                ready.insert(run_id);
            }
        }
    }
}

fn which_clock(task: &TaskRecord, now: Timestamp) -> Option<Ran> {
    if clock(task).is_none_or(|at| at > now) {
        return None;
    }
    if task.close_deadline.is_some_and(|at| at <= now) {
        return Some(Ran::Out(TimeoutType::ScheduleToClose));
    }
    match task.status {
        TaskStatus::Delayed => Some(Ran::Delay),
        TaskStatus::Pending => Some(Ran::Out(TimeoutType::ScheduleToStart)),
        TaskStatus::Claimed => {
            let started = task.claimed_at.unwrap_or(task.visible_at);
            let close = later(started, task.options.start_to_close_timeout);
            Some(Ran::AttemptOut(if close <= now {
                TimeoutType::StartToClose
            } else {
                TimeoutType::Heartbeat
            }))
        }
        TaskStatus::InLine | TaskStatus::Parked | TaskStatus::Dead => None,
    }
}
