//! For tests of your own workflows: virtual time, mocked activities, crashes on purpose, recorded histories. Feature `testing`.
//!
//! | tool | question it answers |
//! |---|---|
//! | [`TestEnv`] | does the workflow do what I want? In memory, with mocks, and a month passes at once |
//! | [`Driver`] | what is left after a crash *here*? Pumped by hand, one commit at a time |
//! | [`simulate`] | does it survive a crash *anywhere*? Every store call and every await, with the first difference reported |
//! | [`verify`] | can today's code carry on yesterday's runs? Replays recorded histories, for CI |
//!
//! All of them run the shipped engine, unchanged, on a store in memory and a clock of its own, on a thread of its own: a plain
//! `#[tokio::test]` of any flavour will do, and the test's own time is not touched.
//!
//! ```
//! use std::time::Duration;
//! use everruns_durable::prelude::*;
//! use everruns_durable::testing::TestEnv;
//!
//! #[activity]
//! async fn remind(who: String) -> ActivityResult<()> { Err(ActivityError::new("NotHere", format!("no mail for {who} in tests"))) }
//!
//! #[workflow]
//! async fn trial(ctx: WorkflowContext, who: String) -> WorkflowResult<String> {
//!     ctx.sleep(Duration::from_secs(30 * 86_400)).await?;
//!     ctx.activity::<remind>(who.clone()).await?;
//!     Ok(format!("{who} was reminded"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> everruns_durable::Result<()> {
//! let env = TestEnv::new().workflow::<trial>().mock::<remind>(|_| Ok(())).start().await;
//! assert_eq!(env.run::<trial>("Ann".to_owned()).await?, "Ann was reminded");
//! assert_eq!(env.calls::<remind>(), ["Ann"]);
//! # Ok(())
//! # }
//! ```

mod calls;
mod clock;
mod compare;
mod driver;
mod env;
mod fault;
mod gate;
mod run;
mod setup;
mod simulate;
mod store;
mod thread;
mod watch;
mod world;

pub use driver::Driver;
pub use env::TestEnv;
pub use fault::Fault;
pub use gate::Step;
pub use run::TestRun;
pub use setup::TestEnvBuilder;
pub use simulate::{Divergence, Simulated, Simulation, simulate};

pub use crate::client::verify::{Refused, Verified, Verifier, VerifyError, verify, verify_all};
