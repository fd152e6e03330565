//! Durable execution: programs whose progress survives crashes, restarts and deploys.
//!
//! A program's progress is an event log in a database; any worker can carry it on. A [`Workflow`](prelude::Workflow) decides, an
//! [`Activity`](prelude::Activity) does; an [`Engine`] runs both on a store that is opened by a URL.
//!
//! ```
//! use everruns_durable::prelude::*;
//! use serde_json::Value;
//!
//! /// Greets somebody, and is done.
//! struct Hello { name: String, greeting: Option<String> }
//!
//! impl Workflow for Hello {
//!     const TYPE: &'static str = "hello";
//!     type Input = String;
//!     type Output = String;
//!
//!     fn new(name: String) -> Self { Self { name, greeting: None } }
//!     fn on_start(&mut self) -> Vec<WorkflowAction> {
//!         let name = Payload::from_value(&self.name).expect("a string is JSON");
//!         vec![WorkflowAction::schedule_activity("greet", "greet", name)]
//!     }
//!     fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
//!         self.greeting = result.as_str().map(str::to_owned);
//!         vec![]
//!     }
//!     fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
//!         vec![WorkflowAction::FailWorkflow { error: error.clone().into_failure().into() }]
//!     }
//!     fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> { vec![] }
//!     fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> { vec![] }
//!     fn is_completed(&self) -> bool { self.greeting.is_some() }
//!     fn result(&self) -> Option<Result<String, WorkflowError>> { self.greeting.clone().map(Ok) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), everruns_durable::Error> {
//! let engine = Engine::in_memory()
//!     .workflow::<Hello>()
//!     .activity_fn("greet", |_ctx, name: String| async move { Ok(format!("Hello, {name}!")) })
//!     .start()
//!     .await?;
//! assert_eq!(engine.run::<Hello>("World".to_owned()).await?, "Hello, World!");
//! engine.shutdown().await?;
//! # Ok(())
//! # }
//! ```

pub mod activity;
pub mod admin;
mod chores;
pub mod client;
pub mod codec;
pub mod engine;
mod error;
pub mod hosting;
#[doc(hidden)]
pub mod macro_support;
pub mod observability;
pub mod persistence;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod prelude;
pub mod reliability;
pub mod runtime;
mod schedule;
#[cfg(feature = "testing")]
pub mod testing;
pub mod worker;
pub mod workflow;

pub use client::Client;
pub use durable_core as core;
pub use engine::Engine;
pub use error::{Error, Result};

/// The guide's programs, compiled with the documentation tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/activities-and-retries.md")]
    struct ActivitiesAndRetries;
    #[doc = include_str!("../../../docs/guide/delivery-guarantees.md")]
    struct DeliveryGuarantees;
    #[doc = include_str!("../../../docs/guide/finding-runs.md")]
    struct FindingRuns;
    #[doc = include_str!("../../../docs/guide/first-workflow.md")]
    struct FirstWorkflow;
    #[doc = include_str!("../../../docs/guide/idempotency.md")]
    struct Idempotency;
    #[doc = include_str!("../../../docs/guide/listeners.md")]
    struct Listeners;
    #[doc = include_str!("../../../docs/guide/recovering-runs.md")]
    struct RecoveringRuns;
    #[cfg(all(feature = "zstd", feature = "aes-gcm"))]
    #[doc = include_str!("../../../docs/guide/payload-codecs.md")]
    struct PayloadCodecs;
    #[doc = include_str!("../../../docs/guide/schedules.md")]
    struct Schedules;
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guide/timeouts.md")]
    struct Timeouts;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guide/transactions.md")]
    struct Transactions;
    #[doc = include_str!("../../../docs/guide/workers-and-capacity.md")]
    struct WorkersAndCapacity;
    #[doc = include_str!("../../../README.md")]
    struct Readme;
}
