//! Reads, and the small tables that are written without rules.

mod audit;
mod counts;
pub(super) mod dlq;
pub(super) mod dump;
pub(super) mod filter;
mod registry;
mod runs;
mod schedules;
mod tasks;
