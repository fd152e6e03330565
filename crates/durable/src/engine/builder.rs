//! Builds an engine.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use durable_core::ActivityError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Desk, Engine, Hub, Node, Settings};
use crate::Result;
use crate::activity::{ActivityContext, ActivityRegistry, IntoActivity, StoreLedger};
use crate::observability::{LifecycleEvent, Listener, Listeners, MetricsHistory};
use crate::persistence::{OpenOptions, WorkerPort, WorkflowEventStore, open};
use crate::reliability::Gate;
use crate::runtime::Runtime;
use crate::worker::{LeaseKeeper, PoolParts, ResultSink, WorkerPool, WorkerSettings};
use crate::workflow::{WorkflowDefinition, WorkflowRegistry};

/// An engine about to be started.
#[must_use = "an engine runs nothing before it is started"]
pub struct EngineBuilder {
    source: Source,
    workflows: WorkflowRegistry,
    activities: ActivityRegistry,
    settings: Settings,
    runtime: Option<Runtime>,
    worker_id: Option<String>,
    open_options: OpenOptions,
    listeners: Vec<Listener>,
}

enum Source {
    Url(String),
    Store(Arc<dyn WorkflowEventStore>),
}

impl EngineBuilder {
    pub(super) fn new(url: impl Into<String>) -> Self {
        Self::from_source(Source::Url(url.into()))
    }

    pub(super) fn on(store: Arc<dyn WorkflowEventStore>) -> Self {
        Self::from_source(Source::Store(store))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            workflows: WorkflowRegistry::with_built_in(),
            activities: ActivityRegistry::new(),
            settings: Settings::default(),
            runtime: None,
            worker_id: None,
            open_options: OpenOptions::default(),
            listeners: Vec::new(),
        }
    }

    /// Hosts a workflow.
    pub fn workflow<W: WorkflowDefinition>(mut self) -> Self {
        self.workflows.register::<W>();
        self
    }

    /// Hosts a workflow that takes every type that is not hosted by name; its code finds the name in
    /// [`RunInfo::workflow_type`](crate::workflow::RunInfo::workflow_type).
    pub fn dynamic_workflow<W: WorkflowDefinition>(mut self) -> Self {
        self.workflows.register_dynamic::<W>();
        self
    }

    /// Runs an activity that takes every type that has none of its own; it finds the name in [`ActivityContext::activity_type`].
    pub fn dynamic_activity<M>(mut self, activity: impl IntoActivity<M>) -> Self {
        self.activities.register_dynamic(activity.into_activity());
        self
    }

    /// Runs an activity: a value of a type that is one, or the name of an `#[activity]`.
    pub fn activity<M>(mut self, activity: impl IntoActivity<M>) -> Self {
        self.activities.register(activity.into_activity());
        self
    }

    /// Runs an async closure as an activity.
    pub fn activity_fn<F, I, O, Fut>(
        mut self,
        activity_type: impl Into<String>,
        function: F,
    ) -> Self
    where
        F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ActivityError>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        self.activities.register_fn(activity_type, function);
        self
    }

    /// Replaces all settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes some settings.
    pub fn configure(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Replaces the worker's settings, such as by [`WorkerSettings::from_env`].
    pub fn worker(mut self, settings: WorkerSettings) -> Self {
        self.settings.worker = settings;
        self
    }

    /// Activities running at once.
    pub fn max_concurrent_tasks(mut self, max: usize) -> Self {
        self.settings.worker.max_concurrent_tasks = max;
        self
    }

    /// Drops a run's program after every turn, so that each turn replays its history: slow, for tests.
    pub fn always_replay(mut self, on: bool) -> Self {
        self.settings.turns.always_replay = on;
        self
    }

    /// Names this build of the workflow code; see [`Settings::build`].
    pub fn build_id(mut self, build: impl Into<String>) -> Self {
        self.settings.build = build.into();
        self
    }

    /// Names this process among the workers; by default a name that no other has.
    pub fn worker_id(mut self, worker_id: impl Into<String>) -> Self {
        self.worker_id = Some(worker_id.into());
        self
    }

    /// Tells somebody what becomes of runs and activities, after the commit that holds it. Several are told in the order in which they
    /// were added. Called on a task of its own, so that it delays no run; see [`crate::observability::listener`] for what it can rely on.
    pub fn listener(mut self, listener: impl Fn(&LifecycleEvent) + Send + Sync + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// How the store is opened.
    pub fn open_options(mut self, options: OpenOptions) -> Self {
        self.open_options = options;
        self
    }

    /// Brings the world along: tasks, time, chance. For simulations.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the store and starts.
    ///
    /// # Errors
    /// The store's, where it cannot be opened; [`crate::Error::is_invalid`] for settings that cannot be.
    pub async fn start(self) -> Result<Engine> {
        check(&self.settings)?;
        let store = match self.source {
            Source::Store(store) => store,
            Source::Url(url) => open(&url, self.open_options).await?,
        };
        let runtime = self.runtime.unwrap_or_else(Runtime::real);
        let worker_id = self.worker_id.unwrap_or_else(|| worker_name(&runtime));
        let port = Arc::clone(&store) as Arc<dyn WorkerPort>;
        let desk = Arc::new(Desk::default());
        let worker = &self.settings.worker;
        let leases = Arc::new(LeaseKeeper::new(
            Arc::clone(&port),
            runtime.clone(),
            worker.lease,
            worker.lease_renewal,
        ));
        let results = Arc::new(ResultSink::new(Arc::clone(&port), runtime.clone()));
        let pool = Arc::new(WorkerPool::new(PoolParts {
            activities: self.activities,
            settings: worker.clone(),
            runtime: runtime.clone(),
            port,
            leases: Arc::clone(&leases),
            results: Arc::clone(&results),
            desk: Arc::clone(&desk),
            gate: Arc::new(Gate::new(Arc::clone(&store), runtime.clone())),
            once: Arc::new(StoreLedger(Arc::clone(&store))),
            transactions: store.transactions(),
        }));
        let node = Node {
            worker_id,
            hub: Arc::new(Hub::new(desk, store.bell())),
            store,
            settings: self.settings,
            listeners: Listeners::start(self.listeners, &runtime),
            runtime,
            workflows: self.workflows,
            pool,
            results,
            leases,
            store_ahead_us: AtomicI64::new(0),
            metrics: MetricsHistory::default(),
        };
        Ok(Engine::launch(Arc::new(node)))
    }
}

/// Host, process and something random: no two alike.
fn worker_name(runtime: &Runtime) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let host = if host.is_empty() { "worker" } else { &host };
    let random = runtime.new_id().simple().to_string();
    format!("{host}-{}-{}", std::process::id(), &random[20..])
}

fn check(settings: &Settings) -> Result<()> {
    let worker = &settings.worker;
    let refuse = |what: &str| Err(crate::Error::configuration(what));
    if worker.max_concurrent_tasks == 0 || worker.claim_batch_size == 0 {
        return refuse("max_concurrent_tasks and claim_batch_size must be at least 1");
    }
    if worker.lease_renewal.is_zero() || worker.lease_renewal * 2 > worker.lease {
        return refuse(
            "lease_renewal must be above 0 and at most half of lease, so that one lost renewal does not lose the lease",
        );
    }
    if let Some(fault) = worker.backpressure.fault() {
        return refuse(fault);
    }
    if settings.turns.set_max == 0 || settings.turns.claim_max == 0 {
        return refuse("turns.set_max and turns.claim_max must be at least 1");
    }
    if settings.chores.retention_interval.is_zero()
        || settings
            .chores
            .sample_interval
            .is_some_and(|every| every.is_zero())
    {
        return refuse("chores.retention_interval and chores.sample_interval must be above 0");
    }
    if settings.chores.fallback_poll.is_zero() || settings.chores.batch == 0 {
        return refuse("chores.fallback_poll must be above 0 and chores.batch at least 1");
    }
    Ok(())
}
