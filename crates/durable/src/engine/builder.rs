//! Builds an engine.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use durable_core::ActivityError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::off_runtime::OffRuntime;
use super::{Desk, Engine, Hub, Node, Settings};
use crate::Result;
use crate::activity::{ActivityContext, ActivityRegistry, IntoActivity, StoreLedger};
use crate::codec::{CodecStore, PayloadCodec};
use crate::hosting::RemoteWorkers;
use crate::observability::{DurableMetrics, LifecycleEvent, Listener, Listeners};
use crate::persistence::check::lease as check_lease;
use crate::persistence::limits::BATCH_ITEMS_MAX;
use crate::persistence::{OpenOptions, WorkerPort, WorkflowEventStore, open};
use crate::reliability::{BackpressureCoordinator, Gate};
use crate::runtime::Runtime;
use crate::worker::{HeartbeatBatcher, PoolParts, ResultSink, WorkerPool, WorkerSettings};
use crate::workflow::{WorkflowDefinition, WorkflowRegistry};

/// An engine about to be started.
#[must_use = "an engine runs nothing before it is started"]
pub struct EngineBuilder {
    source: Source,
    /// What is wrong with the environment that the worker's settings began with, if anything is.
    environment: Result<()>,
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
    #[cfg(feature = "grpc")]
    Server(crate::remote::Connect),
}

impl EngineBuilder {
    pub(super) fn new(url: impl Into<String>) -> Self {
        Self::from_source(Source::Url(url.into()))
    }

    pub(super) fn on(store: Arc<dyn WorkflowEventStore>) -> Self {
        Self::from_source(Source::Store(store))
    }

    #[cfg(feature = "grpc")]
    pub(super) fn connect(server: crate::remote::Connect) -> Self {
        Self::from_source(Source::Server(server))
    }

    fn from_source(source: Source) -> Self {
        Self::in_environment(source, |name| std::env::var(name).ok())
    }

    fn in_environment(source: Source, read: impl Fn(&str) -> Option<String>) -> Self {
        let mut settings = Settings::default();
        let environment =
            WorkerSettings::from_variables(read).map(|worker| settings.worker = worker);
        Self {
            source,
            environment,
            workflows: WorkflowRegistry::with_built_in(),
            activities: ActivityRegistry::new(),
            settings,
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

    /// Replaces what it hosts and runs.
    #[cfg(feature = "testing")]
    pub(crate) fn registered(
        mut self,
        workflows: WorkflowRegistry,
        activities: ActivityRegistry,
    ) -> Self {
        self.workflows = workflows;
        self.activities = activities;
        self
    }

    /// Replaces all settings, those from the environment included.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self.environment = Ok(());
        self
    }

    /// Changes some settings.
    pub fn configure(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Replaces the worker's settings, those from the environment ([`WorkerSettings::from_env`]) included. To change some and keep the
    /// others, use [`EngineBuilder::configure`].
    pub fn worker(mut self, settings: WorkerSettings) -> Self {
        self.settings.worker = settings;
        self.environment = Ok(());
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
        let codec = self.open_options.codec.take();
        self.open_options = options;
        self.open_options.codec = self.open_options.codec.or(codec);
        self
    }

    /// Encodes payloads before they are stored, and decodes them; see [`crate::codec`]. Clients in other processes need
    /// one as well: [`crate::Client::open_with`].
    pub fn codec(mut self, codec: impl PayloadCodec) -> Self {
        self.open_options = self.open_options.with_codec(codec);
        self
    }

    /// Brings the world along: tasks, time, chance. For simulations.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the store and starts. `MAX_CONCURRENT_TASKS`, `MAX_BYTES_IN_FLIGHT`, `CLAIM_BATCH_SIZE`,
    /// `POLL_INTERVAL_MS` and `WORKER_HEARTBEAT_TIMEOUT_SECS` of the environment hold where the
    /// builder says nothing else.
    ///
    /// # Errors
    /// The store's, where it cannot be opened; [`crate::Error::is_invalid`] for settings that cannot be, or a variable of the environment
    /// whose value is not a number above 0.
    pub async fn start(self) -> Result<Engine> {
        self.environment?;
        check(&self.settings)?;
        let mut settings = self.settings;
        let codec = self.open_options.codec.clone();
        if let Some(codec) = &codec {
            settings.build = with_codec(&settings.build, &**codec);
        }
        let housekeeping = settings.chores.housekeeping;
        let housekeeping = housekeeping.unwrap_or(self.source.needs_housekeeping());
        let store: Arc<dyn WorkflowEventStore> = match self.source {
            Source::Url(url) => open(&url, self.open_options).await?,
            Source::Store(store) => coded(store, codec),
            #[cfg(feature = "grpc")]
            Source::Server(server) => {
                let store = crate::remote::RemoteStore::connect(server).await?;
                store.require_work()?;
                coded(Arc::new(store), codec)
            }
        };
        let runtime = self.runtime.unwrap_or_else(Runtime::real);
        let worker_id = self.worker_id.unwrap_or_else(|| worker_name(&runtime));
        store.reside(&worker_id).await?;
        let port = Arc::clone(&store) as Arc<dyn WorkerPort>;
        let hub = Hub::new(Arc::new(Desk::default()), store.bell(), housekeeping);
        let hub = Arc::new(hub.announced_by_store(store.announces()));
        let worker = &settings.worker;
        let leases = Arc::new(HeartbeatBatcher::new(
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
            hub: Arc::clone(&hub),
            gate: Arc::new(Gate::new(Arc::clone(&store), runtime.clone())),
            once: Arc::new(StoreLedger(Arc::clone(&store))),
            transactions: store.transactions(),
        }));
        let admission = settings.admission.clone().map(|admission| {
            let stale_after = settings.worker.stale_after;
            let store = Arc::clone(&store);
            BackpressureCoordinator::new(store, runtime.clone(), admission, stale_after)
        });
        let admission = admission.map(Arc::new);
        if let Some(admission) = &admission {
            // The first start is judged too. A look that fails is logged, and the chore looks
            // again.
            let _ = admission.refresh().await;
        }
        let node = Node {
            worker_id,
            admission,
            hub,
            store,
            settings,
            listeners: Listeners::start(self.listeners, &runtime),
            runtime,
            workflows: self.workflows,
            pool,
            remote_workers: RemoteWorkers::default(),
            results,
            leases,
            store_ahead_us: AtomicI64::new(0),
            off_runtime: OffRuntime::default(),
            metrics: DurableMetrics::default(),
        };
        Ok(Engine::launch(Arc::new(node)))
    }
}

impl Source {
    /// Whether somebody has to do the store's chores: a server does them itself.
    const fn needs_housekeeping(&self) -> bool {
        match self {
            Self::Url(_) | Self::Store(_) => true,
            #[cfg(feature = "grpc")]
            Self::Server(_) => false,
        }
    }
}

/// The store behind the codec, if there is one.
fn coded(
    store: Arc<dyn WorkflowEventStore>,
    codec: Option<Arc<dyn PayloadCodec>>,
) -> Arc<dyn WorkflowEventStore> {
    match codec {
        Some(codec) => Arc::new(CodecStore::new(store, codec)),
        None => store,
    }
}

/// A run that was blocked because a key was missing is tried again when it is there, so the keys are part of the build.
fn with_codec(build: &str, codec: &dyn PayloadCodec) -> String {
    let digest = Sha256::digest(codec.name());
    let short = digest.iter().take(4).map(|byte| format!("{byte:02x}"));
    format!("{build}+codec-{}", short.collect::<String>())
}

/// Host, process and something random: no two alike.
fn worker_name(runtime: &Runtime) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let host = if host.is_empty() { "worker" } else { &host };
    let random = runtime.new_id().simple().to_string();
    format!("{host}-{}-{}", std::process::id(), &random[20..])
}

fn check(settings: &Settings) -> Result<()> {
    let (worker, turns, chores) = (&settings.worker, &settings.turns, &settings.chores);
    let refuse = |what: String| Err(crate::Error::configuration(what));
    if worker.max_concurrent_tasks == 0 {
        return refuse("worker.max_concurrent_tasks must be at least 1".to_owned());
    }
    if worker.max_bytes_in_flight == 0 {
        return refuse("worker.max_bytes_in_flight must be at least 1".to_owned());
    }
    let batches = [
        ("worker.claim_batch_size", worker.claim_batch_size),
        ("turns.set_max", turns.set_max),
        ("turns.claim_max", turns.claim_max),
        ("chores.batch", chores.batch),
    ];
    for (name, size) in batches {
        if !(1..=BATCH_ITEMS_MAX).contains(&size) {
            return refuse(format!("{name} must be from 1 to {BATCH_ITEMS_MAX}"));
        }
    }
    // A loop that waits for no time at all would do nothing else.
    let intervals = [
        ("worker.poll_interval", Some(worker.poll_interval)),
        ("worker.lease_renewal", Some(worker.lease_renewal)),
        ("worker.heartbeat_interval", Some(worker.heartbeat_interval)),
        ("worker.stale_after", Some(worker.stale_after)),
        ("chores.fallback_poll", Some(chores.fallback_poll)),
        ("chores.reap_interval", Some(chores.reap_interval)),
        ("chores.retention_interval", Some(chores.retention_interval)),
        ("chores.sample_interval", chores.sample_interval),
    ];
    for (name, interval) in intervals {
        if interval.is_some_and(|interval| interval.is_zero()) {
            return refuse(format!("{name} must be above 0"));
        }
    }
    for (name, lease) in [
        ("worker.lease", worker.lease),
        ("turns.owner_lease", turns.owner_lease),
    ] {
        if let Err(error) = check_lease(lease) {
            return refuse(format!("{name}: {error}"));
        }
    }
    if worker.lease_renewal > worker.lease / 2 {
        return refuse(
            "worker.lease_renewal must be at most half of worker.lease, so that one lost renewal does not lose the lease".to_owned(),
        );
    }
    match worker.backpressure.fault() {
        Some(fault) => refuse(fault.to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn builder(variables: &'static [(&'static str, &'static str)]) -> EngineBuilder {
        let read = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        EngineBuilder::in_environment(Source::Url("memory:".to_owned()), read)
    }

    #[tokio::test]
    async fn the_environment_holds_where_the_program_says_nothing() {
        let engine = builder(&[("MAX_CONCURRENT_TASKS", "7"), ("CLAIM_BATCH_SIZE", "5")])
            .max_concurrent_tasks(9)
            .start()
            .await
            .expect("starts");
        let worker = &engine.node.settings.worker;
        assert_eq!(
            (worker.max_concurrent_tasks, worker.claim_batch_size),
            (9, 5)
        );
        assert_eq!(engine.pool().max_concurrency(), 9);
    }

    #[tokio::test]
    async fn a_bad_value_in_the_environment_is_refused_unless_it_is_replaced() {
        let bad = || builder(&[("POLL_INTERVAL_MS", "soon")]);
        let error = bad().start().await.err().expect("refused");
        assert!(error.is_invalid(), "{error}");
        assert!(error.to_string().contains("POLL_INTERVAL_MS"), "{error}");
        let replaced = bad().worker(WorkerSettings::default()).start().await;
        assert!(replaced.is_ok());
    }

    #[test]
    fn settings_that_would_spin_overflow_or_never_work_are_refused() {
        type Spoil = fn(&mut Settings);
        let bad: [(&str, Spoil); 11] = [
            ("poll_interval", |s| s.worker.poll_interval = Duration::ZERO),
            ("heartbeat_interval", |s| {
                s.worker.heartbeat_interval = Duration::ZERO;
            }),
            ("stale_after", |s| s.worker.stale_after = Duration::ZERO),
            ("reap_interval", |s| s.chores.reap_interval = Duration::ZERO),
            ("fallback_poll", |s| s.chores.fallback_poll = Duration::ZERO),
            ("sample_interval", |s| {
                s.chores.sample_interval = Some(Duration::ZERO);
            }),
            ("lease_renewal", |s| s.worker.lease_renewal = Duration::MAX),
            ("lease", |s| s.worker.lease = Duration::MAX),
            ("owner_lease", |s| s.turns.owner_lease = Duration::ZERO),
            ("claim_max", |s| s.turns.claim_max = 1_000_000),
            ("batch", |s| s.chores.batch = 0),
        ];
        for (name, spoil) in bad {
            let mut settings = Settings::default();
            check(&settings).expect("the defaults are right");
            spoil(&mut settings);
            let error = check(&settings).expect_err(name);
            assert!(error.to_string().contains(name), "{error}");
        }
        let mut lazy = Settings::default();
        lazy.chores.fallback_poll = Duration::MAX;
        lazy.worker.heartbeat_interval = Duration::MAX;
        check(&lazy).expect("slow, and possible");
    }
}
