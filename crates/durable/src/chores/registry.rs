//! The worker's signs of life, and an eye on the others'.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tracing::{info, warn};

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::WorkerStatus;

/// Gives a sign every few seconds; workers without one for long are marked as stopped.
pub(crate) struct Registry {
    node: Arc<Node>,
    registered: AtomicBool,
}

impl Registry {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            registered: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Chore for Registry {
    fn name(&self) -> &'static str {
        "registry"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        if !self.registered.load(Ordering::SeqCst) {
            node.store.register_worker(node.worker_info(), None).await?;
            self.registered.store(true, Ordering::SeqCst);
        } else {
            match node
                .store
                .worker_heartbeat(node.worker_beat(), None)
                .await?
            {
                Some(WorkerStatus::Draining | WorkerStatus::Stopped) => {
                    if node.pool.accepting_tasks() {
                        info!("this worker was asked to drain");
                        node.pool.stop_accepting();
                    }
                }
                Some(_) => {}
                None => self.registered.store(false, Ordering::SeqCst),
            }
        }
        self.stop_silent().await?;
        Ok(node
            .runtime
            .jittered(node.settings.worker.heartbeat_interval))
    }
}

impl Registry {
    /// Their leases run out by themselves and the reaper queues their tasks again.
    async fn stop_silent(&self) -> StoreResult<()> {
        let node = &self.node;
        let silence = node.settings.worker.stale_after;
        let Ok(silent_since) = node.runtime.now().checked_sub(silence) else {
            return Ok(());
        };
        let stopped = node.store.stop_silent_workers(silent_since).await?;
        for worker_id in stopped {
            warn!(%worker_id, "the worker gave no sign for {} s and counts as stopped", silence.as_secs());
        }
        Ok(())
    }
}
