//! What becomes due by itself: deadlines, timers, the clocks of tasks.

use std::collections::BTreeSet;

use durable_core::{Failure, TimeoutType, Timestamp, WorkflowEvent, error_types};
use uuid::Uuid;

use super::accept::timer_horizon;
use super::index::{clock, first_due};
use super::state::State;
use super::task::FinalEnd;
use crate::persistence::model::after;
use crate::persistence::model::{FinishOutcome, FireDue, Fired, TaskRecord, TaskStatus};
use crate::persistence::{Bug, planted};

/// Which of a task's clocks ran out.
enum Ran {
    /// A delay or the time it was parked for: the task may be claimed.
    Delay,
    /// The task is over.
    Out(TimeoutType),
    /// One attempt is over.
    AttemptOut(TimeoutType),
}

impl State {
    /// Shard by shard: first the three lists, then each item is looked at again, since a run that ends takes its
    /// timers and tasks along and a task that ends moves its run's line.
    pub(super) fn fire_due(&mut self, due: &FireDue, now: Timestamp) -> Fired {
        let mut fired = Fired::default();
        let mut ready = BTreeSet::new();
        for shard in self.shards.from(due.first_shard) {
            let index = self.shard(shard);
            let runs = first_due(&index.deadlines, |key| key.0, now, due.max);
            let timers = first_due(&index.timers, |key| key.0, timer_horizon(now), due.max);
            let tasks = first_due(&index.clocks, |key| key.0, now, due.max);
            for (_, run_id) in runs {
                self.end_late_run(run_id, now);
                fired.runs_timed_out.push(run_id);
            }
            for (_, run_id, timer_id) in timers {
                if let Some(timer) = self.take_timer(run_id, &timer_id) {
                    if planted(Bug::TimerFiresTwice) {
                        self.put_timer(timer);
                    }
                    self.deliver(run_id, WorkflowEvent::TimerFired { timer_id }, now);
                    fired.timers += 1;
                    ready.insert(run_id);
                }
            }
            // One that stood in line when the call began made way for nobody, although those ahead of it may have left since.
            let is_in_line = |task: &TaskRecord| task.status == TaskStatus::InLine;
            let stood_in_line: Vec<bool> = tasks
                .iter()
                .map(|(_, task_id, run_id)| self.task(*run_id, *task_id).is_some_and(is_in_line))
                .collect();
            for ((_, task_id, run_id), in_line) in tasks.into_iter().zip(stood_in_line) {
                let (told, claimable) =
                    self.run_clock(run_id, task_id, due.jitter, &mut fired, now);
                if told {
                    ready.insert(run_id);
                }
                let claimable = claimable.filter(|_| !in_line);
                fired.claimable_types.extend(claimable);
            }
        }
        fired.runs_timed_out.sort_unstable();
        fired.ready_runs = ready.into_iter().collect();
        fired.next_due = self.next_due();
        fired
    }

    fn end_late_run(&mut self, run_id: Uuid, now: Timestamp) {
        let execution = self.at(run_id).run().execution_deadline;
        let (error_type, message) = if execution.is_some_and(|at| at <= now) {
            let message = "the time for the whole execution ran out";
            (error_types::EXECUTION_TIMEOUT, message)
        } else {
            (error_types::RUN_TIMEOUT, "the time for this run ran out")
        };
        let error = Failure::new(error_type, message).non_retryable();
        self.end_by_store(run_id, error, now);
    }

    /// Lets the clock that ran out have its effect; answers whether the run was told something, and the type of the task that may be claimed
    /// or made way in its line.
    fn run_clock(
        &mut self,
        run_id: Uuid,
        task_id: Uuid,
        jitter: f64,
        fired: &mut Fired,
        now: Timestamp,
    ) -> (bool, Option<String>) {
        let task = self.task(run_id, task_id);
        let Some((task, ran)) = task.and_then(|task| Some((task, which_clock(task, now)?))) else {
            return (false, None);
        };
        let activity_type = task.activity_type.clone();
        let (told, claimable) = match ran {
            Ran::Delay => {
                fired.tasks_ready += 1;
                self.edit_task(run_id, task_id, |task| {
                    task.status = TaskStatus::Pending;
                    task.visible_at = now;
                });
                (false, true)
            }
            Ran::Out(timeout) => {
                fired.tasks_timed_out += 1;
                let end = FinalEnd::TimedOut(timeout);
                let ended = self.end_task(run_id, task_id, end, now);
                (
                    ended.is_some(),
                    ended.is_some_and(|(_, line_moved)| line_moved),
                )
            }
            Ran::AttemptOut(timeout) => {
                fired.tasks_timed_out += 1;
                let end = FinalEnd::TimedOut(timeout);
                match self.end_attempt(run_id, task_id, end, jitter, now) {
                    FinishOutcome::Recorded { line_moved, .. } => (true, line_moved),
                    _ => (false, false),
                }
            }
        };
        (told, claimable.then_some(activity_type))
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
        TaskStatus::Delayed | TaskStatus::Parked => Some(Ran::Delay),
        TaskStatus::Pending => Some(Ran::Out(TimeoutType::ScheduleToStart)),
        TaskStatus::Claimed => {
            let started = task.claimed_at.unwrap_or(task.visible_at);
            let close = after(started, task.options.start_to_close_timeout);
            Some(Ran::AttemptOut(if close <= now {
                TimeoutType::StartToClose
            } else {
                TimeoutType::Heartbeat
            }))
        }
        TaskStatus::InLine | TaskStatus::Dead => None,
    }
}
