//! What becomes due by itself: deadlines of runs, timers, clocks of tasks.

use std::collections::BTreeSet;

use durable_core::{Failure, TimeoutType, Timestamp, WorkflowEvent, error_types};
use uuid::Uuid;

use crate::persistence::model::{FinishOutcome, Fired, TaskRecord, TaskStatus, after};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::tasks::Finality;
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};
use crate::persistence::{Bug, StoreResult, planted};

/// Handles what is due in one shard. `next_due` is left to [`NextDue`].
#[derive(Debug)]
pub(crate) struct FireShard {
    pub(crate) shard: i32,
    pub(crate) max: usize,
    pub(crate) jitter: f64,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for FireShard {
    type Answer = Fired;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let runs = tx.due_runs(self.shard, self.max).await?;
        let timers = tx.due_timers(self.shard, self.max).await?;
        let tasks = tx.due_tasks(self.shard, self.max).await?;
        let all = runs.iter().chain(timers.iter().map(|(run, _)| run));
        let all: BTreeSet<Uuid> = all
            .chain(tasks.iter().map(|(run, _)| run))
            .copied()
            .collect();
        if all.is_empty() {
            return Ok((
                Fired::default(),
                Changes {
                    now: tx.now().await?,
                    ..Changes::default()
                },
            ));
        }
        let load = Load {
            runs: all.into_iter().collect(),
            tasks: tasks.clone(),
            timers: timers.clone(),
            facts_of: runs.clone(),
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let mut fired = Fired::default();
        let mut told = BTreeSet::new();
        fired.runs_timed_out = runs
            .into_iter()
            .filter(|run| work.time_out_run(*run))
            .collect();
        for timer in timers {
            if work.fire_timer(&timer) {
                fired.timers += 1;
                told.insert(timer.0);
            }
        }
        for key in tasks {
            match work.handle_clock(key, self.jitter) {
                Clock::NotDue => {}
                Clock::Ready { activity_type } => {
                    fired.tasks_ready += 1;
                    fired.claimable_types.insert(activity_type);
                }
                Clock::TimedOut {
                    activity_type,
                    outcome,
                } => {
                    fired.tasks_timed_out += 1;
                    if let FinishOutcome::Recorded { line_moved, .. } = outcome {
                        told.insert(key.0);
                        let next = line_moved.then_some(activity_type);
                        fired.claimable_types.extend(next);
                    }
                }
            }
        }
        fired.ready_runs = told.into_iter().collect();
        Ok((fired, work.finish()))
    }
}

/// Reads the next instant at which something is due.
#[derive(Debug)]
pub(crate) struct NextDue;

impl Intent for NextDue {
    type Answer = Option<Timestamp>;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        Ok((tx.next_due().await?, Changes::default()))
    }
}

/// What a task's clock said.
enum Clock {
    NotDue,
    Ready {
        activity_type: String,
    },
    TimedOut {
        activity_type: String,
        outcome: FinishOutcome,
    },
}

impl Work {
    fn time_out_run(&mut self, run_id: Uuid) -> bool {
        let now = self.now;
        let Some(run) = self.run(run_id) else {
            return false;
        };
        if run.deadline_at().is_none_or(|at| at > now) {
            return false;
        }
        let whole = run.execution_deadline.is_some_and(|at| at <= now);
        let (error_type, message) = if whole {
            (
                error_types::EXECUTION_TIMEOUT,
                "the time for the whole execution ran out",
            )
        } else {
            (error_types::RUN_TIMEOUT, "the time for this run ran out")
        };
        self.end_by_store(run_id, Failure::new(error_type, message).non_retryable());
        true
    }

    fn fire_timer(&mut self, key: &(Uuid, String)) -> bool {
        let Some(timer) = self.loaded.timers.get(key) else {
            return false;
        };
        let open = self.run(key.0).is_some_and(|run| !run.status.is_terminal());
        if timer.fire_at > self.now || !open {
            return false;
        }
        if !planted(Bug::TimerFiresTwice) {
            self.changes.delete_timers.push(key.clone());
        }
        self.deliver(
            key.0,
            WorkflowEvent::TimerFired {
                timer_id: key.1.clone(),
            },
        );
        true
    }

    /// Looks again under the lock, then lets the clock that ran out have its effect.
    fn handle_clock(&mut self, key: (Uuid, Uuid), jitter: f64) -> Clock {
        let now = self.now;
        let open = self.run(key.0).is_some_and(|run| !run.status.is_terminal());
        let Some(task) = self.loaded.tasks.get(&key).filter(|_| open).cloned() else {
            return Clock::NotDue;
        };
        if task.timeout_at().is_none_or(|at| at > now) {
            return Clock::NotDue;
        }
        let activity_type = task.activity_type.clone();
        if task.close_deadline.is_some_and(|at| at <= now) {
            let why = Finality::TimedOut(TimeoutType::ScheduleToClose);
            let outcome = self.fail_for_good(task, why);
            return Clock::TimedOut {
                activity_type,
                outcome,
            };
        }
        match task.status {
            TaskStatus::Delayed | TaskStatus::Parked => {
                let ready = TaskRecord {
                    status: TaskStatus::Pending,
                    visible_at: now,
                    ..task
                };
                self.update_task(ready);
                Clock::Ready { activity_type }
            }
            TaskStatus::Pending => {
                let why = Finality::TimedOut(TimeoutType::ScheduleToStart);
                Clock::TimedOut {
                    activity_type,
                    outcome: self.fail_for_good(task, why),
                }
            }
            TaskStatus::Claimed => {
                let started = task.claimed_at.unwrap_or(task.visible_at);
                let overtime = after(started, task.options.start_to_close_timeout) <= now;
                let clock = if overtime {
                    TimeoutType::StartToClose
                } else {
                    TimeoutType::Heartbeat
                };
                Clock::TimedOut {
                    activity_type,
                    outcome: self.fail_attempt(task, Finality::TimedOut(clock), jitter),
                }
            }
            TaskStatus::InLine | TaskStatus::Dead => Clock::NotDue,
        }
    }
}
