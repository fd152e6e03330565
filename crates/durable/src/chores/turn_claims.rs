//! Claims runs with a turn due that nobody takes: new ones from other processes, and those of processes that died.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::{debug, warn};

use super::{Chore, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::limits::BATCH_ITEMS_MAX;
use crate::persistence::model::{ClaimTurns, ClaimedTurn, HostedType};

/// The recovery of stalled runs, and the way in for runs started elsewhere.
pub(crate) struct TurnClaims {
    node: Arc<Node>,
}

impl TurnClaims {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

impl TurnClaims {
    /// Claims for one build; answers whether more may wait. What the store refuses is the trouble of this build alone.
    async fn claim(&self, build: &str, hosted: &[HostedType]) -> StoreResult<bool> {
        let mut more = false;
        for some in hosted.chunks(BATCH_ITEMS_MAX) {
            match self.claim_some(build.to_owned(), some.to_vec()).await {
                Ok(found) => more |= found,
                Err(error) if error.is_refusal() => {
                    warn!(build, %error, "the runs of a build cannot be claimed");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(more)
    }

    async fn claim_some(&self, build: String, hosted: Vec<HostedType>) -> StoreResult<bool> {
        let node = &self.node;
        let turns = &node.settings.turns;
        let claim = ClaimTurns {
            worker_id: node.worker_id.clone(),
            build,
            hosted,
            max: turns.claim_max,
            lease: turns.owner_lease,
            first_shard: node.first_shard(),
            now: None,
        };
        let under_way = node.hub.desk.claim();
        let claimed = node.store.claim_turns(claim).await?;
        let found = claimed.len();
        let more = found == turns.claim_max || ClaimedTurn::may_have_left_some(&claimed);
        if found > 0 {
            debug!(runs = found, "turns claimed");
            under_way.brings(claimed, node.runtime.instant());
        }
        Ok(more)
    }
}

#[async_trait]
impl Chore for TurnClaims {
    fn name(&self) -> &'static str {
        "turn-claims"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let settings = &node.settings;
        if node.workflows.is_empty() {
            return Ok(UNTIL_RUNG);
        }
        let mut hosted = node.workflows.turned();
        let max = settings.turns.claim_max;
        // A desk that is full already would only let the ownerships run out.
        if node.hub.desk.len() >= max * 2 {
            return Ok(settings.worker.poll_interval);
        }
        if node.workflows.takes_any() {
            hosted.extend(node.store.waiting_types().await?.runs);
        }
        let mut more = false;
        more |= self.claim(&settings.build, &hosted).await?;
        // Code elsewhere has builds of its own: a run that one of them cannot turn waits for another.
        for (build, hosted) in node.workflows.elsewhere().hosted_by_build() {
            more |= self.claim(&build, &hosted).await?;
        }
        // Where new runs wait for a slot already, more of them would only wait too: others may have slots. What nobody rang for comes when
        // they have begun, or with the next look.
        let again = more && !node.hub.desk.holds_new();
        Ok(if again { Duration::ZERO } else { UNTIL_RUNG })
    }

    async fn rung(&self) {
        tokio::select! {
            biased;
            () = self.node.hub.turns.notified() => {}
            () = self.node.hub.desk.all_begun() => {}
        }
    }
}
