//! Reads, and the small tables that are written without rules.

mod counts;
mod dlq;
mod dump;
mod filter;
mod registry;
mod runs;
mod schedules;
mod tasks;
