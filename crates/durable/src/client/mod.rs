//! Clients: starting runs, and talking to them.

mod acting;
mod batch;
mod dead_letters;
mod delete;
#[cfg(feature = "grpc")]
mod door;
mod enqueue;
mod find;
mod gather;
mod handle;
pub mod history;
mod hosts;
mod query;
mod requeue;
mod reset;
mod reset_turn;
mod schedules;
mod sets;
mod start;
mod update;
pub mod verify;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Payload, error_types, signal_types};
use serde::Serialize;
use tokio::sync::Semaphore;
use uuid::Uuid;

pub use crate::persistence::model::RunPage;
pub use batch::{BatchOptions, BatchOutcome};
pub use delete::Deletion;
pub use handle::RunHandle;
pub use history::History;
pub use requeue::{RequeueOptions, RequeueOutcome};
pub use schedules::{BACKFILL_TICKS_MAX, Schedule};
#[cfg(feature = "postgres")]
pub(crate) use start::start_of;
pub use start::{Start, Untyped};
pub use update::{Update, UpdateHandle, UpdateWithStart};

use acting::Acting;
use gather::Gather;
use sets::{Signals, Starts, Updates};

use crate::engine::ChoreTrouble;
use crate::engine::{Hub, Node, Turner};
use crate::error::Kind;
use crate::hosting::Hosting;
use crate::observability::Listeners;
use crate::persistence::model::{
    NewSignal, RunRecord, SendOutcome, SendSignal, TerminateOutcome, TerminateRun,
};
use crate::persistence::{OpenOptions, Ring, SetAside, WorkflowEventStore, open};
use crate::reliability::BackpressureCoordinator;
use crate::runtime::Runtime;
use crate::workflow::{WorkflowDefinition, WorkflowRegistry};
use crate::{Error, Result};

/// A client of a store. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// Whose changes leave audit rows.
    acting: Option<Arc<Acting>>,
}

struct Shared {
    store: Arc<dyn WorkflowEventStore>,
    hub: Arc<Hub>,
    runtime: Runtime,
    starts: Arc<Gather<Starts>>,
    signals: Arc<Gather<Signals>>,
    updates: Arc<Gather<Updates>>,
    /// What the engine beside it hosts; empty for a client on its own.
    workflows: WorkflowRegistry,
    /// The engine beside it: it becomes the owner of what is started here, so that no claim is needed.
    beside: Option<Beside>,
    /// Places for calls that wait at the other end of the store: enough for those who wait for one run after the other. Whoever waits for
    /// many at once is rung for.
    waits: Semaphore,
    /// Refuses starts while too much waits.
    admission: Option<Arc<BackpressureCoordinator>>,
}

struct Beside {
    worker_id: String,
    owner_lease: Duration,
    build: String,
    listeners: Arc<Listeners>,
    hosting: Hosting,
}

impl Client {
    /// A client on its own: what it starts is carried on by engines in other processes.
    ///
    /// # Errors
    /// The store's, where it cannot be opened.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, OpenOptions::default()).await
    }

    /// [`Client::open`] with options, such as the codec of the engines: `OpenOptions::default().with_codec(codec)`.
    ///
    /// # Errors
    /// The store's, where it cannot be opened.
    pub async fn open_with(url: &str, options: OpenOptions) -> Result<Self> {
        Ok(Self::on(open(url, options).await?))
    }

    /// A client of a server, by its gRPC URL, such as `http://127.0.0.1:7401`, or a [`Connect`](crate::remote::Connect) with a token and
    /// certificates.
    ///
    /// # Errors
    /// Those of [`RemoteStore::connect`](crate::remote::RemoteStore::connect).
    #[cfg(feature = "grpc")]
    pub async fn connect(server: impl Into<crate::remote::Connect>) -> Result<Self> {
        let store = crate::remote::RemoteStore::connect(server).await?;
        Ok(Self::on(Arc::new(store)))
    }

    /// A client on a store that is open already. To be called within a tokio runtime, in which it listens for what others ring.
    #[must_use]
    pub fn on(store: Arc<dyn WorkflowEventStore>) -> Self {
        Self::on_runtime(store, &Runtime::real())
    }

    /// [`Client::on`] with a world of its own: tasks, time, chance. For simulations.
    #[must_use]
    pub fn on_runtime(store: Arc<dyn WorkflowEventStore>, runtime: &Runtime) -> Self {
        Self::knowing(store, runtime, WorkflowRegistry::new())
    }

    /// [`Client::on_runtime`] that knows these workflows' code, and so can ask their runs.
    pub(crate) fn knowing(
        store: Arc<dyn WorkflowEventStore>,
        runtime: &Runtime,
        workflows: WorkflowRegistry,
    ) -> Self {
        let hub = Arc::new(Hub::new(Arc::default(), store.bell(), false));
        let client = Self {
            shared: Arc::new(Shared {
                starts: Gather::new(Starts(Arc::clone(&store)), runtime.clone()),
                signals: Gather::new(Signals(Arc::clone(&store)), runtime.clone()),
                updates: Gather::new(Updates(Arc::clone(&store)), runtime.clone()),
                store,
                hub: Arc::clone(&hub),
                runtime: runtime.clone(),
                workflows,
                beside: None,
                waits: Semaphore::new(WAITS_MAX),
                admission: None,
            }),
            acting: None,
        };
        if let Some(bell) = hub.bell().cloned() {
            let hub = Arc::downgrade(&hub);
            runtime.spawn(async move {
                while let ring = bell.listen().await
                    && let Some(hub) = hub.upgrade()
                {
                    hub.heard(ring);
                }
            });
        }
        client
    }

    /// Where connections attach code that runs in other processes. None: there is no engine beside.
    #[must_use]
    pub fn hosting(&self) -> Option<Hosting> {
        let beside = self.shared.beside.as_ref()?;
        Some(beside.hosting.clone())
    }

    pub(crate) fn beside(node: &Node, turner: &Arc<Turner>) -> Self {
        Self {
            shared: Arc::new(Shared {
                starts: Gather::new(Starts(Arc::clone(&node.store)), node.runtime.clone()),
                signals: Gather::new(Signals(Arc::clone(&node.store)), node.runtime.clone()),
                updates: Gather::new(Updates(Arc::clone(&node.store)), node.runtime.clone()),
                store: Arc::clone(&node.store),
                hub: Arc::clone(&node.hub),
                runtime: node.runtime.clone(),
                workflows: node.workflows.clone(),
                beside: Some(Beside {
                    worker_id: node.worker_id.clone(),
                    owner_lease: node.settings.turns.owner_lease,
                    build: node.settings.build.clone(),
                    listeners: Arc::clone(&node.listeners),
                    hosting: Hosting::of(Arc::downgrade(turner)),
                }),
                waits: Semaphore::new(WAITS_MAX),
                admission: node.admission.clone(),
            }),
            acting: None,
        }
    }

    /// Starts a run: `client.start::<Order>(input).await?`, with options in between.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a call site reads better without a reference"
    )]
    pub fn start<W: WorkflowDefinition>(&self, input: W::Input) -> Start<W> {
        Start::of_type(self.clone(), &input)
    }

    /// Starts a run of a type known by name only.
    pub fn start_named(&self, workflow_type: impl Into<String>, input: Payload) -> Start<Untyped> {
        Start::named(self.clone(), workflow_type.into(), input)
    }

    /// A run by its id, to be waited for or talked to.
    #[must_use]
    pub fn run<W: WorkflowDefinition>(&self, run_id: Uuid) -> RunHandle<W> {
        RunHandle::new(self.clone(), run_id)
    }

    /// [`Client::run`] of a type known by name only, or not at all.
    #[must_use]
    pub fn run_named(&self, run_id: Uuid) -> RunHandle<Untyped> {
        RunHandle::new(self.clone(), run_id)
    }

    /// Which chores of this process have failed, how often, and with what.
    #[must_use]
    pub fn chore_troubles(&self) -> Vec<ChoreTrouble> {
        self.shared.hub.troubles.all()
    }

    /// The deadlines, timers, tasks, leases and messages of single runs that this process has set
    /// aside, because the store fails on each of them alone. Each is tried again by itself, ever
    /// more rarely, at most an hour later.
    #[must_use]
    pub fn set_aside(&self) -> Vec<SetAside> {
        let asides = self.shared.store.asides();
        asides.map(|asides| asides.list()).unwrap_or_default()
    }

    /// Lets what this process has set aside of a run be tried again at once. False if nothing of
    /// the run is set aside here.
    #[must_use]
    pub fn retry_set_aside(&self, run_id: Uuid) -> bool {
        let asides = self.shared.store.asides();
        let cleared = asides.is_some_and(|asides| asides.clear(run_id));
        if cleared {
            self.shared.hub.due.ring();
            self.shared.hub.messages.notify_one();
        }
        cleared
    }

    /// A run as it stands.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn get(&self, run_id: Uuid) -> Result<RunRecord> {
        let run = self.shared.store.get_run(run_id).await?;
        run.ok_or_else(|| Kind::NotFound(run_id).into())
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// [`Error::is_not_found`], [`Error::is_run_finished`]; [`Error::is_retryable`] where too many wait already or the store is busy.
    pub async fn signal<T: Serialize + Sync + ?Sized>(
        &self,
        run_id: Uuid,
        signal_type: &str,
        payload: &T,
    ) -> Result<()> {
        let payload = Payload::from_value(payload).map_err(|error| {
            Error::payload(format!("the payload of signal {signal_type}"), error)
        })?;
        let signal_id = self.shared.runtime.new_id();
        self.send(run_id, signal_id, signal_type, payload).await
    }

    /// Sends a signal under an id of your own: sending it twice is one signal.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn send(
        &self,
        run_id: Uuid,
        signal_id: Uuid,
        signal_type: &str,
        payload: Payload,
    ) -> Result<()> {
        let signal = NewSignal {
            signal_id,
            signal_type: signal_type.to_owned(),
            payload,
        };
        let asked = self.asked(SendSignal { run_id, signal });
        // The id makes a repeat harmless, so an unknown outcome is simply tried again.
        let outcome = self
            .retried(|| self.shared.signals.one(asked.clone()))
            .await?;
        match outcome {
            SendOutcome::Accepted { .. } | SendOutcome::Duplicate { .. } => {
                self.ring(run_id);
                Ok(())
            }
            SendOutcome::Rejected(rejection) => Err(Kind::Send { run_id, rejection }.into()),
        }
    }

    /// Asks a run to stop; it may clean up first.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn cancel(&self, run_id: Uuid, reason: &str) -> Result<()> {
        self.signal(run_id, signal_types::CANCEL, reason).await
    }

    /// Asks a run to finish the activities in flight and then stop.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn request_shutdown(&self, run_id: Uuid) -> Result<()> {
        self.signal(run_id, signal_types::SHUTDOWN, "shutdown")
            .await
    }

    /// Ends a run at once: failed, with error `WorkflowTerminated`.
    ///
    /// # Errors
    /// [`Error::is_not_found`], [`Error::is_run_finished`]; the store's.
    pub async fn terminate(&self, run_id: Uuid, reason: &str) -> Result<()> {
        let request = TerminateRun {
            run_id,
            reason: reason.to_owned(),
        };
        let (outcomes, doubt) = self
            .retried_with_doubt(|| {
                let requests = vec![request.clone()];
                self.store().terminate_runs(requests, None)
            })
            .await?;
        match outcomes.first() {
            Some(TerminateOutcome::Terminated) => {
                self.terminated(&[run_id]).await;
                Ok(())
            }
            Some(TerminateOutcome::AlreadyFinished(_))
                if doubt == Doubt::Some && self.was_terminated(&request).await? =>
            {
                self.terminated(&[run_id]).await;
                Ok(())
            }
            Some(TerminateOutcome::AlreadyFinished(status)) => {
                let rejection =
                    crate::persistence::model::SendRejection::RunFinished { status: *status };
                Err(Kind::Send { run_id, rejection }.into())
            }
            Some(TerminateOutcome::NotFound) | None => Err(Kind::NotFound(run_id).into()),
        }
    }

    /// Whether the run ended that way, by a try whose answer was lost.
    async fn was_terminated(&self, request: &TerminateRun) -> Result<bool> {
        let run = self.get(request.run_id).await?;
        Ok(run.error.is_some_and(|error| {
            error.error_type == error_types::WORKFLOW_TERMINATED && error.message == request.reason
        }))
    }

    /// Tells everybody concerned of runs that were ended here.
    async fn terminated(&self, runs: &[Uuid]) {
        self.shared.hub.finished(runs);
        self.leave_to_chores(Ring {
            messages: true,
            ..Ring::default()
        });
        for run_id in runs {
            self.ring(*run_id);
            let beside = self.shared.beside.as_ref();
            let listeners = beside.map(|beside| &beside.listeners);
            // Whoever listens wants to know more than the id; where it cannot be read, the history has it.
            if let Some(listeners) = listeners.filter(|listeners| listeners.is_anybody_there())
                && let Ok(run) = self.get(*run_id).await
            {
                listeners.ended(&run);
            }
        }
    }

    /// The store, for what operators do; of a client that acts for somebody, the view of it that notes their changes.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn WorkflowEventStore> {
        let acting = self.acting.as_ref();
        acting.map_or(&self.shared.store, |acting| &acting.store)
    }

    /// The engine beside looks first; without one, the others are told.
    fn ring(&self, run_id: Uuid) {
        if self.shared.beside.is_some() {
            self.shared.hub.ready_runs([run_id]);
        } else {
            self.shared.hub.pass_on([run_id]);
        }
    }

    /// The engine beside does the chores; without one, or where it does none, the others do.
    fn leave_to_chores(&self, ring: Ring) {
        if self.shared.hub.does_housekeeping() {
            self.shared.hub.heard(ring);
        } else {
            self.shared.hub.tell_others(ring);
        }
    }

    /// Calls again, a few times, where the store could not be reached and a repeat does no harm.
    async fn retried<T, E, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        E: Into<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let (answer, _) = self.retried_with_doubt(call).await?;
        Ok(answer)
    }

    /// The same, for calls whose repeat answers otherwise: also tells whether an earlier try may have been carried out.
    async fn retried_with_doubt<T, E, F>(&self, call: impl Fn() -> F) -> Result<(T, Doubt)>
    where
        E: Into<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let runtime = &self.shared.runtime;
        let mut attempt = 0;
        loop {
            let error: Error = match call().await {
                Ok(answer) if attempt == 0 => return Ok((answer, Doubt::None)),
                Ok(answer) => return Ok((answer, Doubt::Some)),
                Err(error) => error.into(),
            };
            // Whoever is overloaded says when to come back, which is the caller's to do.
            let hopeless = error.is_shutting_down() || error.is_overloaded();
            if !error.is_retryable() || hopeless || attempt == RETRIES_MAX {
                return Err(error);
            }
            let wait = Duration::from_millis(20 << attempt.min(6));
            runtime.sleep(runtime.jittered(wait)).await;
            attempt += 1;
        }
    }
}

/// Calls of one client that wait at the other end of the store.
const WAITS_MAX: usize = 16;

/// Whether a call may have been carried out before it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    Some,
}

/// How often a call is repeated before its error is the caller's: about three seconds in all.
const RETRIES_MAX: u32 = 8;
