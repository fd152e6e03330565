//! Delivers messages between runs: children's starts and ends, signals.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Chore, LOCKED_AGAIN, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::model::RelayMessages;
use crate::persistence::{Bug, StoreResult, planted};

/// Rung by every commit here that writes a message; messages of a process that died are found by the lookout.
pub(crate) struct Relay {
    node: Arc<Node>,
}

impl Relay {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

#[async_trait]
impl Chore for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        if planted(Bug::MessagesNotRelayed) {
            return Ok(node.settings.chores.fallback_poll);
        }
        let relayed = node
            .store
            .relay_messages(RelayMessages {
                max: node.settings.chores.batch,
                first_shard: node.first_shard(),
                now: None,
            })
            .await?;
        let handled = relayed.delivered + relayed.dropped;
        node.hub.ready_runs(relayed.ready_runs);
        // A delivery may write messages of its own (a child that is terminated tells its parent): look until there are none.
        Ok(if handled > 0 {
            Duration::ZERO
        } else if relayed.put_off > 0 {
            LOCKED_AGAIN
        } else {
            UNTIL_RUNG
        })
    }

    async fn rung(&self) {
        self.node.hub.messages.notified().await;
    }
}
