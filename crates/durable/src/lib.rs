//! Durable execution: programs whose progress survives crashes, restarts and deploys.
//!
//! A program's progress is an event log in a database; any worker can carry it on. A workflow decides, an activity does; an [`Engine`] runs
//! both on a store that is opened by a URL.
//!
//! ```
//! use everruns_durable::prelude::*;
//!
//! #[activity]
//! async fn greet(_ctx: ActivityContext, name: String) -> ActivityResult<String> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! #[workflow]
//! async fn hello(ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
//!     Ok(ctx.activity::<greet>(name).await?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> everruns_durable::Result<()> {
//! let engine = Engine::in_memory().workflow::<hello>().activity(greet).start().await?;
//! assert_eq!(engine.run::<hello>("World".into()).await?, "Hello, World!");
//! engine.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Everything that a workflow does durably is a method of [`WorkflowContext`](workflow::WorkflowContext). The same can be written as a
//! state machine with the [`Workflow`](prelude::Workflow) trait.

pub mod activity;
pub mod admin;
pub mod audit;
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
#[cfg(feature = "grpc")]
pub mod remote;
pub mod runtime;
mod schedule;
#[cfg(feature = "testing")]
pub mod testing;
pub mod worker;
pub mod workflow;

pub use client::{Client, Deletion};
pub use durable_core as core;
pub use engine::{Engine, Worker};
pub use error::{Error, Result};

/// The guide's programs, compiled with the documentation tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/activities-and-retries.md")]
    struct ActivitiesAndRetries;
    #[doc = include_str!("../../../docs/guide/cancellation-and-cleanup.md")]
    struct CancellationAndCleanup;
    #[doc = include_str!("../../../docs/guide/child-workflows.md")]
    struct ChildWorkflows;
    #[doc = include_str!("../../../docs/guide/concurrency.md")]
    struct Concurrency;
    #[doc = include_str!("../../../docs/guide/continue-as-new.md")]
    struct ContinueAsNew;
    #[doc = include_str!("../../../docs/guide/delivery-guarantees.md")]
    struct DeliveryGuarantees;
    #[doc = include_str!("../../../docs/guide/dynamic-workflows.md")]
    struct DynamicWorkflows;
    #[doc = include_str!("../../../docs/guide/finding-runs.md")]
    struct FindingRuns;
    #[doc = include_str!("../../../docs/guide/first-workflow.md")]
    struct FirstWorkflow;
    #[doc = include_str!("../../../docs/guide/idempotency.md")]
    struct Idempotency;
    #[doc = include_str!("../../../docs/guide/listeners.md")]
    struct Listeners;
    #[doc = include_str!("../../../docs/guide/local-activities.md")]
    struct LocalActivities;
    #[cfg(all(feature = "zstd", feature = "aes-gcm"))]
    #[doc = include_str!("../../../docs/guide/payload-codecs.md")]
    struct PayloadCodecs;
    #[doc = include_str!("../../../docs/guide/queries-and-updates.md")]
    struct QueriesAndUpdates;
    #[doc = include_str!("../../../docs/guide/recovering-runs.md")]
    struct RecoveringRuns;
    #[doc = include_str!("../../../docs/guide/remote-workers.md")]
    struct RemoteWorkers;
    #[doc = include_str!("../../../docs/guide/sagas.md")]
    struct Sagas;
    #[doc = include_str!("../../../docs/guide/schedules.md")]
    struct Schedules;
    #[doc = include_str!("../../../docs/guide/side-effects-and-run-info.md")]
    struct SideEffectsAndRunInfo;
    #[doc = include_str!("../../../docs/guide/signals.md")]
    struct Signals;
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guide/timeouts.md")]
    struct Timeouts;
    #[doc = include_str!("../../../docs/guide/timers.md")]
    struct Timers;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guide/transactions.md")]
    struct Transactions;
    #[doc = include_str!("../../../docs/guide/versioning.md")]
    struct Versioning;
    #[doc = include_str!("../../../docs/guide/workers-and-capacity.md")]
    struct WorkersAndCapacity;
    #[doc = include_str!("../../../docs/guide/workflows-and-determinism.md")]
    struct WorkflowsAndDeterminism;
    #[doc = include_str!("../../../docs/guide/workflows-as-state-machines.md")]
    struct WorkflowsAsStateMachines;
    #[doc = include_str!("../../../README.md")]
    struct Readme;
}
