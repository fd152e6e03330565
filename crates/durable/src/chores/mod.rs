//! Background services: one chore per file, all of one shape.
//!
//! A chore's `tick` does what is to be done now and says when to look again; one that fails is tried again a little later and stops
//! nobody else. Any number of processes may run the same chore at once: the store gives each item to one of them.

mod admission;
mod due;
mod listener;
mod lookout;
mod offers;
mod ownership;
mod pass_on;
mod put_off;
mod reaper;
mod registry;
mod relay;
mod retention;
mod sampler;
mod schedules;
mod troubles;
mod turn_claims;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::engine::{Node, Turner, panic_text};
use crate::persistence::StoreResult;
use crate::runtime::Runtime;

pub(crate) use admission::Admission;
pub(crate) use due::Due;
pub(crate) use listener::listen;
pub(crate) use lookout::Lookout;
pub(crate) use offers::take_offers;
pub(crate) use ownership::Ownership;
pub(crate) use pass_on::PassOn;
pub(crate) use reaper::Reaper;
pub(crate) use registry::Registry;
pub(crate) use relay::Relay;
pub(crate) use retention::Retention;
pub(crate) use sampler::Sampler;
pub(crate) use schedules::Schedules;
pub use troubles::ChoreTrouble;
pub(crate) use troubles::Troubles;
pub(crate) use turn_claims::TurnClaims;

/// A background service.
#[async_trait]
pub(crate) trait Chore: Send + Sync + 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Does what is to be done now; answers how long it may sleep.
    async fn tick(&self) -> StoreResult<Duration>;

    /// Ends when it should look earlier than it said. Cancel-safe.
    async fn rung(&self) {
        std::future::pending::<()>().await;
    }
}

/// For chores that have nothing to do until they are rung: [`Lookout`] rings where somebody else forgot to.
/// Long, so that months of virtual time pass quickly in tests.
pub(crate) const UNTIL_RUNG: Duration = Duration::from_secs(24 * 60 * 60);

/// When a chore looks again at what another transaction had locked.
pub(crate) const LOCKED_AGAIN: Duration = Duration::from_millis(250);

/// First wait after a failed tick; doubles up to the largest.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Largest such wait.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Runs a chore until it is told to stop. A tick under way is finished first; one that fails or panics is not the last.
pub(crate) async fn run(
    chore: impl Chore,
    runtime: Runtime,
    troubles: Arc<Troubles>,
    stop: CancellationToken,
) {
    let mut retry = RETRY_FIRST;
    loop {
        // A chore keeps nothing between ticks that a panic could leave half changed: its next look is at the store.
        let trouble = match AssertUnwindSafe(chore.tick()).catch_unwind().await {
            Ok(Ok(wait)) => {
                if retry != RETRY_FIRST {
                    troubles.succeeded(chore.name());
                }
                retry = RETRY_FIRST;
                Ok(wait)
            }
            Ok(Err(error)) => Err((error.to_string(), !error.is_retryable())),
            Err(panic) => {
                let text = panic_text(&*panic);
                error!(
                    chore = chore.name(),
                    text, "it panicked and is tried again later"
                );
                Err((format!("it panicked: {text}"), false))
            }
        };
        let wait = match trouble {
            Ok(wait) => wait,
            Err((error, is_strange)) => {
                let chore = chore.name();
                match troubles.failed(chore, error.clone()) {
                    Some(in_a_row) => {
                        warn!(chore, in_a_row, error, "a chore fails again and again");
                    }
                    None if is_strange => warn!(chore, error, "tried again later"),
                    None => debug!(chore, error, "tried again later"),
                }
                let wait = runtime.jittered(retry);
                retry = (retry * 2).min(RETRY_MAX);
                // Not to be woken early: whatever rings, the store is in trouble.
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = runtime.sleep(wait) => {}
                }
                continue;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = chore.rung() => {}
            () = runtime.sleep(wait) => {}
        }
    }
}

/// Starts all chores of a node. Those that take on new work stop with `claims`, the others last.
pub(crate) fn start_all(
    node: &Arc<Node>,
    turner: &Arc<Turner>,
    claims: &CancellationToken,
    all: &CancellationToken,
) {
    start(node, claims, TurnClaims::new(Arc::clone(node)));
    start(node, all, Registry::new(Arc::clone(node)));
    start(node, claims, Lookout::new(Arc::clone(node)));
    start(node, claims, Ownership::new(Arc::clone(turner)));
    if let Some(admission) = &node.admission {
        start(node, claims, Admission::new(Arc::clone(admission)));
    }
    if !node.hub.does_housekeeping() {
        start(node, all, PassOn::new(Arc::clone(node)));
        return;
    }
    start(node, all, Due::new(Arc::clone(node)));
    start(node, all, Reaper::new(Arc::clone(node)));
    start(node, all, Relay::new(Arc::clone(node)));
    start(node, claims, Schedules::new(Arc::clone(node)));
    let chores = &node.settings.chores;
    start(node, claims, Retention::new(Arc::clone(node)));
    if let Some(interval) = chores.sample_interval {
        start(node, claims, Sampler::new(Arc::clone(node), interval));
    }
}

fn start(node: &Arc<Node>, stop: &CancellationToken, chore: impl Chore) {
    let troubles = Arc::clone(&node.hub.troubles);
    node.runtime
        .spawn(run(chore, node.runtime.clone(), troubles, stop.clone()));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::persistence::StoreError;

    /// Panics at its first tick, fails at its second, and tells of its third.
    struct Clumsy {
        ticks: AtomicUsize,
        stop: CancellationToken,
    }

    #[async_trait]
    impl Chore for Clumsy {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        async fn tick(&self) -> StoreResult<Duration> {
            match self.ticks.fetch_add(1, Ordering::SeqCst) {
                0 => panic!("as the test says"),
                1 => Err(StoreError::Conflict("as the test says".to_owned())),
                _ => {
                    self.stop.cancel();
                    Ok(Duration::MAX)
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_chore_that_panics_or_fails_goes_on() {
        let stop = CancellationToken::new();
        let chore = Clumsy {
            ticks: AtomicUsize::new(0),
            stop: stop.clone(),
        };
        let troubles = Arc::new(Troubles::default());
        run(chore, Runtime::real(), Arc::clone(&troubles), stop.clone()).await;
        assert!(stop.is_cancelled(), "the third tick came");
        let trouble = &troubles.all()[0];
        assert_eq!((trouble.failures, trouble.in_a_row), (2, 0));
    }
}
