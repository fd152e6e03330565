//! A run in a test's world.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::thread::{Ask, Thread};
use crate::client::{History, RunHandle};
use crate::persistence::model::RunRecord;
use crate::workflow::WorkflowDefinition;
use crate::{Client, Error, Result};

/// A run in a test's world: what [`RunHandle`] is elsewhere.
pub struct TestRun<W> {
    pub(super) thread: Arc<Thread>,
    pub(super) run_id: Uuid,
    pub(super) workflow: PhantomData<fn() -> W>,
}

impl<W: WorkflowDefinition> TestRun<W> {
    /// The run's id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.run_id
    }

    /// Waits for the run's result. Time passes meanwhile, unless it passes by hand.
    ///
    /// # Errors
    /// How it ended, where it ended without a result; what is wrong with the test, where it cannot end.
    pub async fn result(&self) -> Result<W::Output> {
        self.ended().await?;
        let run_id = self.run_id;
        let result = self.call(move |client| async move {
            let run: RunHandle<W> = client.run(run_id);
            let result = run.result().await?;
            raw("the result", &result)
        });
        read("the result", &result.await?)
    }

    /// Waits until the run has ended, however it ends. Time passes meanwhile, unless it passes by hand.
    ///
    /// # Errors
    /// What is wrong with the test, where it cannot end.
    pub async fn ended(&self) -> Result<RunRecord> {
        let run_id = self.run_id;
        let thread = &self.thread;
        thread
            .ask(
                Ask::Wait,
                move |world| async move { world.ended(run_id).await },
            )
            .await
    }

    /// The run as it stands.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get(&self) -> Result<RunRecord> {
        let run_id = self.run_id;
        self.call(move |client| async move { client.get(run_id).await })
            .await
    }

    /// The run's history; its [`History::to_json`] is what [`verify`](super::verify) reads.
    ///
    /// # Errors
    /// As [`Client::history`].
    pub async fn history(&self) -> Result<History> {
        let run_id = self.run_id;
        self.call(move |client| async move { client.history(run_id).await })
            .await
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub async fn signal<T: Serialize + ?Sized>(&self, name: &str, payload: &T) -> Result<()> {
        let (run_id, name) = (self.run_id, name.to_owned());
        let payload = raw("the signal", payload)?;
        self.call(move |client| async move { client.signal(run_id, &name, &payload).await })
            .await
    }

    /// Asks the run about its state.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn query<R: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<R> {
        let (run_id, asked) = (self.run_id, name.to_owned());
        let input = raw("the query", input)?;
        let answer = self.call(move |client| async move {
            client.query::<Box<RawValue>>(run_id, &asked, &input).await
        });
        read("the answer", &answer.await?)
    }

    /// Asks the run for something, and waits for its answer. Time passes meanwhile, unless it passes by hand.
    ///
    /// # Errors
    /// As [`Update::await_result`](crate::client::Update::await_result).
    pub async fn update<R: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<R> {
        let (run_id, name) = (self.run_id, name.to_owned());
        let input = raw("the update", input)?;
        let thread = &self.thread;
        let answer = thread.ask(Ask::Wait, move |world| async move {
            let update = world.client.update(run_id, name, &input).send().await?;
            world
                .look_until(|| async { update.poll::<Box<RawValue>>().await })
                .await
        });
        read("the answer", &answer.await?)
    }

    /// Asks the run to stop; it may clean up first.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn cancel(&self, reason: &str) -> Result<()> {
        let (run_id, reason) = (self.run_id, reason.to_owned());
        self.call(move |client| async move { client.cancel(run_id, &reason).await })
            .await
    }

    /// Ends the run at once.
    ///
    /// # Errors
    /// As [`Client::terminate`].
    pub async fn terminate(&self, reason: &str) -> Result<()> {
        let (run_id, reason) = (self.run_id, reason.to_owned());
        self.call(move |client| async move { client.terminate(run_id, &reason).await })
            .await
    }

    async fn call<T, F, Fut>(&self, call: F) -> Result<T>
    where
        F: FnOnce(Client) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let thread = &self.thread;
        thread
            .ask(Ask::Call, |world| call(world.client.clone()))
            .await
    }
}

/// JSON as it is: it goes between two threads, and the types that it is made of may not.
fn raw<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Box<RawValue>> {
    serde_json::value::to_raw_value(value).map_err(|error| unreadable(what, &error))
}

fn read<T: DeserializeOwned>(what: &str, value: &RawValue) -> Result<T> {
    serde_json::from_str(value.get()).map_err(|error| unreadable(what, &error))
}

fn unreadable(what: &str, error: &serde_json::Error) -> Error {
    Error::configuration(format!("{what} is no JSON of its type: {error}"))
}

impl<W> Clone for TestRun<W> {
    fn clone(&self) -> Self {
        Self {
            thread: Arc::clone(&self.thread),
            run_id: self.run_id,
            workflow: PhantomData,
        }
    }
}

impl<W> std::fmt::Debug for TestRun<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TestRun").field(&self.run_id).finish()
    }
}
