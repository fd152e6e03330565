//! Leases: extended, given back, taken back.

use std::collections::BTreeSet;

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::limits::DELIVERIES_MAX;
use crate::persistence::limits::fitting;
use crate::persistence::model::{
    LeaseExtension, LeaseState, ReapedTask, TaskLease, TaskRecord, TaskRelease, TaskStatus, after,
};
use crate::persistence::sql::rows::{Changes, Load, TaskFound};
use crate::persistence::sql::rules::tasks::{Finality, clear_claim, deliveries_exhausted};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};
use crate::persistence::{Bug, StoreResult, planted};

/// Extends leases and records heartbeats.
///
/// It locks the tasks' own rows and no run: whoever holds a run's row, for however long, costs no
/// other run its leases.
#[derive(Debug)]
pub(crate) struct ExtendLeases {
    pub(crate) extensions: Vec<LeaseExtension>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for ExtendLeases {
    type Answer = Vec<LeaseState>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let leases = self.extensions.iter().map(|e| &e.lease);
        let loaded = tx
            .load(Load {
                leases: leases.map(|l| (l.run_id, l.task_id)).collect(),
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let states = self
            .extensions
            .iter()
            .map(|extension| work.extend(extension))
            .collect();
        Ok((states, work.finish()))
    }
}

/// Gives tasks back unrun, at once or for later.
#[derive(Debug)]
pub(crate) struct ReleaseTasks {
    pub(crate) releases: Vec<TaskRelease>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for ReleaseTasks {
    type Answer = Vec<bool>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        // A task that another transaction has is not given back: its lease runs out.
        let leases = self.releases.iter().map(|r| &r.lease);
        let loaded = tx
            .load(Load {
                runs: leases.clone().map(|lease| lease.run_id).collect(),
                tasks: leases.map(|l| (l.run_id, l.task_id)).collect(),
                passing: true,
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let released = self
            .releases
            .iter()
            .map(|release| work.release(release))
            .collect();
        Ok((released, work.finish()))
    }
}

/// Takes back leases of one shard that have run out, but for those of some runs.
#[derive(Debug, Clone)]
pub(crate) struct ReapLeases {
    pub(crate) shard: i32,
    pub(crate) max: usize,
    pub(crate) except: Vec<Uuid>,
    pub(crate) now: Option<Timestamp>,
}

/// What a shard gave.
#[derive(Debug, Default)]
pub(crate) struct ReapedShard {
    pub(crate) reaped: Vec<ReapedTask>,
    /// How many its list had.
    pub(crate) listed: usize,
    /// Runs that another transaction has locked: their leases were left alone.
    pub(crate) busy: BTreeSet<Uuid>,
    /// Whether more may have run out than was looked at.
    pub(crate) more: bool,
}

impl Intent for ReapLeases {
    type Answer = ReapedShard;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let mut found = tx
            .expired_leases(self.shard, self.max, &self.except)
            .await?;
        if found.is_empty() {
            return Ok((
                ReapedShard::default(),
                Changes {
                    now: tx.now().await?,
                    ..Changes::default()
                },
            ));
        }
        let listed = found.len();
        let full = listed == self.max;
        let fit = fitting(found.iter().map(|task| task.bytes));
        let unfit = found.split_off(fit).len();
        let loaded = tx
            .load(Load {
                runs: found.iter().map(|task| task.run_id).collect(),
                tasks: found.iter().map(TaskFound::key).collect(),
                passing: true,
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let busy = std::mem::take(&mut work.loaded.busy);
        let keys = found.iter().map(TaskFound::key);
        let reaped = keys.filter_map(|key| work.reap(key)).collect();
        let answer = ReapedShard {
            reaped,
            listed,
            more: unfit > 0 || full && !busy.is_empty(),
            busy,
        };
        Ok((answer, work.finish()))
    }
}

impl Work {
    fn leased_task(&self, lease: &TaskLease) -> Option<TaskRecord> {
        let task = self.loaded.tasks.get(&(lease.run_id, lease.task_id))?;
        task.is_leased_as(lease).then(|| task.clone())
    }

    fn extend(&mut self, extension: &LeaseExtension) -> LeaseState {
        let lease = &extension.lease;
        let key = (lease.run_id, lease.task_id);
        if self.loaded.busy_tasks.contains(&key) {
            return LeaseState::Unknown;
        }
        let Some(mut task) = self.leased_task(&extension.lease) else {
            return LeaseState::Lost;
        };
        let expires_at = after(self.now, extension.extend);
        if !planted(Bug::ReaperWithoutRecheck) {
            task.lease_expires_at = Some(expires_at);
        }
        if let Some(details) = &extension.heartbeat {
            task.heartbeat_at = Some(self.now);
            task.heartbeat_details = details.clone();
            self.update_task_with_heartbeat(task);
        } else {
            self.update_task(task);
        }
        LeaseState::Extended { expires_at }
    }

    fn release(&mut self, release: &TaskRelease) -> bool {
        if self.run(release.lease.run_id).is_none() {
            return false;
        }
        let Some(mut task) = self.leased_task(&release.lease) else {
            return false;
        };
        task.deliveries = task.deliveries.saturating_sub(1);
        let burnt = u32::from(!planted(Bug::ReleaseBurnsAttempt));
        let (status, visible_at) = match release.park {
            None => (TaskStatus::Pending, self.now),
            Some(time) => (TaskStatus::Parked, after(self.now, time)),
        };
        self.give_back(task, burnt, status, visible_at);
        true
    }

    /// The task is nobody's any more, and so many attempts do not count.
    fn give_back(
        &mut self,
        mut task: TaskRecord,
        attempts: u32,
        status: TaskStatus,
        visible_at: Timestamp,
    ) {
        clear_claim(&mut task);
        task.attempt = task.attempt.saturating_sub(attempts);
        task.status = status;
        task.visible_at = visible_at;
        self.update_task(task);
    }

    /// Looks again under the lock: what was extended, finished or taken back meanwhile is left alone.
    fn reap(&mut self, (run_id, task_id): (Uuid, Uuid)) -> Option<ReapedTask> {
        self.run(run_id)?;
        let task = self.loaded.tasks.get(&(run_id, task_id))?.clone();
        let expired = task.lease_expires_at.is_some_and(|at| at <= self.now);
        if task.status != TaskStatus::Claimed || !expired {
            return None;
        }
        let dead = task.deliveries >= DELIVERIES_MAX;
        let activity_type = task.activity_type.clone();
        if dead {
            let why = Finality::Failed(deliveries_exhausted(task.deliveries));
            self.fail_for_good(task, why);
        } else {
            self.give_back(task, 1, TaskStatus::Pending, self.now);
        }
        Some(ReapedTask {
            run_id,
            task_id,
            activity_type,
            dead,
        })
    }
}
