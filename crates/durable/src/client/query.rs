//! Asking a run about its state.

use std::time::Duration;

use durable_core::{Payload, ProgramState, QueryError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Client, RunHandle};
use crate::engine::{Hosted, ROUTED_QUERY, panic_text, rebuild};
use crate::error::Kind;
use crate::persistence::model::{NewUpdate, RunRecord, WorkerFilter, WorkerInfo, WorkerStatus};
use crate::{Error, Result};

/// How often a run that has not begun is looked at again, and the wait in between.
const LOOKS_MAX: u32 = 8;
const LOOK_AGAIN: Duration = Duration::from_millis(25);

impl Client {
    /// Asks a run about its state by one of the queries that its code set up; changes nothing. Also answers for runs that have ended.
    ///
    /// The run is rebuilt from what is committed, so the answer never shows half a turn. Where this process does not host the
    /// workflow, one that does is asked; runs that have ended are asked only where it is hosted.
    ///
    /// # Errors
    /// [`Error::is_not_found`], [`Error::is_query_not_found`]; [`Error::is_no_worker_for_type`] where nobody hosts the workflow;
    /// [`Error::failure`] where the handler failed; the store's.
    pub async fn query<R: DeserializeOwned>(
        &self,
        run_id: Uuid,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<R> {
        let input = Payload::from_value(input)
            .map_err(|error| Error::payload(format!("the input of query {name}"), error))?;
        let program = match self.rebuilt(run_id).await {
            Ok(program) => program,
            Err(error) if error.is_no_worker_for_type() => {
                return self.routed_query(run_id, name, input, error).await;
            }
            Err(error) => return Err(error),
        };
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            program.program().query(name, &input)
        }));
        let answer = asked
            .map_err(|panic| {
                let reason = format!("query {name} panicked: {}", panic_text(&*panic));
                Error::from(Kind::Unreadable { run_id, reason })
            })?
            .map_err(|source| Error::from(Kind::Query { run_id, source }))?;
        answer
            .to_value()
            .map_err(|error| Error::payload(format!("the answer of query {name}"), error))
    }

    /// Asks a process that hosts the workflow, by way of the run's inbox; `nobody` is the answer if there is none.
    async fn routed_query<R: DeserializeOwned>(
        &self,
        run_id: Uuid,
        name: &str,
        input: Payload,
        nobody: Error,
    ) -> Result<R> {
        let run = self.get(run_id).await?;
        if !self.is_hosted_elsewhere(&run).await? {
            return Err(nobody);
        }
        let update = NewUpdate {
            update_id: self.shared.runtime.new_id().to_string(),
            name: format!("{ROUTED_QUERY}{name}"),
            input,
        };
        let handle = self.update_handle(run_id, update.update_id.clone());
        match self.send_update(run_id, update).await {
            Err(error) if error.is_run_finished() => {
                let reason = format!(
                    "it has ended, and this process does not host workflow {:?}; ask in one that does",
                    run.workflow_type
                );
                return Err(Kind::Unreadable { run_id, reason }.into());
            }
            sent => sent?,
        }
        handle
            .result()
            .await
            .map_err(|error| match error.failure() {
                Some(failure) => {
                    let (name, failure) = (name.to_owned(), failure.clone());
                    let source = QueryError::Failed { name, failure };
                    Kind::Query { run_id, source }.into()
                }
                None => error,
            })
    }

    /// Whether a live process says that it hosts the run's workflow.
    async fn is_hosted_elsewhere(&self, run: &RunRecord) -> Result<bool> {
        let filter = WorkerFilter {
            status: Some(WorkerStatus::Active),
            ..WorkerFilter::default()
        };
        let workers = self.shared.store.list_workers(filter).await?;
        Ok(workers
            .iter()
            .any(|worker| Self::says_it_hosts(worker, run)))
    }

    /// Whether a worker says that it hosts the run's workflow.
    pub(crate) fn says_it_hosts(worker: &WorkerInfo, run: &RunRecord) -> bool {
        let hosted = worker.metadata.to_value::<Hosted>().unwrap_or_default();
        hosted.takes_any_workflow || hosted.workflow_types.contains(&run.workflow_type)
    }

    /// Whether this process hosts the run's workflow.
    pub(crate) fn hosts(&self, run: &RunRecord) -> bool {
        let workflows = &self.shared.workflows;
        workflows.hosts(&run.workflow_type, &run.version)
    }

    /// The run's program as its committed history leaves it.
    pub(crate) async fn rebuilt(&self, run_id: Uuid) -> Result<ProgramState> {
        let shared = &self.shared;
        for _ in 0..LOOKS_MAX {
            let after = self.get(run_id).await?.history_start;
            let history = shared.store.load_history(run_id, after).await?;
            let Some(history) = history else {
                return Err(Kind::NotFound(run_id).into());
            };
            let run = history.run;
            if !shared.workflows.hosts(&run.workflow_type, &run.version) {
                let workflow_type = run.workflow_type;
                return Err(Kind::NoWorkerForType {
                    run_id,
                    workflow_type,
                }
                .into());
            }
            if run.history_start != after || run.sequence == after {
                // It went on as new in between, or waits for its first turn.
                shared.runtime.sleep(LOOK_AGAIN).await;
                continue;
            }
            let events = history
                .events
                .into_iter()
                .filter(|event| event.sequence_num <= run.sequence)
                .map(|event| (event.sequence_num, event.event))
                .collect();
            let rebuilt = rebuild(&shared.workflows, &shared.runtime, &run, events);
            return match rebuilt {
                Ok((program, _)) => Ok(program),
                Err(reason) => Err(Kind::Unreadable { run_id, reason }.into()),
            };
        }
        Err(Kind::NotBegun { run_id }.into())
    }
}

impl<W> RunHandle<W> {
    /// Asks the run about its state; see [`Client::query`].
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn query<R: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<R> {
        self.client.query(self.id(), name, input).await
    }
}
