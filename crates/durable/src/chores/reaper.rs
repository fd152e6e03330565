//! Takes back tasks whose lease has run out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::info;

use super::{Chore, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::ReapLeases;

/// Rung by the lookout: a lease runs out only when a worker died, or the store could not be reached for long.
pub(crate) struct Reaper {
    node: Arc<Node>,
}

impl Reaper {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

#[async_trait]
impl Chore for Reaper {
    fn name(&self) -> &'static str {
        "reaper"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let max = node.settings.chores.batch;
        let reaped = node
            .store
            .reap_leases(ReapLeases {
                max,
                first_shard: node.first_shard(),
                now: None,
            })
            .await?;
        if !reaped.is_empty() {
            info!(tasks = reaped.len(), "leases had run out");
            // Also of the dead: behind each a line may have moved up.
            node.hub
                .claimable(reaped.iter().map(|task| task.activity_type.as_str()));
            // A dead worker's leases run out one after the other, as it had renewed them: each look tells when the next one does.
            node.hub.lookout.notify_one();
            // Those who wait for a worker again wait for so long at most.
            node.hub.due.ring();
            let dead = reaped.iter().filter(|task| task.dead);
            node.hub.ready_runs(dead.map(|task| task.run_id));
        }
        Ok(if reaped.len() == max {
            Duration::ZERO
        } else {
            UNTIL_RUNG
        })
    }

    async fn rung(&self) {
        self.node.hub.leases.notified().await;
    }
}
