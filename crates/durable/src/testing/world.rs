//! A test's world: one store, one clock, one client, and engines that come and go.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use durable_core::Timestamp;
use parking_lot::Mutex;
use tokio::time::sleep;
use uuid::Uuid;

use super::clock::VirtualClock;
use super::setup::Setup;
use super::store::WatchedStore;
use super::watch::Watch;
use crate::persistence::model::{Glance, RunDump, RunRecord, TaskLease, TaskRelease, TaskStatus};
use crate::persistence::{MemoryStore, WorkerPort as _, WorkflowEventStore as _};
use crate::runtime::{Clock as _, Life, Runtime};
use crate::{Client, Engine, Error, Result};

/// More than the engine's shortest pauses: what can happen now has happened after it.
pub(super) const SETTLING: Duration = Duration::from_millis(10);
/// How long a look lasts that nothing ends.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A world. Lives on one thread, within a tokio runtime whose time is paused.
pub(super) struct World {
    pub(super) watch: Arc<Watch>,
    /// Outlives the engines.
    pub(super) client: Client,
    setup: Setup,
    clock: Arc<VirtualClock>,
    store: Arc<MemoryStore>,
    engine: Mutex<Option<Up>>,
    generation: AtomicU64,
}

/// An engine that is up, or was killed and not cleared away yet.
struct Up {
    /// Dies when it is dropped.
    _engine: Engine,
    life: Life,
}

impl World {
    pub(super) fn new(setup: Setup, watch: Watch) -> Self {
        let watch = Arc::new(watch);
        let clock = Arc::new(VirtualClock::starting_at(setup.beginning));
        let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
        let way = Arc::new(WatchedStore::for_client(&store, &watch));
        let runtime = Runtime::seeded(setup.seed, Arc::clone(&clock) as _, Life::new());
        Self {
            client: Client::knowing(way, &runtime, setup.workflows.clone()),
            watch,
            setup,
            clock,
            store,
            engine: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether an engine is up and lives.
    pub(super) fn is_up(&self) -> bool {
        let engine = self.engine.lock();
        engine.as_ref().is_some_and(|up| !up.life.is_dead())
    }

    /// Steps that the engine has taken.
    pub(super) fn steps(&self) -> u64 {
        let engine = self.engine.lock();
        engine.as_ref().map_or(0, |up| up.life.steps())
    }

    /// The engine is gone, as by SIGKILL.
    pub(super) async fn crash(&self) {
        let up = self.engine.lock().take();
        drop(up);
        // Its tasks go when they are polled next.
        settle().await;
    }

    /// Another engine takes over, if none is up. What the last one held is taken back first, as when its leases had run out.
    pub(super) async fn resume(&self) -> Result<()> {
        if self.is_up() {
            return Ok(());
        }
        self.crash().await;
        self.take_back().await?;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let life = Life::new();
        if let Some(step) = self.watch.last_step() {
            life.die_after(step);
        }
        let seed = self
            .setup
            .seed
            .wrapping_mul(31)
            .wrapping_add(generation + 1);
        let runtime = Runtime::seeded(seed, Arc::clone(&self.clock) as _, life.clone());
        let tell = TellOfDeath(Arc::clone(&self.watch));
        runtime.spawn(async move {
            let _told_when_dropped = tell;
            std::future::pending::<()>().await;
        });
        let store = WatchedStore::for_engine(&self.store, &self.watch, life.clone());
        let engine = Engine::on(Arc::new(store))
            .registered(self.setup.workflows.clone(), self.setup.activities.clone())
            .settings(self.setup.settings.clone())
            .worker_id(format!("engine-{generation}"))
            .runtime(runtime)
            .start()
            .await?;
        *self.engine.lock() = Some(Up {
            _engine: engine,
            life,
        });
        Ok(())
    }

    async fn take_back(&self) -> Result<()> {
        for RunDump { run, tasks, .. } in self.store.dump().await?.runs {
            let leased = tasks
                .into_iter()
                .filter(|task| task.status == TaskStatus::Claimed);
            let releases = leased.filter_map(|task| {
                Some(TaskRelease::now(TaskLease {
                    run_id: task.run_id,
                    task_id: task.id,
                    attempt: task.attempt,
                    token: task.token?,
                }))
            });
            self.store.release_tasks(releases.collect(), None).await?;
            if let Some(owner) = run.owner {
                self.store.release_runs(&owner.worker_id, &[run.id]).await?;
            }
        }
        Ok(())
    }

    /// What waits, and what is due when.
    pub(super) async fn glance(&self) -> Result<Glance> {
        Ok(self.store.glance(None).await?)
    }

    /// Waits until a run has ended.
    pub(super) async fn ended(&self, run_id: Uuid) -> Result<RunRecord> {
        self.look_until(|| async move {
            let run = self.client.get(run_id).await?;
            Ok(run.status.is_terminal().then_some(run))
        })
        .await
    }

    /// Looks after everything that happens until there is something to see, or trouble.
    pub(super) async fn look_until<T, F>(&self, look: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        loop {
            let progress = self.watch.progress.notified();
            tokio::pin!(progress);
            // Registered before the look, so that nothing in between is missed.
            progress.as_mut().enable();
            if let Some(seen) = look().await? {
                return Ok(seen);
            }
            if let Some(trouble) = self.watch.trouble() {
                return Err(Error::configuration(trouble));
            }
            tokio::select! {
                biased;
                () = progress => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// The runs that have not ended, and where they stand.
    pub(super) async fn open_runs(&self) -> String {
        let Ok(dump) = self.store.dump().await else {
            return String::new();
        };
        let open = dump.runs.iter().filter(|run| !run.run.status.is_terminal());
        let described = open.map(
            |RunDump {
                 run,
                 events,
                 tasks,
                 timers,
                 ..
             }| {
                let last = events
                    .last()
                    .map_or("nothing yet", |event| event.event.event_type());
                format!(
                    "run {} of {:?}: last event {last}, {} activities and {} timers open",
                    run.id,
                    run.workflow_type,
                    tasks.len(),
                    timers.len()
                )
            },
        );
        described.collect::<Vec<_>>().join("; ")
    }
}

/// Everything happens that can happen without (noticeable) time: this ends only when nothing else is left to do.
pub(super) async fn settle() {
    sleep(SETTLING).await;
}

/// Dropped with the tasks of an engine.
struct TellOfDeath(Arc<Watch>);

impl Drop for TellOfDeath {
    fn drop(&mut self) {
        self.0.progress.notify_waiters();
    }
}
