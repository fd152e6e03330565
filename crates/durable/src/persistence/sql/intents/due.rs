//! What becomes due by itself: deadlines of runs, timers, clocks of tasks.

use std::collections::BTreeSet;

use durable_core::{Failure, TimeoutType, Timestamp, WorkflowEvent, error_types};
use uuid::Uuid;

use crate::persistence::limits::fitting;
use crate::persistence::model::{FinishOutcome, Fired, TaskRecord, TaskStatus, after};
use crate::persistence::sql::rows::{Changes, Load, TaskFound};
use crate::persistence::sql::rules::tasks::Finality;
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};
use crate::persistence::{AsideKind, Bug, StoreResult, planted};

/// How much of each kind to handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) runs: usize,
    pub(crate) timers: usize,
    pub(crate) tasks: usize,
}

impl Shares {
    /// Some of one kind.
    pub(crate) const fn only(kind: AsideKind, max: usize) -> Self {
        let mut shares = Self::all(0);
        match kind {
            AsideKind::Deadline => shares.runs = max,
            AsideKind::Timer => shares.timers = max,
            AsideKind::Task
            | AsideKind::Lease
            | AsideKind::Message
            | AsideKind::Turn
            | AsideKind::Result => shares.tasks = max,
        }
        shares
    }

    /// The same of each.
    pub(crate) const fn all(max: usize) -> Self {
        Self {
            runs: max,
            timers: max,
            tasks: max,
        }
    }

    /// Whether nothing is to be handled.
    pub(crate) const fn is_none(&self) -> bool {
        self.runs == 0 && self.timers == 0 && self.tasks == 0
    }
}

/// Handles what is due in one shard, but for what belongs to some runs. `next_due` is left to
/// [`NextDue`].
#[derive(Debug, Clone)]
pub(crate) struct FireShard {
    pub(crate) shard: i32,
    pub(crate) max: Shares,
    pub(crate) except: Vec<Uuid>,
    pub(crate) jitter: f64,
    pub(crate) now: Option<Timestamp>,
}

/// What was due in a shard.
#[derive(Debug, Default)]
pub(crate) struct FiredShard {
    pub(crate) fired: Fired,
    /// How many items its lists had.
    pub(crate) listed: usize,
    /// Runs that another transaction has locked: what is due of theirs was left alone.
    pub(crate) busy: BTreeSet<Uuid>,
    /// What may be due beyond this: as much of a kind as was left alone, or did not fit, where its
    /// list was full.
    pub(crate) left: Option<Shares>,
    /// Whether runs are left whose unread signals did not fit: what else is due comes before them.
    pub(crate) heavy: bool,
}

impl Intent for FireShard {
    type Answer = FiredShard;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let (shard, max, except) = (self.shard, self.max, self.except.as_slice());
        let mut runs = Vec::new();
        if max.runs > 0 {
            runs = tx.due_runs(shard, max.runs, except).await?;
        }
        let mut timers = Vec::new();
        if max.timers > 0 {
            timers = tx.due_timers(shard, max.timers, except).await?;
        }
        let mut found = Vec::new();
        if max.tasks > 0 {
            found = tx.due_tasks(shard, max.tasks, except).await?;
        }
        let full = Shares {
            runs: usize::from(runs.len() == max.runs),
            timers: usize::from(timers.len() == max.timers),
            tasks: usize::from(found.len() == max.tasks),
        };
        let listed = runs.len() + timers.len() + found.len();
        let fit = fitting(found.iter().map(|task| task.bytes));
        let unfit = found.split_off(fit).len();
        let tasks: Vec<(Uuid, Uuid)> = found.iter().map(TaskFound::key).collect();
        let all = runs.iter().chain(timers.iter().map(|(run, _)| run));
        let all: BTreeSet<Uuid> = all
            .chain(tasks.iter().map(|(run, _)| run))
            .copied()
            .collect();
        if all.is_empty() {
            return Ok((
                FiredShard::default(),
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
            unread_of: runs.iter().map(|run_id| (*run_id, i64::MIN)).collect(),
            passing: true,
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let busy = std::mem::take(&mut work.loaded.busy);
        // The signals that wait for a run move into its history when it ends: a transaction ends as
        // many runs as have no more bytes than fit, and one in any case.
        let fit = fitting(runs.iter().map(|run| work.unread_bytes(*run)));
        let heavy: BTreeSet<Uuid> = runs.split_off(fit).into_iter().collect();
        timers.retain(|(run, _)| !heavy.contains(run));
        let tasks: Vec<_> = tasks
            .into_iter()
            .filter(|(run, _)| !heavy.contains(run))
            .collect();
        let count = |full: usize, busy: usize| full * busy;
        let left = Shares {
            runs: count(
                full.runs,
                runs.iter().filter(|run| busy.contains(*run)).count(),
            ),
            timers: count(
                full.timers,
                timers.iter().filter(|(run, _)| busy.contains(run)).count(),
            ),
            tasks: unfit
                + count(
                    full.tasks,
                    tasks.iter().filter(|(run, _)| busy.contains(run)).count(),
                ),
        };
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
        let answer = FiredShard {
            fired,
            listed,
            busy,
            left: (!left.is_none()).then_some(left),
            heavy: !heavy.is_empty(),
        };
        Ok((answer, work.finish()))
    }
}

/// Whose item is the first of a list.
#[derive(Debug)]
pub(crate) struct FirstOf {
    pub(crate) kind: AsideKind,
    pub(crate) shard: i32,
    pub(crate) except: Vec<Uuid>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for FirstOf {
    type Answer = Option<Uuid>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let (shard, except) = (self.shard, self.except.as_slice());
        let first = match self.kind {
            AsideKind::Deadline => tx.due_runs(shard, 1, except).await?.pop(),
            AsideKind::Timer => {
                let first = tx.due_timers(shard, 1, except).await?.pop();
                first.map(|(run_id, _)| run_id)
            }
            AsideKind::Task => {
                let first = tx.due_tasks(shard, 1, except).await?.pop();
                first.map(|task| task.run_id)
            }
            AsideKind::Lease => {
                let first = tx.expired_leases(shard, 1, except).await?.pop();
                first.map(|task| task.run_id)
            }
            AsideKind::Message => {
                let first = tx.pick_messages(shard, 1, except).await?.messages.pop();
                first.map(|message| message.sender)
            }
            // The engine sets these aside itself: there is no list of them to look in.
            AsideKind::Turn | AsideKind::Result => None,
        };
        Ok((first, Changes::default()))
    }
}

/// Reads the next instant at which something is due, but for what belongs to some runs.
#[derive(Debug)]
pub(crate) struct NextDue {
    pub(crate) except: Vec<Uuid>,
}

impl Intent for NextDue {
    type Answer = Option<Timestamp>;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        Ok((tx.next_due(&self.except).await?, Changes::default()))
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
