//! Signs of life of the workers that this process serves.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;

/// Gives a sign for all of them together: a thousand workers cost no more statements than one.
pub(crate) struct Served {
    node: Arc<Node>,
}

impl Served {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

#[async_trait]
impl Chore for Served {
    fn name(&self) -> &'static str {
        "served workers"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        node.remote_workers.give_signs(&*node.store).await?;
        let interval = node.settings.worker.heartbeat_interval;
        Ok(node.runtime.jittered(interval))
    }
}
