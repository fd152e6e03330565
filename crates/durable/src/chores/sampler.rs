//! Samples counts for dashboards.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Chore;
use crate::engine::Node;
use crate::observability::MetricsPoint;
use crate::persistence::StoreResult;

/// Takes a sample every so often and keeps the last ones in this process.
pub(crate) struct Sampler {
    node: Arc<Node>,
    interval: Duration,
}

impl Sampler {
    pub(crate) const fn new(node: Arc<Node>, interval: Duration) -> Self {
        Self { node, interval }
    }
}

#[async_trait]
impl Chore for Sampler {
    fn name(&self) -> &'static str {
        "sampler"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let counts = node.store.counts().await?;
        node.metrics.push(MetricsPoint {
            at: node.runtime.now(),
            counts,
            worker: node.worker_beat(),
        });
        Ok(self.interval)
    }
}
