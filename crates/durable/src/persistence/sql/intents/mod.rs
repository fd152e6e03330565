//! The contract's writes, one noun a file: what each loads, and which rule decides.

pub(crate) mod claims;
pub(crate) mod commit_turns;
pub(crate) mod dead_letters;
pub(crate) mod due;
pub(crate) mod finish_tasks;
pub(crate) mod leases;
pub(crate) mod noted;
pub(crate) mod outbox;
pub(crate) mod ownership;
pub(crate) mod registry;
pub(crate) mod relay;
pub(crate) mod retention;
pub(crate) mod schedules;
pub(crate) mod sends;
pub(crate) mod starts;
pub(crate) mod terminate;
