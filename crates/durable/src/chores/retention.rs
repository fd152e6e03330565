//! Deletes runs that ended long ago, and old details of runs that go on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::Timestamp;
use tracing::{info, warn};

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::{PurgeOld, PurgeRuns};

/// Runs deleted by one call: few, so that it soon ends.
const RUNS_AT_ONCE: usize = 200;
/// Rows of each kind and shard deleted by one call.
const ROWS_AT_ONCE: usize = 5000;
/// The pause between two calls, which leaves the database to others.
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes in small steps until nothing is left, then rests. Any number of processes may do so at
/// once.
pub(crate) struct Retention {
    node: Arc<Node>,
}

impl Retention {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// What is older than that; none: nothing is that old, or it is kept for ever.
    fn before(now: Timestamp, kept_for: Option<Duration>) -> Option<Timestamp> {
        now.checked_sub(kept_for?).ok()
    }

    async fn purge_runs(&self, now: Timestamp) -> StoreResult<u64> {
        let node = &self.node;
        let chores = &node.settings.chores;
        let before = Self::before(now, chores.retention);
        let purge = PurgeRuns {
            // Tombstones, ticks and audit rows go by their age even where all runs are kept.
            finished_before: before.unwrap_or(Timestamp::UNIX_EPOCH),
            max: RUNS_AT_ONCE,
            first_shard: node.first_shard(),
            now: None,
        };
        node.store.purge_runs(purge).await
    }

    async fn purge_old(&self, now: Timestamp) -> StoreResult<bool> {
        let kept = &self.node.settings.chores.details;
        let purge = PurgeOld {
            history_before: Self::before(now, kept.history),
            signals_before: Self::before(now, kept.signals),
            updates_before: Self::before(now, kept.signals),
            logs_before: Self::before(now, kept.step_logs),
            outbox_before: Self::before(now, kept.outbox),
            letters_before: Self::before(now, kept.dead_letters),
            results_before: Self::before(now, kept.once_results),
            workers_before: Self::before(now, kept.workers),
            rollups_before: Self::before(now, kept.totals),
            max: ROWS_AT_ONCE,
            now: None,
        };
        let purged = self.node.store.purge_old(purge).await?;
        if purged.rows() > 0 {
            info!(rows = purged.rows(), "old details deleted");
        }
        if purged.stuck_runs > 0 {
            warn!(
                runs = purged.stuck_runs,
                "rows of deleted runs could not be deleted; durable_purges.last_error says why"
            );
        }
        Ok(purged.more)
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
        // The one goes on although the other fails.
        let purged = self.purge_runs(now).await;
        let more = self.purge_old(now).await;
        let (purged, more) = (purged?, more?);
        if purged > 0 {
            info!(runs = purged, "old runs deleted");
        }
        Ok(if purged > 0 || more { PAUSE } else { rest })
    }
}
