//! The embedded store: one SQLite file, one process, no setup.
//!
//! One writer thread commits whatever waits as one transaction (`writer`); readers beside it see what was committed
//! (`readers`). An operating system's lock keeps a second process out (`lock`); whoever opens the file knows that the
//! former process is gone and ends its leases (`void`).
//!
//! Architecture invariant: no rule of the contract is here, only statements (`sql`) and how rows are read and written (`tables`).

#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of a type with lifetimes is not a function for all of them; the closure is"
)]

mod apply;
mod cells;
mod checkup;
mod connect;
mod database;
mod db;
mod dump;
mod error;
mod job;
mod load;
mod lock;
pub mod migrate;
mod open;
mod readers;
mod registry;
mod sql;
mod tables;
mod tx;
mod value;
mod void;
mod walk;
mod writer;

pub(super) use checkup::checkup;
pub use open::{Sqlite, SqliteOptions};
pub(crate) use walk::Walk;
