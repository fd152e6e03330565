//! Code in other processes that this engine drives: a server's workers in any language.
//!
//! ```text
//!   WorkflowHost ◄── Activation ── Turner (elsewhere.rs) ──► decide, conclude, commit: as for a workflow that runs here
//!   TaskSink     ◄── ClaimedTask ── RemoteWorker ──► finish_tasks, extend_leases: as for an activity that runs here
//! ```
//!
//! Whoever brings a connection implements the two traits; [`Hosting`] is where it attaches them. Nothing here knows a wire.
//!
//! Architecture invariant: a remote program is judged by the core and committed by the turner like any other. What a host says is never believed
//! beyond what a local program could have done.

mod bell;
mod hosts;
mod offers;
mod program;
mod remote_workers;
mod task;
mod turn;
mod worker;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use uuid::Uuid;

pub(crate) use bell::TaskBell;
pub use bell::TaskNews;
pub use hosts::Attachment;
pub(crate) use hosts::{Attached, WorkflowHosts};
pub(crate) use offers::Engines;
pub use offers::{FirstTurn, Offer, Offers, Taking};
pub(crate) use program::{RemoteProgram, Seat};
pub(crate) use remote_workers::RemoteWorkers;
pub use turn::{Activation, Asked, Beginning, HostError, Item, Step, WorkflowHost};
pub use worker::{RemoteWorker, TaskSink, WorkerProfile};

use crate::engine::Turner;
use crate::persistence::model::HostedType;

/// Where connections attach code that runs in other processes. From [`crate::Client::hosting`] of a client beside an engine. Cheap to clone.
#[derive(Clone)]
pub struct Hosting {
    turner: Weak<Turner>,
}

impl Hosting {
    pub(crate) const fn of(turner: Weak<Turner>) -> Self {
        Self { turner }
    }

    /// The engine, while it lives.
    fn turner(&self) -> Option<Arc<Turner>> {
        self.turner.upgrade()
    }

    /// Offers a host's workflows: runs of these types and versions are given to it until the answer is dropped. `build` names its code: a run that
    /// it cannot go on with waits for another one. None: the engine has stopped.
    #[must_use]
    pub fn attach_workflows(
        &self,
        host: Arc<dyn WorkflowHost>,
        types: BTreeSet<HostedType>,
        build: String,
    ) -> Option<Attachment> {
        let turner = self.turner()?;
        let attached = turner.node.workflows.elsewhere().attach(host, types, build);
        // Runs may have waited for it.
        turner.node.hub.turns.notify_one();
        Some(Attachment::new(self.clone(), attached))
    }

    /// Its programs are of no use any more; others may take the runs at once.
    fn detached(&self, number: u64) {
        let Some(turner) = self.turner() else { return };
        turner.node.workflows.elsewhere().detach(number);
        turner.drop_programs_of_gone_hosts();
    }

    /// Connects an engine in another process: runs of these types that are started here are offered to it, until the answer is dropped.
    /// None: the engine has stopped.
    #[must_use]
    pub fn connect_engine(&self, types: BTreeSet<HostedType>) -> Option<Offers> {
        Some(self.turner()?.node.hub.engines.connect(types))
    }

    /// Opens a worker whose activities run in another process: it is registered, and its sink is given tasks while it has room.
    /// None: the engine has stopped.
    #[must_use]
    pub fn open_worker(
        &self,
        profile: WorkerProfile,
        sink: Arc<dyn TaskSink>,
    ) -> Option<RemoteWorker> {
        let turner = self.turner()?;
        Some(RemoteWorker::open(Arc::clone(&turner.node), profile, sink))
    }

    /// Tells of tasks that may be claimed, from now on. None: the engine has stopped.
    #[must_use]
    pub fn task_news(&self) -> Option<TaskNews> {
        Some(self.turner()?.node.hub.elsewhere.news())
    }

    /// A new id, as the engine makes them. None: the engine has stopped.
    #[must_use]
    pub fn new_id(&self) -> Option<Uuid> {
        Some(self.turner()?.node.runtime.new_id())
    }
}
