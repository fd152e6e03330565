//! A world that is pumped by hand.

use std::ops::Deref;

use super::env::TestEnv;
use super::gate::Step;
use super::thread::Ask;
use super::world::settle;
use crate::{Error, Result};

/// A [`TestEnv`] in which nothing is committed and no time passes unless it is said so: for what is left after a crash just *here*.
///
/// Everything that a [`TestEnv`] can do it can do, too; [`TestEnv::crash`] and [`TestEnv::resume`] between any two steps.
///
/// ```
/// use everruns_durable::prelude::*;
/// use everruns_durable::testing::TestEnv;
///
/// #[activity]
/// async fn charge(cents: u64) -> ActivityResult<u64> { Ok(cents) }
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext, cents: u64) -> WorkflowResult<u64> {
///     ctx.activity::<charge>(cents).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everruns_durable::Result<()> {
/// let driver = TestEnv::new().workflow::<order>().mock::<charge>(Ok).driver().await;
/// let run = driver.start::<order>(100).await?;
/// driver.step().await?; // the turn that asks for the charge is committed; then the charge runs, and its result waits
/// driver.crash().await; // … and is lost
/// driver.resume().await;
/// driver.run_until_idle().await?;
/// assert_eq!(run.result().await?, 100);
/// assert_eq!(driver.calls::<charge>(), [100, 100]); // at least once
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Driver {
    pub(super) env: TestEnv,
}

impl Driver {
    /// Lets the next commit through, and everything happen that follows from it up to the one after. None: there is nothing to commit
    /// now; [`TestEnv::advance`] may change that.
    ///
    /// # Errors
    /// What is wrong with the test, such as an activity that is not mocked.
    pub async fn step(&self) -> Result<Option<Step>> {
        let step = self.env.thread.ask(Ask::Call, |world| async move {
            settle().await;
            let step = world.watch.gate.let_one_through();
            settle().await;
            match world.watch.trouble() {
                Some(trouble) => Err(Error::configuration(trouble)),
                None => Ok(step),
            }
        });
        step.await
    }

    /// Steps until there is nothing to commit, and answers what was. No time passes: timers and retries wait for
    /// [`TestEnv::advance`].
    ///
    /// # Errors
    /// As [`Driver::step`].
    pub async fn run_until_idle(&self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        while let Some(step) = self.step().await? {
            steps.push(step);
        }
        Ok(steps)
    }
}

impl Deref for Driver {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}
