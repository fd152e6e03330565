//! Keeps the runs whose programs are in memory this process's own, and lets go of those whose are not.
//!
//! Ownership is a hint for speed: other processes leave a run alone whose next turn is quick here. One that has expired costs a replay
//! elsewhere and a conflict here; one that stays behind after its program has gone costs a wake-up, for nobody takes the run then.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Chore, UNTIL_RUNG};
use crate::engine::Turner;
use crate::persistence::StoreResult;
use crate::persistence::limits::BATCH_ITEMS_MAX;

/// Most ownerships renewed at once, of the runs turned last: renewing is a write, and most runs wait for long.
const RENEWED_MAX: usize = 1_000;

/// Renews ownerships at half their time, and gives up those of evicted programs.
pub(crate) struct Ownership {
    turner: Arc<Turner>,
}

impl Ownership {
    pub(crate) const fn new(turner: Arc<Turner>) -> Self {
        Self { turner }
    }
}

#[async_trait]
impl Chore for Ownership {
    fn name(&self) -> &'static str {
        "ownership"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        self.give_up().await?;
        let node = &self.turner.node;
        if node.hub.bell().is_none() {
            // Nobody else hears of a fact: the next turn is this process's anyway.
            return Ok(UNTIL_RUNG);
        }
        self.renew().await?;
        Ok(node.settings.turns.owner_lease / 4)
    }

    async fn rung(&self) {
        self.turner.node.hub.ownership.rung().await;
    }
}

impl Ownership {
    async fn give_up(&self) -> StoreResult<()> {
        let node = &self.turner.node;
        let mut runs = node.hub.ownership.take();
        runs.retain(|run| !self.turner.cache.holds(*run));
        for some in runs.chunks(BATCH_ITEMS_MAX) {
            // Where this fails they are others' when their time is up.
            node.store.release_runs(&node.worker_id, some).await?;
        }
        if !runs.is_empty() {
            // What arrived for them meanwhile was left to their owner by everybody.
            node.hub.turns.notify_one();
        }
        Ok(())
    }

    async fn renew(&self) -> StoreResult<()> {
        let node = &self.turner.node;
        let lease = node.settings.turns.owner_lease;
        let now = node.runtime.instant();
        let Some(half_ago) = now.checked_sub(lease / 2) else {
            return Ok(());
        };
        let runs = self.turner.cache.owned_since(half_ago, RENEWED_MAX);
        if runs.is_empty() {
            return Ok(());
        }
        let store = &node.store;
        let renewed = store
            .renew_runs(&node.worker_id, &runs, lease, None)
            .await?;
        let mut unsure = Vec::new();
        for (run, renewed) in runs.into_iter().zip(renewed) {
            self.turner.cache.note_owned(run, renewed.then_some(now));
            if !renewed {
                unsure.push(run);
            }
        }
        // Others', or a turn is due that nobody told of: a look tells.
        node.hub.ready_runs(unsure);
        Ok(())
    }
}
