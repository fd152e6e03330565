//! The system as a whole: how much waits, how much can be done, and whether more should be taken on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use crate::persistence::model::{WorkerFilter, WorkerStatus};
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
    /// Tasks that could be claimed now and runs that have not begun, counted no further than one
    /// more than the limit of admission.
    pub pending_tasks: u64,
    /// Workers that take tasks.
    pub accepting_workers: usize,
    /// Workers that give signs of life.
    pub total_workers: usize,
}

/// How the sample behind admission stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionSample {
    /// How long ago it was taken; none before the first.
    pub age: Option<Duration>,
    /// Looks at the system that failed or took too long, since the start of the process.
    pub failures: u64,
}

/// Looks at the system as a whole, through the store, and admits new runs by what it saw last.
///
/// A chore of the engine takes a sample once a second while runs are started, and every ten seconds
/// otherwise. A start reads the last sample and never waits for one. A sample holds for thirty
/// seconds; without a valid sample every run is admitted, because a store that cannot be read
/// refuses the start itself.
pub struct BackpressureCoordinator {
    store: Arc<dyn WorkflowEventStore>,
    runtime: Runtime,
    settings: AdmissionSettings,
    stale_after: Duration,
    /// The last sample, and when its reads had ended.
    seen: Mutex<Option<(Instant, SystemHealth)>>,
    /// Held while looking, so that there is one look at a time.
    looking: tokio::sync::Mutex<()>,
    /// A start has found the sample old.
    wanted: Notify,
    failures: AtomicU64,
    warned_of_load: AtomicBool,
    warned_of_failure: AtomicBool,
}

/// For how long a sample counts as new.
const FRESH: Duration = Duration::from_secs(1);
/// Until the next sample while no run is started.
const IDLE: Duration = Duration::from_secs(10);
/// For how long a sample decides about starts.
const HOLDS: Duration = Duration::from_secs(30);
/// Longest look at the system.
const LOOK_MAX: Duration = Duration::from_secs(5);
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
            seen: Mutex::new(None),
            looking: tokio::sync::Mutex::new(()),
            wanted: Notify::new(),
            failures: AtomicU64::new(0),
            warned_of_load: AtomicBool::new(false),
            warned_of_failure: AtomicBool::new(false),
        }
    }

    /// How the system stands, at most a second ago. Looks where no sample is as new, for five
    /// seconds at most.
    ///
    /// # Errors
    /// The store's.
    pub async fn check_system_health(&self) -> StoreResult<SystemHealth> {
        if let Some(health) = self.sample_within(FRESH) {
            return Ok(health);
        }
        let _one_at_a_time = self.looking.lock().await;
        if let Some(health) = self.sample_within(FRESH) {
            return Ok(health);
        }
        // Both may be dropped: a look changes nothing.
        let looked = tokio::select! {
            biased;
            looked = self.look() => looked,
            () = self.runtime.sleep(LOOK_MAX) => {
                Err(StoreError::unavailable("the store took too long to count what waits", "timeout"))
            }
        };
        match looked {
            Ok(health) => {
                // Stamped after the read: a slow one is not old at once.
                *self.seen.lock() = Some((self.runtime.instant(), health));
                self.warned_of_failure.store(false, Ordering::Relaxed);
                self.warn_of_load(&health);
                Ok(health)
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if !self.warned_of_failure.swap(true, Ordering::Relaxed) {
                    let holds = HOLDS.as_secs();
                    warn!(%error, "admission could not look at the system; the last sample decides for {holds} s, then every run is admitted");
                }
                Err(error)
            }
        }
    }

    /// Whether new runs should be taken on.
    ///
    /// # Errors
    /// The store's.
    pub async fn should_accept_workflow(&self) -> StoreResult<bool> {
        let health = self.check_system_health().await?;
        Ok(self.has_room(&health))
    }

    /// How the sample stands that decides about starts.
    #[must_use]
    pub fn sample(&self) -> AdmissionSample {
        let at = self.seen.lock().map(|(at, _)| at);
        AdmissionSample {
            age: at.map(|at| self.runtime.instant().duration_since(at)),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Takes a sample where the last one is not new; answers when to take the next one, unless
    /// [`Self::wanted`] ends earlier.
    pub(crate) async fn refresh(&self) -> StoreResult<Duration> {
        self.check_system_health().await?;
        Ok(IDLE)
    }

    /// Ends when a start has found the sample old. Cancel-safe.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Refuses while too much waits, by the last sample. Never waits and never reads the store.
    pub(crate) fn admit(&self) -> StoreResult<()> {
        if self.sample_within(FRESH).is_none() {
            self.wanted.notify_one();
        }
        let Some(health) = self.sample_within(HOLDS) else {
            return Ok(());
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

    /// The last sample, unless it is older than this.
    fn sample_within(&self, age: Duration) -> Option<SystemHealth> {
        let (at, health) = (*self.seen.lock())?;
        (self.runtime.instant().duration_since(at) < age).then_some(health)
    }

    fn warn_of_load(&self, health: &SystemHealth) {
        let high = health.load_percentage > LOAD_PERCENT_WARN;
        if high && !self.warned_of_load.swap(high, Ordering::Relaxed) {
            let percent = health.load_percentage;
            warn!("{percent:.0} % of all slots are in use");
        }
        self.warned_of_load.store(high, Ordering::Relaxed);
    }

    #[allow(clippy::cast_precision_loss, reason = "a ratio for a limit")]
    fn has_room(&self, health: &SystemHealth) -> bool {
        health.pending_tasks as f64 <= self.limit(health)
    }

    #[allow(clippy::cast_precision_loss, reason = "a ratio for a limit")]
    fn limit(&self, health: &SystemHealth) -> f64 {
        self.capacity(health) as f64 * self.settings.max_queue_ratio
    }

    /// How far to count: one more than the limit tells that it is exceeded.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float saturates"
    )]
    fn counted_at_most(&self, health: &SystemHealth) -> u64 {
        (self.limit(health) as u64).saturating_add(1)
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
        let mut health = SystemHealth {
            available_capacity: 0,
            total_capacity: 0,
            current_load: 0,
            load_percentage: 0.0,
            pending_tasks: 0,
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
        // A run that has not begun waits for a slot as a task does.
        let at_most = self.counted_at_most(&health);
        health.pending_tasks = self.store.count_waiting(at_most).await?;
        Ok(health)
    }
}

#[cfg(test)]
mod tests;
