//! Faults: a store that delays, fails and repeats by a seeded plan, and a workload that has to come through it.

mod driver;
mod obstacles;
mod program;
mod store;
mod verdict;

pub use driver::{Driven, drive};
pub use store::{FaultCounts, FaultRates, FaultyStore};

use std::future::poll_fn;
use std::task::Poll;

/// Lets others go first, once: the suites wait by order, never by time.
pub(crate) async fn step_aside() {
    let mut again = true;
    poll_fn(|context| {
        if std::mem::take(&mut again) {
            context.waker().wake_by_ref();
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}
