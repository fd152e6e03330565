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
        pub const CLAIMS: &[$crate::conformance::Claim] = &[$($crate::conformance::Claim {
            subject: $subject,
            name: stringify!($name),
            body: |world| Box::pin($name(world)),
        }),+];
    };
}

mod concurrency;
mod edge;
mod leases;
mod ordering;
mod ownership;
mod rejections;
mod resets;
mod results;
mod signal_starts;
mod starts;
mod tasks;
mod turns;

/// Every claim.
#[must_use]
pub fn all() -> Vec<Claim> {
    [
        concurrency::CLAIMS,
        edge::CLAIMS,
        leases::CLAIMS,
        ordering::CLAIMS,
        ownership::CLAIMS,
        rejections::CLAIMS,
        resets::CLAIMS,
        results::CLAIMS,
        signal_starts::CLAIMS,
        starts::CLAIMS,
        tasks::CLAIMS,
        turns::CLAIMS,
    ]
    .concat()
}
