//! Updates: a request to a run that is answered.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use durable_core::{Payload, PayloadError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Client, RunHandle, Start};
use crate::error::Kind;
use crate::persistence::model::{NewUpdate, SendOutcome, SendUpdate, UpdateState};
use crate::persistence::{Bug, StoreError, planted};
use crate::{Error, Result};

/// How names begin that are the engine's own.
const RESERVED: &str = "durable.";

/// An update about to be sent. Nothing happens before [`Update::send`] or [`Update::await_result`].
#[must_use = "an update does nothing unless it is sent"]
pub struct Update {
    client: Client,
    run_id: Uuid,
    update: Result<NewUpdate, PayloadError>,
}

impl Update {
    /// Your own id for it, unique within the run: sent again under the same id, it is the same update, whatever it carries.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        if let Ok(update) = &mut self.update {
            update.update_id = id.into();
        }
        self
    }

    /// Sends it and does not wait for the answer.
    ///
    /// # Errors
    /// [`Error::is_not_found`], [`Error::is_run_finished`]; [`Error::is_retryable`] where too much waits already or the store is busy.
    pub async fn send(self) -> Result<UpdateHandle> {
        let Self {
            client,
            run_id,
            update,
        } = self;
        let update = update.map_err(|error| Error::payload("the update's input", error))?;
        if update.name.starts_with(RESERVED) {
            let message =
                format!("names of updates that begin with {RESERVED:?} are the engine's own");
            return Err(Error::configuration(message));
        }
        let handle = client.update_handle(run_id, update.update_id.clone());
        client.send_update(run_id, update).await?;
        Ok(handle)
    }

    /// Sends it and waits for the answer.
    ///
    /// # Errors
    /// Those of [`Update::send`] and of [`UpdateHandle::result`].
    pub async fn await_result<R: DeserializeOwned>(self) -> Result<R> {
        self.send().await?.result().await
    }
}

/// An update that was sent. Cheap to clone; dropping it changes nothing.
#[derive(Clone)]
pub struct UpdateHandle {
    client: Client,
    run_id: Uuid,
    update_id: String,
}

impl UpdateHandle {
    /// The update's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.update_id
    }

    /// The run it was sent to.
    #[must_use]
    pub const fn run_id(&self) -> Uuid {
        self.run_id
    }

    /// Waits for the answer. It is given by a process that hosts the run's workflow, wherever that is.
    ///
    /// # Errors
    /// [`Error::is_update_failed`] where it was refused, failed, or the run ended first; [`Error::is_not_found`] where it was never sent.
    /// [`Error::is_no_worker_for_type`] where no live process hosts the workflow, and [`Error::is_blocked`] where those that do cannot go
    /// on: the update is kept and taken when one can, and the call can be made again. The store's.
    pub async fn result<R: DeserializeOwned>(&self) -> Result<R> {
        let answer = tokio::select! {
            biased;
            answer = self.client.look_until(self.run_id, || self.answer()) => answer?,
            hopeless = self.client.hopeless(self.run_id) => return Err(hopeless),
        };
        self.read(&answer)
    }

    /// The answer, if there is one yet.
    ///
    /// # Errors
    /// As [`UpdateHandle::result`].
    pub async fn poll<R: DeserializeOwned>(&self) -> Result<Option<R>> {
        let answer = self.answer().await?;
        answer.map(|answer| self.read(&answer)).transpose()
    }

    async fn answer(&self) -> Result<Option<Payload>> {
        let Self {
            run_id, update_id, ..
        } = self;
        let found = self.client.store().get_update(*run_id, update_id).await?;
        let found = found.ok_or_else(|| StoreError::NotFound {
            what: "update",
            id: update_id.clone(),
        })?;
        match found.state {
            UpdateState::Pending => Ok(None),
            UpdateState::Completed(answer) => Ok(Some(answer)),
            UpdateState::Failed(failure) => Err(Kind::UpdateFailed {
                run_id: *run_id,
                update_id: update_id.clone(),
                failure,
            }
            .into()),
        }
    }

    fn read<R: DeserializeOwned>(&self, answer: &Payload) -> Result<R> {
        answer.to_value().map_err(|error| {
            let what = format!("the answer to update {} of run {}", self.id(), self.run_id);
            Error::payload(what, error)
        })
    }
}

impl std::fmt::Debug for UpdateHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpdateHandle")
            .field("run_id", &self.run_id)
            .field("update_id", &self.update_id)
            .finish_non_exhaustive()
    }
}

/// A start with an update on board: the run finds it waiting, and a run that exists already gets it as well.
#[must_use = "a start does nothing unless it is awaited"]
pub struct UpdateWithStart<W> {
    start: Start<W>,
    update: Result<NewUpdate, PayloadError>,
}

impl<W> UpdateWithStart<W> {
    pub(super) const fn new(start: Start<W>, update: Result<NewUpdate, PayloadError>) -> Self {
        Self { start, update }
    }

    /// Your own id for the update; see [`Update::id`].
    pub fn id(mut self, id: impl Into<String>) -> Self {
        if let Ok(update) = &mut self.update {
            update.update_id = id.into();
        }
        self
    }

    async fn send(self) -> Result<(RunHandle<W>, UpdateHandle)> {
        let update = self
            .update
            .map_err(|error| Error::payload("the update's input", error))?;
        let (client, update_id) = (self.start.client().clone(), update.update_id.clone());
        let run = self.start.with(|start| start.updates.push(update)).send();
        let run = run.await?;
        let update = client.update_handle(run.id(), update_id);
        Ok((run, update))
    }

    /// Starts, and waits for the update's answer.
    ///
    /// # Errors
    /// Those of the start and of [`UpdateHandle::result`].
    pub async fn await_result<R: DeserializeOwned>(self) -> Result<R> {
        let (_, update) = self.send().await?;
        update.result().await
    }
}

impl<W: 'static> IntoFuture for UpdateWithStart<W> {
    type Output = Result<(RunHandle<W>, UpdateHandle)>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Client {
    /// Asks a run for something that it answers: `client.update(run, "deposit", &100).await_result::<u64>().await?`.
    pub fn update<T: Serialize + ?Sized>(
        &self,
        run_id: Uuid,
        name: impl Into<String>,
        input: &T,
    ) -> Update {
        Update {
            client: self.clone(),
            run_id,
            update: self.new_update(name.into(), input),
        }
    }

    /// An update that was sent before, by its id.
    pub fn update_handle(&self, run_id: Uuid, update_id: impl Into<String>) -> UpdateHandle {
        UpdateHandle {
            client: self.clone(),
            run_id,
            update_id: update_id.into(),
        }
    }

    pub(super) fn new_update<T: Serialize + ?Sized>(
        &self,
        name: String,
        input: &T,
    ) -> Result<NewUpdate, PayloadError> {
        let input = Payload::from_value(input)?;
        let update_id = self.shared.runtime.new_id().to_string();
        Ok(NewUpdate {
            update_id,
            name,
            input,
        })
    }

    pub(super) async fn send_update(&self, run_id: Uuid, update: NewUpdate) -> Result<()> {
        let updates = &self.shared.updates;
        let asked = self.asked(SendUpdate { run_id, update });
        // The id makes a repeat harmless, so an unknown outcome is simply tried again.
        let outcome = self
            .retried(|| {
                let mut asked = asked.clone();
                if planted(Bug::UpdateSentAnew) {
                    asked.item.update.update_id = self.shared.runtime.new_id().to_string();
                }
                updates.one(asked)
            })
            .await?;
        match outcome {
            SendOutcome::Accepted { .. } | SendOutcome::Duplicate { .. } => {
                self.ring(run_id);
                Ok(())
            }
            SendOutcome::Rejected(rejection) => Err(Kind::Send { run_id, rejection }.into()),
        }
    }
}

impl<W> RunHandle<W> {
    /// Asks the run for something that it answers.
    pub fn update<T: Serialize + ?Sized>(&self, name: impl Into<String>, input: &T) -> Update {
        self.client().update(self.id(), name, input)
    }
}
