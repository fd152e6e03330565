//! Every statement, by noun. `{s}` stands for the schema; `$1` of a statement on a run's tables is its shard.
//!
//! Shapes that a distributed PostgreSQL takes too: sets come as arrays through `unnest`, one shard a statement,
//! no writable CTE.
//!
//! The columns of a set stand in a select list, `SELECT unnest($2), unnest($3)`, and not in `FROM unnest($2, $3)`: there each array would
//! be copied into a store of its own first, which for a set of thirty columns costs five times as much. Both have NULL where
//! one array ends before another, and `bind::nullable` makes use of that.
//!
//! Where a set is joined to a table, the shard comes as a column of the set, `k.shard`, from behind `OFFSET 0`, and is compared by
//! `ANY(ARRAY[k.shard])`. That is to say no more to the planner than it must know. It takes `partition_key = $1` for very selective
//! as long as a table has not been analysed, reads the whole shard by the primary key's first column and compares every row with the
//! set; of a table that was empty when it was analysed it even reads the whole index. A plan cached then would go on
//! doing so when a million rows are there. This way the whole key is the only way in, whatever it believes; `explain` tests hold that.
//! (A distributed database wants the constant, to find the shard: there, `ANY(ARRAY[k.shard])` is to be written as `$1`.)

use super::statement::Statement;

pub(super) mod admin;
pub(super) mod attributes;
pub(super) mod audit;
pub(super) mod bell;
pub(super) mod checkup;
pub(super) mod clock;
pub(super) mod due;
pub(super) mod dump;
pub(super) mod events;
pub(super) mod inbox;
pub(super) mod keys;
pub(super) mod letters;
pub(super) mod logs;
pub(super) mod messages;
pub(super) mod meta;
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
pub(super) mod walk;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Statement> {
    [
        admin::ALL,
        attributes::ALL,
        audit::ALL,
        bell::ALL,
        checkup::ALL,
        clock::ALL,
        dump::ALL,
        due::ALL,
        events::ALL,
        inbox::ALL,
        keys::ALL,
        letters::ALL,
        logs::ALL,
        messages::ALL,
        meta::ALL,
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
        walk::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}
