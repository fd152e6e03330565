//! What every store must do: one suite of named claims, the same for all.
//!
//! A claim is an async function over a [`World`]; it panics when the store breaks it. Each file holds the claims of
//! one subject and lists them in its `claims!`.

use std::future::Future;
use std::pin::Pin;

use crate::World;

/// The body of a claim.
pub type Body = for<'w> fn(&'w World) -> Pin<Box<dyn Future<Output = ()> + Send + 'w>>;

/// A named claim.
#[derive(Clone, Copy)]
pub struct Claim {
    /// Subject, which is the file it is in.
    pub subject: &'static str,
    /// What is claimed.
    pub name: &'static str,
    /// The test.
    pub body: Body,
}

/// Lists the claims of a file: `claims! { subject: first_claim, second_claim }`.
macro_rules! claims {
    ($subject:literal: $($name:ident),+ $(,)?) => {
        /// The claims of this subject.
        pub(super) const CLAIMS: &[$crate::conformance::Claim] = &[$($crate::conformance::Claim {
            subject: $subject,
            name: stringify!($name),
            body: |world| Box::pin($name(world)),
        }),+];
    };
}

mod attributes;
mod audited;
mod closing;
mod commits;
mod concurrency;
mod dead_letters;
mod decisions;
mod edges;
mod erasure;
mod first_turns;
mod glances;
mod inboxes;
mod injections;
mod leases;
mod lists;
mod messages;
mod ordering;
mod outbox;
mod outputs;
mod ownership;
mod parking;
mod payloads;
mod rejections;
mod resets;
mod results;
mod retention;
mod schedules;
mod seed_operations;
mod signal_starts;
mod signals;
mod starts;
mod tasks;
mod terminate;
mod timeouts;
mod timers;
mod totals;
mod turn_shapes;
mod turns;
mod updates;
mod workers;

/// Every claim.
#[must_use]
pub fn all() -> Vec<Claim> {
    [
        attributes::CLAIMS,
        audited::CLAIMS,
        closing::CLAIMS,
        commits::CLAIMS,
        concurrency::CLAIMS,
        dead_letters::CLAIMS,
        decisions::CLAIMS,
        edges::CLAIMS,
        erasure::CLAIMS,
        first_turns::CLAIMS,
        glances::CLAIMS,
        inboxes::CLAIMS,
        injections::CLAIMS,
        leases::CLAIMS,
        lists::CLAIMS,
        messages::CLAIMS,
        ordering::CLAIMS,
        outbox::CLAIMS,
        outputs::CLAIMS,
        ownership::CLAIMS,
        parking::CLAIMS,
        payloads::CLAIMS,
        rejections::CLAIMS,
        resets::CLAIMS,
        results::CLAIMS,
        retention::CLAIMS,
        schedules::CLAIMS,
        seed_operations::CLAIMS,
        signal_starts::CLAIMS,
        signals::CLAIMS,
        starts::CLAIMS,
        tasks::CLAIMS,
        terminate::CLAIMS,
        timeouts::CLAIMS,
        timers::CLAIMS,
        totals::CLAIMS,
        turn_shapes::CLAIMS,
        turns::CLAIMS,
        updates::CLAIMS,
        workers::CLAIMS,
    ]
    .concat()
}
