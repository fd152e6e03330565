//! Runs workflows in memory, with mocks and virtual time.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use durable_core::Timestamp;
use tokio::time::sleep;

use super::calls::Calls;
use super::run::TestRun;
use super::setup::TestEnvBuilder;
use super::thread::{Ask, Thread};
use super::world::settle;
use crate::activity::Activity;
use crate::client::Start;
use crate::workflow::WorkflowDefinition;
use crate::{Client, Result};

/// A world for tests: an engine on a store in memory, with mocked activities and virtual time.
///
/// Time stands still except while the test waits for a result (then it jumps to whatever is due next) and by [`TestEnv::advance`].
/// What nobody here can do, such as an activity that is neither mocked nor registered, fails the wait at once; a wait that nothing can
/// end fails after a few seconds of real time, and says what is missing.
///
/// ```
/// use std::time::Duration;
/// use everruns_durable::prelude::*;
/// use everruns_durable::testing::TestEnv;
///
/// #[workflow]
/// async fn approval(ctx: WorkflowContext, _order: u32) -> WorkflowResult<String> {
///     match ctx.signal::<String>("approve").timeout(Duration::from_secs(86_400)).await? {
///         Some(who) => Ok(format!("approved by {who}")),
///         None => Ok("nobody cared for a day".to_owned()),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everruns_durable::Result<()> {
/// let env = TestEnv::new().workflow::<approval>().start().await;
///
/// let approved = env.start::<approval>(1).await?;
/// approved.signal("approve", "Ann").await?;
/// assert_eq!(approved.result().await?, "approved by Ann");
///
/// let forgotten = env.start::<approval>(2).await?;
/// env.advance(Duration::from_secs(86_400)).await;
/// assert_eq!(forgotten.result().await?, "nobody cared for a day");
/// # Ok(())
/// # }
/// ```
pub struct TestEnv {
    pub(super) thread: Arc<Thread>,
    pub(super) calls: Calls,
}

impl TestEnv {
    /// A world about to be started.
    #[allow(
        clippy::new_ret_no_self,
        reason = "a test begins with it: `TestEnv::new().workflow::<order>().start().await`"
    )]
    pub fn new() -> TestEnvBuilder {
        TestEnvBuilder::new()
    }

    /// Starts a workflow and waits for its result, however long that takes in virtual time.
    ///
    /// # Errors
    /// The start's, or how the run ended where it ended without a result; what is wrong with the test.
    pub async fn run<W: WorkflowDefinition>(&self, input: W::Input) -> Result<W::Output> {
        self.start::<W>(input).await?.result().await
    }

    /// Starts a workflow.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub async fn start<W: WorkflowDefinition>(&self, input: W::Input) -> Result<TestRun<W>> {
        self.start_with::<W>(input, |start| start).await
    }

    /// Starts a workflow with options: `env.start_with::<order>(input, |start| start.workflow_id("A1")).await?`.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub async fn start_with<W: WorkflowDefinition>(
        &self,
        input: W::Input,
        options: impl FnOnce(Start<W>) -> Start<W> + Send + 'static,
    ) -> Result<TestRun<W>> {
        let input = durable_core::Payload::from_value(&input)
            .map_err(|error| crate::Error::payload("the start", error))?;
        let run_id = self
            .with(move |client| async move {
                let input = input
                    .to_value::<W::Input>()
                    .map_err(|error| crate::Error::payload("the start", error))?;
                let start = options(client.start::<W>(input));
                Ok(start.await?.id())
            })
            .await?;
        Ok(TestRun {
            thread: Arc::clone(&self.thread),
            run_id,
            workflow: PhantomData,
        })
    }

    /// Does anything else that a client can do: schedules, batches, searches. Time passes while it waits.
    ///
    /// # Errors
    /// The work's own.
    pub async fn with<T, F, Fut>(&self, work: F) -> Result<T>
    where
        F: FnOnce(Client) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let thread = &self.thread;
        thread
            .ask(Ask::Call, |world| work(world.client.clone()))
            .await
    }

    /// Lets virtual time pass, and everything happen that is due meanwhile, in order. Takes no time.
    ///
    /// # Panics
    /// When it turns out that the test cannot go on, such as for an activity that is not mocked.
    pub async fn advance(&self, time: Duration) {
        let passed = self.thread.ask(Ask::Call, move |world| async move {
            sleep(time).await;
            settle().await;
            match world.watch.trouble() {
                Some(trouble) => Err(crate::Error::configuration(trouble)),
                None => Ok(()),
            }
        });
        if let Err(error) = passed.await {
            panic!("{error}");
        }
    }

    /// Virtual time. Each call to the world takes some milliseconds of it.
    ///
    /// # Panics
    /// When the world is gone.
    pub async fn now(&self) -> Timestamp {
        let now = self
            .thread
            .ask(Ask::Call, |world| async move { Ok(world.now()) });
        now.await.expect("the world is there")
    }

    /// What an activity was given, one for each attempt, in order; mocked or real.
    ///
    /// # Panics
    /// When the activity's input cannot be read back from its own JSON.
    #[must_use]
    pub fn calls<A: Activity>(&self) -> Vec<A::Input> {
        self.calls.of::<A>()
    }

    /// All calls of activities by name, one for each attempt, in order.
    #[must_use]
    pub fn all_calls(&self) -> Vec<&'static str> {
        self.calls.names()
    }

    /// Kills the engine where it stands, as SIGKILL would. Its runs stay in the store.
    ///
    /// # Panics
    /// When the world is gone.
    pub async fn crash(&self) {
        let crashed = self.thread.ask(Ask::Call, |world| async move {
            world.crash().await;
            Ok(())
        });
        crashed.await.expect("the world is there");
    }

    /// Starts another engine on the same store, where the last one crashed: it carries on what was left. What that one held is taken
    /// back first, as when its leases had run out.
    ///
    /// # Panics
    /// When the engine does not start.
    pub async fn resume(&self) {
        let resumed = self
            .thread
            .ask(Ask::Call, |world| async move { world.resume().await });
        resumed.await.expect("the engine starts");
    }
}

impl std::fmt::Debug for TestEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestEnv").finish_non_exhaustive()
    }
}
