//! How the system stands.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{CircuitState, Timestamp};

use crate::Result;
use crate::client::Client;
use crate::persistence::model::{
    BreakerRecord, StoreCounts, TaskStatus, WorkerFilter, WorkerInfo, WorkerStatus, WorkflowStatus,
};

/// From this load on, in percent, all is not well.
const LOAD_PERCENT_HIGH: f64 = 80.0;

/// How the system stands: all fresh workers, all queues, all runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemHealth {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// In one word.
    pub status: HealthStatus,
    /// Workers with a fresh sign of life that have not stopped.
    pub total_workers: usize,
    /// Those of them that work, and are not finishing what they have.
    pub active_workers: usize,
    /// Those that take tasks now.
    pub workers_accepting: usize,
    /// Slots of all.
    pub total_capacity: u64,
    /// Slots in use.
    pub current_load: u64,
    /// Slots in use, of all, in percent; 0 without workers.
    pub load_percentage: f64,
    /// Tasks that could be claimed now.
    pub pending_tasks: u64,
    /// Tasks that workers have.
    pub claimed_tasks: u64,
    /// Tasks that could be claimed now, by type.
    pub queue_depth_by_type: BTreeMap<String, u64>,
    /// Runs that have begun and not ended.
    pub running_workflows: u64,
    /// Runs that have not begun.
    pub pending_workflows: u64,
    /// Runs that a build could not take on.
    pub blocked_workflows: u64,
    /// Dead letters nobody has decided.
    pub dlq_size: u64,
    /// Keys of the breakers that let nothing through.
    pub open_circuit_breakers: Vec<String>,
    /// Whether the numbers of tasks, runs and dead letters are exact. False: at least one of them
    /// is a lower bound, cut at
    /// [`COUNT_ROWS_MAX`](crate::persistence::limits::COUNT_ROWS_MAX).
    pub exact: bool,
}

/// How the system stands, and what that was judged by: each is read once.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemView {
    /// The judgement.
    pub health: SystemHealth,
    /// Open work.
    pub counts: StoreCounts,
    /// Workers with a fresh sign of life.
    pub workers: Vec<WorkerInfo>,
    /// All breakers.
    pub breakers: Vec<BreakerRecord>,
}

/// How the system stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthStatus {
    /// All is well.
    Healthy,
    /// It works, and somebody should look: the load is high, a breaker is open, or runs are blocked.
    Degraded,
    /// Tasks wait, and no worker takes any.
    Unhealthy,
}

impl HealthStatus {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl Client {
    /// How the system stands. Workers count with a sign of life within `stale_after`.
    ///
    /// # Errors
    /// The store's.
    pub async fn system_health(&self, stale_after: Duration) -> Result<SystemHealth> {
        Ok(self.system_view(stale_after).await?.health)
    }

    /// [`Client::system_health`] with the records that it was made of.
    ///
    /// # Errors
    /// The store's.
    pub async fn system_view(&self, stale_after: Duration) -> Result<SystemView> {
        let store = self.store();
        let now = store.clock(None).await?;
        let filter = WorkerFilter {
            heartbeat_since: now.checked_sub(stale_after).ok(),
            ..WorkerFilter::default()
        };
        let workers = store.list_workers(filter).await?;
        let counts = store.counts().await?;
        let breakers = store.list_breakers().await?;
        let open = breakers
            .iter()
            .filter(|breaker| breaker.state == CircuitState::Open)
            .map(|breaker| breaker.key.clone());
        Ok(SystemView {
            health: SystemHealth::of(now, &workers, &counts, open.collect()),
            counts,
            workers,
            breakers,
        })
    }
}

impl SystemHealth {
    fn of(
        at: Timestamp,
        workers: &[WorkerInfo],
        counts: &StoreCounts,
        open_circuit_breakers: Vec<String>,
    ) -> Self {
        // A process that runs no tasks, such as a server on its own, is nobody's worker.
        let alive: Vec<&WorkerInfo> = workers
            .iter()
            .filter(|worker| worker.status != WorkerStatus::Stopped && worker.max_concurrency > 0)
            .collect();
        let active = |worker: &&&WorkerInfo| worker.status == WorkerStatus::Active;
        let tasks = |status| {
            counts
                .tasks
                .values()
                .filter_map(|of_type| of_type.get(&status))
                .sum()
        };
        let runs = |status| counts.runs.get(&status).copied().unwrap_or_default();
        let depths = counts.tasks.iter().filter_map(|(name, of_type)| {
            let pending = of_type
                .get(&TaskStatus::Pending)
                .copied()
                .unwrap_or_default();
            (pending > 0).then(|| (name.clone(), pending))
        });
        let mut health = Self {
            at,
            status: HealthStatus::Healthy,
            total_workers: alive.len(),
            active_workers: alive.iter().filter(active).count(),
            workers_accepting: alive
                .iter()
                .filter(active)
                .filter(|worker| worker.accepting_tasks)
                .count(),
            total_capacity: alive
                .iter()
                .map(|worker| u64::from(worker.max_concurrency))
                .sum(),
            current_load: alive
                .iter()
                .map(|worker| u64::from(worker.current_load))
                .sum(),
            load_percentage: 0.0,
            pending_tasks: tasks(TaskStatus::Pending),
            claimed_tasks: tasks(TaskStatus::Claimed),
            queue_depth_by_type: depths.collect(),
            running_workflows: runs(WorkflowStatus::Running),
            pending_workflows: runs(WorkflowStatus::Pending),
            blocked_workflows: counts.blocked_runs,
            dlq_size: counts.dead_letters,
            open_circuit_breakers,
            exact: counts.exact,
        };
        health.load_percentage = percent(health.current_load, health.total_capacity);
        health.status = health.judged();
        health
    }

    fn judged(&self) -> HealthStatus {
        if self.pending_tasks > 0 && self.workers_accepting == 0 && self.current_load == 0 {
            return HealthStatus::Unhealthy;
        }
        let strained = self.load_percentage > LOAD_PERCENT_HIGH
            || !self.open_circuit_breakers.is_empty()
            || self.blocked_workflows > 0;
        if strained {
            HealthStatus::Degraded
        } else {
            HealthStatus::Healthy
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}
