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

mod dead_letters;
mod edges;
mod lists;
mod messages;
mod outbox;
mod payloads;
mod retention;
mod schedules;
mod seed_operations;
mod signals;
mod starts;
mod terminate;
mod timeouts;
mod timers;
mod updates;
mod workers;

/// Every claim.
#[must_use]
pub fn all() -> Vec<Claim> {
    [
        starts::CLAIMS,
        signals::CLAIMS,
        updates::CLAIMS,
        timers::CLAIMS,
        timeouts::CLAIMS,
        messages::CLAIMS,
        terminate::CLAIMS,
        dead_letters::CLAIMS,
        schedules::CLAIMS,
        workers::CLAIMS,
        outbox::CLAIMS,
        lists::CLAIMS,
        retention::CLAIMS,
        payloads::CLAIMS,
        edges::CLAIMS,
        seed_operations::CLAIMS,
    ]
    .concat()
}
