//! The tables, one noun each: how its rows are written, read and found.
//!
//! No rules here: what a row is to be was decided before.

pub(super) mod attributes;
pub(super) mod audit;
pub(super) mod breakers;
pub(super) mod counts;
pub(super) mod dead_letters;
pub(super) mod dedup;
pub(super) mod events;
pub(super) mod facts;
pub(super) mod keys;
pub(super) mod messages;
pub(super) mod outbox;
pub(super) mod purges;
pub(super) mod residents;
pub(super) mod rollups;
pub(super) mod run_lists;
pub(super) mod run_rows;
pub(super) mod runs;
pub(super) mod schedules;
pub(super) mod signals;
pub(super) mod step_logs;
pub(super) mod task_claims;
pub(super) mod tasks;
pub(super) mod timers;
pub(super) mod turn_claims;
pub(super) mod updates;
pub(super) mod workers;
