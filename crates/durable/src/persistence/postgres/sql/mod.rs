//! Every statement, by noun. `{s}` stands for the schema; `$1` of a statement on a run's tables is its shard.
//!
//! Shapes that a distributed PostgreSQL takes too: sets come as arrays through `unnest`, one shard a statement,
//! no writable CTE.

use super::statement::Statement;

pub(super) mod admin;
pub(super) mod attributes;
pub(super) mod clock;
pub(super) mod due;
pub(super) mod dump;
pub(super) mod events;
pub(super) mod inbox;
pub(super) mod keys;
pub(super) mod letters;
pub(super) mod logs;
pub(super) mod messages;
pub(super) mod outbox;
pub(super) mod purge;
pub(super) mod registry;
pub(super) mod rollups;
pub(super) mod runs;
pub(super) mod schedules;
pub(super) mod signals;
pub(super) mod tasks;
pub(super) mod timers;
pub(super) mod updates;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Statement> {
    [
        admin::ALL,
        attributes::ALL,
        clock::ALL,
        dump::ALL,
        due::ALL,
        events::ALL,
        inbox::ALL,
        keys::ALL,
        letters::ALL,
        logs::ALL,
        messages::ALL,
        outbox::ALL,
        purge::ALL,
        registry::ALL,
        rollups::ALL,
        runs::ALL,
        schedules::ALL,
        signals::ALL,
        tasks::ALL,
        timers::ALL,
        updates::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}
