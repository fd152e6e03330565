//! Deletes runs that ended long ago.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::info;

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::PurgeRuns;

/// Runs deleted in one commit: few, so that nobody waits long for their locks.
const RUNS_AT_ONCE: usize = 200;
/// The pause between two commits, which is everybody else's.
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes in small steps until none is left, then rests. Any number of processes may do so at once.
pub(crate) struct Retention {
    node: Arc<Node>,
    kept_for: Duration,
}

impl Retention {
    pub(crate) const fn new(node: Arc<Node>, kept_for: Duration) -> Self {
        Self { node, kept_for }
    }
}

#[async_trait]
impl Chore for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let rest = node
            .runtime
            .jittered(node.settings.chores.retention_interval);
        let now = node.store.clock(None).await?;
        // Kept for longer than there has been time: nothing is that old.
        let Ok(finished_before) = now.checked_sub(self.kept_for) else {
            return Ok(rest);
        };
        let purged = node
            .store
            .purge_runs(PurgeRuns {
                finished_before,
                max: RUNS_AT_ONCE,
                first_shard: node.first_shard(),
                now: None,
            })
            .await?;
        if purged == 0 {
            return Ok(rest);
        }
        info!(runs = purged, "old runs deleted");
        Ok(PAUSE)
    }
}
