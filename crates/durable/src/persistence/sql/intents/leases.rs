//! Leases: extended, given back, taken back.

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::limits::DELIVERIES_MAX;
use crate::persistence::model::{
    LeaseExtension, LeaseState, ReapedTask, TaskLease, TaskRecord, TaskRelease, TaskStatus, after,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::tasks::{Finality, clear_claim, deliveries_exhausted};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};
use crate::persistence::{Bug, StoreResult, planted};

/// Extends leases and records heartbeats.
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

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let loaded = tx
            .load(leased(self.extensions.iter().map(|e| &e.lease)))
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

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let loaded = tx
            .load(leased(self.releases.iter().map(|r| &r.lease)))
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

/// Takes back leases of one shard that have run out.
#[derive(Debug)]
pub(crate) struct ReapLeases {
    pub(crate) shard: i32,
    pub(crate) max: usize,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for ReapLeases {
    type Answer = Vec<ReapedTask>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let tasks = tx.expired_leases(self.shard, self.max).await?;
        if tasks.is_empty() {
            return Ok((
                Vec::new(),
                Changes {
                    now: tx.now().await?,
                    ..Changes::default()
                },
            ));
        }
        let runs = tasks.iter().map(|(run_id, _)| *run_id).collect();
        let loaded = tx
            .load(Load {
                runs,
                tasks: tasks.clone(),
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let reaped = tasks.into_iter().filter_map(|key| work.reap(key)).collect();
        Ok((reaped, work.finish()))
    }
}

fn leased<'a>(leases: impl Iterator<Item = &'a TaskLease> + Clone) -> Load {
    Load {
        runs: leases.clone().map(|lease| lease.run_id).collect(),
        leased: leases.map(|lease| (lease.run_id, lease.task_id)).collect(),
        ..Load::default()
    }
}

impl Work {
    fn leased_task(&self, lease: &TaskLease) -> Option<TaskRecord> {
        let task = self.loaded.tasks.get(&(lease.run_id, lease.task_id))?;
        task.is_leased_as(lease).then(|| task.clone())
    }

    fn extend(&mut self, extension: &LeaseExtension) -> LeaseState {
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
        }
        self.update_task(task);
        LeaseState::Extended { expires_at }
    }

    fn release(&mut self, release: &TaskRelease) -> bool {
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
