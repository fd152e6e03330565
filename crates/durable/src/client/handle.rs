//! A run that was started: waiting for it, talking to it.

use std::marker::PhantomData;
use std::sync::Arc;

use durable_core::{Failure, Payload, error_types};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::Client;
use super::start::Untyped;
use super::waiting::LOOK_AT_LEAST_EVERY;
use crate::engine::Watch;
use crate::error::Kind;
use crate::persistence::model::{Awaited, RunRecord, WorkflowStatus};
use crate::workflow::WorkflowDefinition;
use crate::{Error, Result};

/// A run. Cheap to clone; dropping it changes nothing.
pub struct RunHandle<W> {
    pub(super) client: Client,
    run_id: Uuid,
    /// The run is watched since before it was started.
    watch: Option<Arc<Watch>>,
    workflow: PhantomData<fn() -> W>,
}

/// What a run has come to.
enum Come {
    /// It has this result.
    Result(Payload),
    /// It stands like this.
    Run(Box<RunRecord>),
}

impl<W> RunHandle<W> {
    pub(super) const fn new(client: Client, run_id: Uuid) -> Self {
        Self {
            client,
            run_id,
            watch: None,
            workflow: PhantomData,
        }
    }

    /// A run that was started just now, watched since before.
    pub(super) fn watched(client: Client, run_id: Uuid, watch: Watch) -> Self {
        Self {
            watch: Some(Arc::new(watch)),
            ..Self::new(client, run_id)
        }
    }

    /// The run's id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.run_id
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// The run as it stands.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get(&self) -> Result<RunRecord> {
        self.client.get(self.run_id).await
    }

    /// Waits until the run has ended, however it ends, and however long it is blocked meanwhile.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn ended(&self) -> Result<RunRecord> {
        let run = || async {
            let run = self.get().await?;
            Ok(run.status.is_terminal().then_some(run))
        };
        self.client.look_until(self.run_id, run).await
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn signal<T: Serialize + Sync + ?Sized>(
        &self,
        signal_type: &str,
        payload: &T,
    ) -> Result<()> {
        self.client.signal(self.run_id, signal_type, payload).await
    }

    /// Asks the run to stop; it may clean up first.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn cancel(&self, reason: &str) -> Result<()> {
        self.client.cancel(self.run_id, reason).await
    }

    /// Asks the run to finish the activities in flight and then stop.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn request_shutdown(&self) -> Result<()> {
        self.client.request_shutdown(self.run_id).await
    }

    /// Ends the run at once.
    ///
    /// # Errors
    /// As [`Client::terminate`].
    pub async fn terminate(&self, reason: &str) -> Result<()> {
        self.client.terminate(self.run_id, reason).await
    }

    async fn payload(&self) -> Result<Payload> {
        let run_id = self.run_id;
        let watch = match &self.watch {
            Some(watch) => Arc::clone(watch),
            None => Arc::new(self.client.shared.hub.watch(run_id)),
        };
        let look = || async {
            match watch.take_result() {
                Some(result) => Ok(Some(Come::Result(result))),
                None => self.come_to(self.get().await?).await,
            }
        };
        let come = match self.awaited().await? {
            Some(come) => come,
            None => {
                let quiet = self.watch.is_some();
                self.client.look_at(&watch, quiet, look).await?
            }
        };
        let run = match come {
            Come::Result(result) => return Ok(result),
            Come::Run(run) => run,
        };
        match run.status {
            WorkflowStatus::Cancelled => {
                let reason = self.cancel_reason(run.sequence).await?;
                Err(Kind::Cancelled { run_id, reason }.into())
            }
            WorkflowStatus::Failed => {
                let unknown = || Failure::new(error_types::GENERIC, "the run failed");
                let failure = run.error.unwrap_or_else(unknown);
                Err(Kind::Failed { run_id, failure }.into())
            }
            _ => Ok(run.result),
        }
    }

    /// Waits for the run at the other end of the store, if there is a place to wait. None: wait here, and look.
    async fn awaited(&self) -> Result<Option<Come>> {
        let shared = &self.client.shared;
        // An engine beside is nearer still to what it hosts.
        if !shared.store.announces() || shared.beside.is_some() {
            return Ok(None);
        }
        let Ok(_place) = shared.waits.try_acquire() else {
            return Ok(None);
        };
        loop {
            let awaited = shared.store.await_run(self.run_id, LOOK_AT_LEAST_EVERY);
            match awaited.await {
                Ok(Awaited::Result(result)) => return Ok(Some(Come::Result(result))),
                Ok(Awaited::Run(Some(run))) => {
                    let is_blocked = run.blocked.is_some();
                    match self.come_to(*run).await {
                        Ok(Some(come)) => return Ok(Some(come)),
                        // It would be answered at once, again and again.
                        Ok(None) if is_blocked => return Ok(None),
                        Ok(None) => {}
                        Err(error) if error.is_retryable() => return Ok(None),
                        Err(error) => return Err(error),
                    }
                }
                Ok(Awaited::Run(None)) => return Err(Kind::NotFound(self.run_id).into()),
                // Where the other end is out of reach, there are times for another look.
                Ok(Awaited::Here) => return Ok(None),
                Err(error) if error.is_retryable() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What a run has come to. None: it goes on.
    async fn come_to(&self, run: RunRecord) -> Result<Option<Come>> {
        if run.status.is_terminal() {
            return Ok(Some(Come::Run(Box::new(run))));
        }
        match self.client.blocked(&run).await? {
            Some(blocked) => Err(blocked),
            None => Ok(None),
        }
    }

    /// Why the run was cancelled: its last event says so.
    async fn cancel_reason(&self, sequence: i64) -> Result<String> {
        let store = &self.client.shared.store;
        let history = store.load_history(self.run_id, sequence - 1).await?;
        let last = history.and_then(|history| history.events.into_iter().next_back());
        Ok(match last.map(|event| event.event) {
            Some(durable_core::WorkflowEvent::WorkflowCancelled { reason }) => reason,
            _ => String::new(),
        })
    }
}

impl<W: WorkflowDefinition> RunHandle<W> {
    /// Waits for the run's result.
    ///
    /// # Errors
    /// How it ended, where it ended without a result: [`Error::failure`], [`Error::is_cancelled`]. [`Error::is_blocked`] where its code
    /// cannot go on and no live process has other code: the run is not lost, and the call can be made again. The store's.
    pub async fn result(&self) -> Result<W::Output> {
        read(self.run_id, &self.payload().await?)
    }
}

impl RunHandle<Untyped> {
    /// Waits for the run's result.
    ///
    /// # Errors
    /// As for a run whose type is known.
    pub async fn result(&self) -> Result<Payload> {
        self.payload().await
    }
}

fn read<T: DeserializeOwned>(run_id: Uuid, result: &Payload) -> Result<T> {
    result
        .to_value()
        .map_err(|error| Error::payload(format!("the result of run {run_id}"), error))
}

impl<W> Clone for RunHandle<W> {
    fn clone(&self) -> Self {
        Self {
            watch: self.watch.clone(),
            ..Self::new(self.client.clone(), self.run_id)
        }
    }
}

impl<W> std::fmt::Debug for RunHandle<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunHandle").field(&self.run_id).finish()
    }
}
