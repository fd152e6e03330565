//! Which live processes can go on with a run.

use std::time::Duration;

use uuid::Uuid;

use super::Client;
use crate::engine::Hosted;
use crate::error::Kind;
use crate::persistence::Ring;
use crate::persistence::model::{RunRecord, WorkerFilter, WorkerInfo, WorkerStatus};
use crate::{Error, Result};

/// A process without a sign of life for this long is not asked any more.
const ALIVE_WITHIN: Duration = Duration::from_secs(60);
/// How long an answer may take before anybody asks whether one can come, and how often that is asked again.
const FIRST_DOUBT: Duration = Duration::from_millis(500);
/// How often a process that hosts a workflow is looked for meanwhile.
const LOOKS: u32 = 10;
const LATER_DOUBTS: Duration = Duration::from_secs(10);

impl Client {
    /// Whether this process hosts the run's workflow.
    pub(crate) fn hosts(&self, run: &RunRecord) -> bool {
        let workflows = &self.shared.workflows;
        workflows.hosts(&run.workflow_type, &run.version)
    }

    /// Asks a worker to finish what it has and take nothing more. False: there is no such worker.
    ///
    /// # Errors
    /// The store's.
    pub async fn drain_worker(&self, worker_id: &str) -> Result<bool> {
        let status = WorkerStatus::Draining;
        let is_known = self.store().set_worker_status(worker_id, status).await?;
        if is_known {
            // It hears of it with the answer to its next sign of life, wherever it is.
            self.shared.hub.signs.notify_one();
            self.shared.hub.tell_others(Ring::everything());
        }
        Ok(is_known)
    }

    /// Whether a worker says that it hosts the run's workflow.
    pub(crate) fn says_it_hosts(worker: &WorkerInfo, run: &RunRecord) -> bool {
        let hosted = worker.metadata.to_value::<Hosted>().unwrap_or_default();
        hosted.takes_any_workflow || hosted.workflow_types.contains(&run.workflow_type)
    }

    /// The builds of live processes that say they host the workflow, this one's included.
    pub(super) async fn builds_hosting(&self, run: &RunRecord) -> Result<Vec<String>> {
        let mut builds = Vec::new();
        if let Some(beside) = &self.shared.beside
            && self.hosts(run)
        {
            builds.push(beside.build.clone());
        }
        let store = self.store();
        let now = store.clock(None).await?;
        let filter = WorkerFilter {
            status: Some(WorkerStatus::Active),
            heartbeat_since: now.checked_sub(ALIVE_WITHIN).ok(),
            ..WorkerFilter::default()
        };
        for worker in store.list_workers(filter).await? {
            if Self::says_it_hosts(&worker, run) {
                builds.push(worker.version.unwrap_or_default());
            }
        }
        Ok(builds)
    }

    /// Whether a live process says that it hosts the run's workflow. One that has just begun may not have said so yet: before there is
    /// doubt, it is looked for a few times.
    pub(super) async fn is_hosted(&self, run: &RunRecord) -> Result<bool> {
        for _ in 0..LOOKS {
            if !self.builds_hosting(run).await?.is_empty() {
                return Ok(true);
            }
            self.shared.runtime.sleep(FIRST_DOUBT / LOOKS).await;
        }
        Ok(!self.builds_hosting(run).await?.is_empty())
    }

    /// Why the run does not go on: it is blocked, and no live process has another build of its workflow.
    pub(super) async fn blocked(&self, run: &RunRecord) -> Result<Option<Error>> {
        let Some(blocked) = &run.blocked else {
            return Ok(None);
        };
        let builds = self.builds_hosting(run).await?;
        if builds.iter().any(|build| *build != blocked.build) {
            return Ok(None);
        }
        let error = Kind::Blocked {
            run_id: run.id,
            build: blocked.build.clone(),
            reason: blocked.reason.clone(),
        };
        Ok(Some(error.into()))
    }

    /// Ends when nobody can answer for the run: no live process hosts its workflow, or those that do are blocked. What answers
    /// soon costs nothing.
    pub(super) async fn hopeless(&self, run_id: Uuid) -> Error {
        let mut wait = FIRST_DOUBT;
        loop {
            self.shared.runtime.sleep(wait).await;
            wait = LATER_DOUBTS;
            match self.hope(run_id).await {
                Err(error) if !error.is_retryable() => return error,
                _ => {}
            }
        }
    }

    async fn hope(&self, run_id: Uuid) -> Result<()> {
        let run = self.get(run_id).await?;
        if run.status.is_terminal() {
            return Ok(());
        }
        if let Some(error) = self.blocked(&run).await? {
            return Err(error);
        }
        if self.builds_hosting(&run).await?.is_empty() {
            let workflow_type = run.workflow_type;
            return Err(Kind::NoWorkerForType {
                run_id,
                workflow_type,
            }
            .into());
        }
        Ok(())
    }
}
