//! Where progress is kept: the store contract and the stores.
//!
//! Few, coarse, set-based intents. [`WorkerPort`] is what a worker process needs (claims, turns,
//! results, leases); [`WorkflowEventStore`] is the rest. The stores
//! are equal: one conformance suite and one differential test run on all of them.
//!
//! Architecture invariant: the engine knows a store only through these two traits. SQL lives in
//! the SQL stores and nowhere else.
//!
//! Time: every predicate over time takes an optional instant. Absent, the database's clock
//! decides; the suites bring their own. Instants are kept in microseconds.

#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "the memory store sets nothing aside")
)]
mod asides;
pub(crate) mod attempts;
mod audit;
#[cfg(any(feature = "postgres", feature = "grpc"))]
pub(crate) mod backoff;
mod bell;
pub mod check;
pub mod checkup;
mod clock;
mod error;
pub mod limits;
pub mod memory;
pub mod migrations;
pub mod model;
mod open;
mod pages;
mod planted;
mod port;
#[cfg(feature = "postgres")]
pub mod postgres;
mod prefix;
pub mod schema;
mod seed_ops;
mod shard;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
mod transactions;
pub(crate) mod trays;

pub use asides::{AsideKind, Asides, SetAside};
pub use bell::{Bell, Ring};
pub use error::{Source, StoreError};
pub use memory::MemoryStore;
pub use open::{OpenOptions, StoreUrl, open};
pub(crate) use pages::history_without_payloads;
pub use pages::whole_history;
pub use planted::{Bug, planted};
pub use port::WorkerPort;
pub use seed_ops::{HeartbeatResponse, SeedOperations, TaskDefinition, TaskFailureOutcome};
pub use shard::Shards;
pub use store::{StoreResult, WorkflowEventStore};
pub use transactions::{OpenTransaction, Transactions};
