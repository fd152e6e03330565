//! Every statement of this store, by noun. All are static and prepared once; values are only ever bound.
//!
//! Statements on a run's tables name one shard, as on the other stores; lists for operators see all of them.

/// A statement's text.
pub(super) type Statement = &'static str;

/// Declares statements as constants, and all of them as a list for the test that prepares each. One that is not used is a
/// compiler warning.
macro_rules! statements {
    ($($(#[$doc:meta])+ $name:ident = $text:expr;)+) => {
        $($(#[$doc])+ pub(crate) const $name: super::Statement = $text;)+

        /// All of them.
        #[cfg(test)]
        pub(crate) const ALL: &[super::Statement] = &[$($name),+];
    };
}

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
pub(super) mod meta;
pub(super) mod outbox;
pub(super) mod rollups;
pub(super) mod run_lists;
pub(super) mod runs;
pub(super) mod schedules;
pub(super) mod signals;
pub(super) mod step_logs;
pub(super) mod tasks;
pub(super) mod timers;
pub(super) mod transaction;
pub(super) mod updates;
pub(super) mod workers;

#[cfg(test)]
mod tests;
