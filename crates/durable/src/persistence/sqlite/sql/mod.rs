//! Every statement of this store, by noun. All are static and prepared once; values are only ever bound.
//!
//! Statements on a run's tables name one shard, as on the other stores; lists for operators see all of them.

/// A statement's text.
pub(super) type Statement = &'static str;

/// What a statement is for.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request, a chore or a claim sends the statement. Its plan and its work are tested on large
    /// tables: it reads no growing table from end to end and sorts no unbounded set.
    Service,
    /// The statement is sent once when a file is opened, before any request.
    Opening,
    /// The text is the beginning of a list, to which a request's conditions are added. What the
    /// list sends in the end is tested for every condition.
    List,
    /// Only tests and the audit send the statement, to compare whole stores: it reads everything.
    Proof,
}

/// A statement as it is declared, for the tests of all of them.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    /// The name of its constant.
    pub(super) name: &'static str,
    /// Its text.
    pub(super) sql: Statement,
    /// What it is for.
    pub(super) purpose: Purpose,
}

/// Declares statements as constants, and all of them as lists for the tests that prepare and
/// explain each. A statement serves requests, chores and claims unless its declaration says
/// otherwise, as in `DUMP for Proof = …`. One that is not used is a compiler warning.
macro_rules! statements {
    (@purpose) => { super::Purpose::Service };
    (@purpose $purpose:ident) => { super::Purpose::$purpose };
    ($($(#[$doc:meta])+ $name:ident $(for $purpose:ident)? = $text:expr;)+) => {
        $($(#[$doc])+ pub(crate) const $name: super::Statement = $text;)+

        /// All of them.
        #[cfg(test)]
        pub(crate) const ALL: &[super::Statement] = &[$($name),+];

        /// All of them with what they are for.
        #[cfg(test)]
        pub(crate) const DECLARED: &[super::Declared] = &[$(super::Declared {
            name: stringify!($name),
            sql: $name,
            purpose: statements!(@purpose $($purpose)?),
        }),+];
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
pub(super) mod purges;
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
pub(super) mod walk;
pub(super) mod workers;

#[cfg(test)]
mod plans;
#[cfg(test)]
mod tests;
