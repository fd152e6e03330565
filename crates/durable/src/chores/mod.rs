//! Background services: one chore per file, all of one shape.
//!
//! A chore's `tick` does what is to be done now and says when to look again; one that fails is tried again a little later and stops
//! nobody else. Any number of processes may run the same chore at once: the store gives each item to one of them.

mod due;
mod listener;
mod lookout;
mod ownership;
mod reaper;
mod registry;
mod relay;
mod retention;
mod sampler;
mod schedules;
mod turn_claims;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::engine::{Node, Turner};
use crate::persistence::StoreResult;
use crate::runtime::Runtime;

pub(crate) use due::Due;
pub(crate) use listener::listen;
pub(crate) use lookout::Lookout;
pub(crate) use ownership::Ownership;
pub(crate) use reaper::Reaper;
pub(crate) use registry::Registry;
pub(crate) use relay::Relay;
pub(crate) use retention::Retention;
pub(crate) use sampler::Sampler;
pub(crate) use schedules::Schedules;
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
pub(crate) const UNTIL_RUNG: Duration = Duration::from_secs(60 * 60);

/// First wait after a failed tick; doubles up to the largest.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Largest such wait.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Runs a chore until it is told to stop. A tick under way is finished first.
pub(crate) async fn run(chore: impl Chore, runtime: Runtime, stop: CancellationToken) {
    let mut retry = RETRY_FIRST;
    loop {
        let wait = match chore.tick().await {
            Ok(wait) => {
                retry = RETRY_FIRST;
                wait
            }
            Err(error) => {
                if error.is_retryable() {
                    debug!(chore = chore.name(), %error, "tried again later");
                } else {
                    warn!(chore = chore.name(), %error, "tried again later");
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
    start(node, claims, Registry::new(Arc::clone(node)));
    start(node, claims, Lookout::new(Arc::clone(node)));
    start(node, claims, Ownership::new(Arc::clone(turner)));
    start(node, all, Due::new(Arc::clone(node)));
    start(node, all, Reaper::new(Arc::clone(node)));
    start(node, all, Relay::new(Arc::clone(node)));
    start(node, claims, Schedules::new(Arc::clone(node)));
    let chores = &node.settings.chores;
    if let Some(kept_for) = chores.retention {
        start(node, claims, Retention::new(Arc::clone(node), kept_for));
    }
    if let Some(interval) = chores.sample_interval {
        start(node, claims, Sampler::new(Arc::clone(node), interval));
    }
}

fn start(node: &Arc<Node>, stop: &CancellationToken, chore: impl Chore) {
    node.runtime
        .spawn(run(chore, node.runtime.clone(), stop.clone()));
}
