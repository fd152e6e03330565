//! The engine: takes turns, runs activities and does the chores of one process.
//!
//! ```text
//!   Client ──start, signal──► store ◄──────────────── chores (due, reaper, relay, claims …)
//!      │ ring                   ▲                          │ ring
//!      ▼                        │ commit_turns             ▼
//!     Hub ───────► Desk ───► Turner ──hand-over──► WorkerPool ──finished──► Desk
//! ```
//!
//! Architecture invariant: the engine knows the store only by its contract, and the world only by
//! [`crate::runtime::Runtime`]. Any number of engines may share one store; nothing here is needed for safety but the store.

mod assemble;
mod beginning;
mod builder;
mod cache;
mod decide;
mod desk;
mod elsewhere;
mod hand_over;
mod hub;
mod load;
mod locals;
mod node;
mod off_runtime;
mod question;
mod settings;
mod settle;
mod stops;
mod too_large;
mod turner;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

pub use crate::chores::ChoreTrouble;
pub(crate) use beginning::Beginning;
pub use builder::EngineBuilder;
pub(crate) use desk::{Desk, Origin};
pub(crate) use hub::{Hub, Watch};
pub(crate) use node::{Hosted, Node};
pub(crate) use question::Reader;
pub use settings::{ChoreSettings, DetailRetention, Settings, TurnSettings};
pub(crate) use stops::RunningActivity;
pub(crate) use turner::{Turner, panic_text};

use crate::Result;
use crate::chores;
use crate::client::Client;
use crate::error::Kind;
use crate::observability::{DurableMetrics, MetricsPoint};
use crate::persistence::WorkflowEventStore;
use crate::persistence::model::{TaskLease, TaskRelease};
use crate::worker::{Claims, WorkerPool};
use crate::workflow::WorkflowDefinition;

/// An engine that runs: workflows and activities of this process, on a store that others may share.
///
/// Dropping it stops it where it stands, as a crash would; nothing is lost, and whoever opens the store next carries on.
/// [`Engine::shutdown`] is the polite way.
pub struct Engine {
    node: Arc<Node>,
    turner: Arc<Turner>,
    client: Client,
    stops: Stops,
}

/// How long a shutdown takes at most after [`Settings::shutdown_grace`], for its farewell: as long again, within these.
const FAREWELL_MIN: Duration = Duration::from_secs(2);
/// The longest.
const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// How long a shutdown waits for its last tasks, which were told to stop: activities that do not heed it may be among them.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// What is told to stop, and when.
struct Stops {
    /// Claims of tasks and turns: first.
    claims: CancellationToken,
    /// Everything else: last.
    all: CancellationToken,
}

/// An engine, in a process that is there to host code: `Worker::connect(url)`.
pub type Worker = Engine;

impl Engine {
    /// An engine whose store lives in this process and dies with it.
    pub fn in_memory() -> EngineBuilder {
        EngineBuilder::new("memory:")
    }

    /// An engine on a SQLite file, which is created if it does not exist.
    pub fn sqlite(path: impl AsRef<std::path::Path>) -> EngineBuilder {
        EngineBuilder::new(format!("sqlite:{}", path.as_ref().display()))
    }

    /// An engine on a PostgreSQL database, such as `postgres://user@host/database`.
    pub fn postgres(url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(url)
    }

    /// An engine on whatever store a URL names: `memory:`, `sqlite:PATH`, `postgres://…`.
    pub fn open(url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(url)
    }

    /// An engine that works for a server, which has the database: it takes turns and runs activities, and the server does the chores. Takes a
    /// URL, such as `http://127.0.0.1:7401`, or a [`Connect`](crate::remote::Connect) with a token and certificates.
    #[cfg(feature = "grpc")]
    pub fn connect(server: impl Into<crate::remote::Connect>) -> EngineBuilder {
        EngineBuilder::connect(server.into())
    }

    /// An engine on a store that is open already.
    pub fn on(store: Arc<dyn WorkflowEventStore>) -> EngineBuilder {
        EngineBuilder::on(store)
    }

    pub(crate) fn launch(node: Arc<Node>) -> Self {
        let stops = Stops {
            claims: CancellationToken::new(),
            all: CancellationToken::new(),
        };
        let turner = Arc::new(Turner::new(Arc::clone(&node)));
        for _ in 0..node.settings.turns.committers.max(1) {
            node.runtime.spawn(Arc::clone(&turner).run());
        }
        spawn_worker(&node, &stops);
        spawn_until(&node, &stops.all, "listener", chores::listen);
        spawn_until(&node, &stops.claims, "offers", chores::take_offers);
        chores::start_all(&node, &turner, &stops.claims, &stops.all);
        let client = Client::beside(&node, &turner);
        Self {
            node,
            turner,
            client,
            stops,
        }
    }

    /// A client of this engine's store. Cheap to clone.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn WorkflowEventStore> {
        &self.node.store
    }

    /// Name of this process among the workers.
    #[must_use]
    pub fn worker_id(&self) -> &str {
        &self.node.worker_id
    }

    /// The activities that run here.
    #[must_use]
    pub fn pool(&self) -> &WorkerPool {
        &self.node.pool
    }

    /// What this engine measures; its samples are [`Engine::metrics_history`].
    #[must_use]
    pub fn metrics(&self) -> &DurableMetrics {
        &self.node.metrics
    }

    /// Samples of the last hour, oldest first; none unless [`ChoreSettings::sample_interval`] is set.
    #[must_use]
    pub fn metrics_history(&self) -> Vec<MetricsPoint> {
        self.node.metrics.points()
    }

    /// Starts a workflow and waits for its result.
    ///
    /// # Errors
    /// The start's, or how the run ended where it ended without a result; [`Error::is_blocked`](crate::Error::is_blocked) where its code
    /// cannot go on.
    pub async fn run<W: WorkflowDefinition>(&self, input: W::Input) -> Result<W::Output> {
        let run = self.client.start::<W>(input).await?;
        run.result().await
    }

    /// Takes nothing new, lets running activities finish (for as long as [`Settings::shutdown_grace`]), gives the rest back without
    /// an attempt lost, and stops. With a store that cannot be reached it gives up a few seconds after that: what is not stored by then is
    /// found by others when its leases run out, as after a crash.
    ///
    /// # Errors
    /// The store's, where the farewell could not be stored; the engine has stopped all the same.
    pub async fn shutdown(self) -> Result<()> {
        let node = &self.node;
        node.pool.stop_accepting();
        node.hub.signs.notify_one();
        self.stops.claims.cancel();
        let grace = node.settings.shutdown_grace;
        let (mut left, elsewhere) =
            tokio::join!(node.pool.drain(grace), node.remote_workers.drain(grace));
        left.extend(elsewhere);
        let more = grace.clamp(FAREWELL_MIN, FAREWELL_MAX);
        // Either may be dropped at any point: a shutdown that is given up is a crash, which loses nothing.
        tokio::select! {
            biased;
            done = self.farewell(left) => done,
            () = node.runtime.sleep(more) => Err(Kind::FarewellCut { grace, more }.into()),
        }
    }

    async fn farewell(&self, left: Vec<(TaskLease, String)>) -> Result<()> {
        let node = &self.node;
        let released = self.give_back(left).await;
        node.pool.save_reports().await;
        node.results.flushed().await;
        let not_begun = node.hub.desk.close();
        node.hub.desk.emptied().await;
        // The last turns may have left results behind: of runs that are others', or blocked.
        node.results.flushed().await;
        self.stops.all.cancel();
        node.listeners
            .close(&node.runtime, node.settings.shutdown_grace)
            .await;
        let disowned = self.disown_runs(not_begun).await;
        let farewell = node.store.deregister_worker(&node.worker_id).await;
        // Until they have ended they hold the store, and whoever opens the same file next would find it in use.
        node.runtime.ended(LAST_TASKS).await;
        debug!(worker_id = %node.worker_id, "the engine has stopped");
        released?;
        disowned?;
        farewell?;
        Ok(())
    }

    /// Others need not wait for the ownerships to run out.
    async fn disown_runs(
        &self,
        not_begun: Vec<Uuid>,
    ) -> Result<(), crate::persistence::StoreError> {
        let node = &self.node;
        let mut runs = self.turner.cache.runs();
        runs.extend(not_begun);
        for runs in runs.chunks(1_000) {
            node.store.release_runs(&node.worker_id, runs).await?;
        }
        Ok(())
    }

    async fn give_back(
        &self,
        left: Vec<(TaskLease, String)>,
    ) -> Result<(), crate::persistence::StoreError> {
        if left.is_empty() {
            return Ok(());
        }
        let node = &self.node;
        let tasks = left.len();
        warn!(tasks, "activities still run and are given back");
        for left in left.chunks(1_000) {
            let leases = left.iter().map(|(lease, _)| lease.clone());
            let releases = leases.map(TaskRelease::now).collect();
            node.store.release_tasks(releases, None).await?;
            let types = left.iter().map(|(_, activity_type)| &**activity_type);
            node.hub.claimable_by_others(types);
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stops.claims.cancel();
        self.stops.all.cancel();
        self.node.runtime.kill();
    }
}

fn spawn_worker(node: &Arc<Node>, stops: &Stops) {
    spawn_until(node, &stops.all, "results", |node| async move {
        node.results.run(&*node).await;
    });
    spawn_until(node, &stops.all, "leases", |node| async move {
        node.leases.run().await;
    });
    spawn_until(node, &stops.all, "reports", |node| async move {
        node.pool.keep_saving_reports().await;
    });
    let claims = Claims {
        pool: Arc::clone(&node.pool),
        port: Arc::clone(&node.store) as Arc<dyn crate::persistence::WorkerPort>,
        hub: Arc::clone(&node.hub),
        shards: node.store.shards(),
        worker_id: node.worker_id.clone(),
    };
    let (runtime, stop) = (node.runtime.clone(), stops.claims.clone());
    node.runtime.spawn(async move {
        runtime.keep_up("claims", || claims.run(&stop)).await;
    });
}

/// Runs a loop that has no end of its own.
fn spawn_until<F>(
    node: &Arc<Node>,
    stop: &CancellationToken,
    part: &'static str,
    endless: impl Fn(Arc<Node>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (node, stop) = (Arc::clone(node), stop.clone());
    let runtime = node.runtime.clone();
    runtime.clone().spawn(async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = runtime.keep_up(part, || endless(Arc::clone(&node))) => {}
        }
    });
}
