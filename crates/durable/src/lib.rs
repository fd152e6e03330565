//! Durable execution: programs whose progress survives crashes, restarts and deploys.
//!
//! A program's progress is an event log in a database; any worker can carry it on. This crate is
//! the library: [`persistence`] is the store contract and its three stores. The engine that runs
//! workflows on it comes with the next releases; see `CHANGELOG.md` for what exists today.

pub mod persistence;

pub use durable_core as core;
