//! The system as a whole: how much waits, how much can be done, and whether more should be taken on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use crate::persistence::model::{TaskStatus, WorkerFilter, WorkerStatus, WorkflowStatus};
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};
use crate::runtime::Runtime;

/// When new runs are refused. Off unless [`crate::engine::Settings::admission`] is set.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionSettings {
    /// Refuses while more tasks wait than this many times the capacity.
    pub max_queue_ratio: f64,
    /// Capacity that counts while no worker is alive.
    pub configured_capacity: u64,
    /// When those refused should come back.
    pub retry_after: Duration,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            max_queue_ratio: 10.0,
            configured_capacity: 1_000,
            retry_after: Duration::from_secs(5),
        }
    }
}

/// How the system stands: all fresh workers together, and what waits for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemHealth {
    /// Free slots of the workers that take tasks.
    pub available_capacity: u64,
    /// Slots of all workers.
    pub total_capacity: u64,
    /// Slots in use.
    pub current_load: u64,
    /// Slots in use, of all, in percent; 0 without workers.
    pub load_percentage: f64,
    /// Tasks that could be claimed now.
    pub pending_tasks: u64,
    /// Workers that take tasks.
    pub accepting_workers: usize,
    /// Workers that give signs of life.
    pub total_workers: usize,
}

/// Looks at the system as a whole, through the store; what it saw holds for a second.
pub struct BackpressureCoordinator {
    store: Arc<dyn WorkflowEventStore>,
    runtime: Runtime,
    settings: AdmissionSettings,
    stale_after: Duration,
    /// Held while looking, so that a burst of starts looks once.
    seen: tokio::sync::Mutex<Option<(Instant, SystemHealth)>>,
    warned: AtomicBool,
}

/// For how long what was seen holds.
const FRESH: Duration = Duration::from_secs(1);
/// From this load on, in percent, the log warns.
const LOAD_PERCENT_WARN: f64 = 80.0;

impl BackpressureCoordinator {
    /// Looks at workers with a sign of life within `stale_after`.
    #[must_use]
    pub fn new(
        store: Arc<dyn WorkflowEventStore>,
        runtime: Runtime,
        settings: AdmissionSettings,
        stale_after: Duration,
    ) -> Self {
        Self {
            store,
            runtime,
            settings,
            stale_after,
            seen: tokio::sync::Mutex::new(None),
            warned: AtomicBool::new(false),
        }
    }

    /// How the system stands, at most a second ago.
    ///
    /// # Errors
    /// The store's.
    pub async fn check_system_health(&self) -> StoreResult<SystemHealth> {
        let mut seen = self.seen.lock().await;
        let now = self.runtime.instant();
        if let Some((at, health)) = *seen
            && now.duration_since(at) < FRESH
        {
            return Ok(health);
        }
        let health = self.look().await?;
        *seen = Some((now, health));
        let high = health.load_percentage > LOAD_PERCENT_WARN;
        if high && !self.warned.swap(high, Ordering::Relaxed) {
            let percent = health.load_percentage;
            warn!("{percent:.0} % of all slots are in use");
        }
        self.warned.store(high, Ordering::Relaxed);
        Ok(health)
    }

    /// Whether new runs should be taken on.
    ///
    /// # Errors
    /// The store's.
    pub async fn should_accept_workflow(&self) -> StoreResult<bool> {
        let health = self.check_system_health().await?;
        Ok(self.has_room(&health))
    }

    /// Refuses while too much waits. A store that cannot say refuses nobody: the start itself is going to ask it.
    pub(crate) async fn admit(&self) -> StoreResult<()> {
        let health = match self.check_system_health().await {
            Ok(health) => health,
            Err(error) => {
                debug!(%error, "admission could not look at the system");
                return Ok(());
            }
        };
        if self.has_room(&health) {
            return Ok(());
        }
        let retry_after = self.settings.retry_after.as_millis();
        Err(StoreError::Overloaded {
            pending: health.pending_tasks,
            capacity: self.capacity(&health),
            retry_after_ms: u64::try_from(retry_after).unwrap_or(u64::MAX),
        })
    }

    #[allow(clippy::cast_precision_loss, reason = "a ratio for a limit")]
    fn has_room(&self, health: &SystemHealth) -> bool {
        let limit = self.capacity(health) as f64 * self.settings.max_queue_ratio;
        health.pending_tasks as f64 <= limit
    }

    fn capacity(&self, health: &SystemHealth) -> u64 {
        if health.total_workers == 0 {
            self.settings.configured_capacity
        } else {
            health.total_capacity
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a percentage for people")]
    async fn look(&self) -> StoreResult<SystemHealth> {
        let now = self.store.clock(None).await?;
        let mut workers = self
            .store
            .list_workers(WorkerFilter {
                worker_group: None,
                status: Some(WorkerStatus::Active),
                heartbeat_since: now.checked_sub(self.stale_after).ok(),
            })
            .await?;
        // One that only takes turns has slots, but for no task.
        workers.retain(|worker| !worker.activity_types.is_empty());
        let counts = self.store.counts().await?;
        let mut health = SystemHealth {
            available_capacity: 0,
            total_capacity: 0,
            current_load: 0,
            load_percentage: 0.0,
            // A run that has not begun waits for a slot as a task does.
            pending_tasks: counts
                .tasks
                .values()
                .filter_map(|of_type| of_type.get(&TaskStatus::Pending))
                .chain(counts.runs.get(&WorkflowStatus::Pending))
                .sum(),
            accepting_workers: 0,
            total_workers: workers.len(),
        };
        for worker in &workers {
            let (slots, load) = (
                u64::from(worker.max_concurrency),
                u64::from(worker.current_load),
            );
            health.total_capacity += slots;
            health.current_load += load;
            if worker.accepting_tasks {
                health.accepting_workers += 1;
                health.available_capacity += slots.saturating_sub(load);
            }
        }
        if health.total_capacity > 0 {
            health.load_percentage =
                100.0 * health.current_load as f64 / health.total_capacity as f64;
        }
        Ok(health)
    }
}

#[cfg(test)]
mod tests;
