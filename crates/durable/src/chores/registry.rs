//! The worker's signs of life, and an eye on the others'.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::WorkerStatus;

/// Looks for silent workers this many times in the time after which they count as silent.
const LOOKS: u32 = 4;

/// Gives a sign every few seconds; workers without one for long are marked as stopped.
pub(crate) struct Registry {
    node: Arc<Node>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last sign that was stored; none: not registered.
    last_sign: Option<Instant>,
    /// When silent workers were last looked for.
    looked: Option<Instant>,
}

impl Registry {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let state = Mutex::default();
        Self { node, state }
    }
}

#[async_trait]
impl Chore for Registry {
    fn name(&self) -> &'static str {
        "registry"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        self.give_sign().await?;
        self.stop_silent().await?;
        let interval = self.node.settings.worker.heartbeat_interval;
        Ok(self.node.runtime.jittered(interval))
    }
}

impl Registry {
    async fn give_sign(&self) -> StoreResult<()> {
        let node = &self.node;
        let Some(last_sign) = self.state.lock().last_sign else {
            return self.register().await;
        };
        let now = node.runtime.instant();
        let status = node
            .store
            .worker_heartbeat(node.worker_beat(), None)
            .await?;
        self.state.lock().last_sign = Some(now);
        let silence = now.duration_since(last_sign);
        match status {
            None => self.register().await,
            // Not asked to stop: it gave no sign for long (the store out of reach, the machine asleep) and was taken for dead.
            Some(WorkerStatus::Stopped) if silence >= node.settings.worker.stale_after => {
                info!("this worker was taken for dead and registers again");
                self.register().await
            }
            Some(WorkerStatus::Draining | WorkerStatus::Stopped) => {
                if node.pool.accepting_tasks() {
                    info!("this worker was asked to drain");
                    node.pool.stop_accepting();
                }
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    async fn register(&self) -> StoreResult<()> {
        let node = &self.node;
        let now = node.runtime.instant();
        // Forgotten first: should this fail, the next sign is another try.
        self.state.lock().last_sign = None;
        node.store.register_worker(node.worker_info(), None).await?;
        self.state.lock().last_sign = Some(now);
        Ok(())
    }

    /// Their leases run out by themselves and the reaper queues their tasks again. Silence is measured by the store's clock: by a wrong
    /// one of its own a process would take everybody for dead.
    async fn stop_silent(&self) -> StoreResult<()> {
        let node = &self.node;
        let silence = node.settings.worker.stale_after;
        let now = node.runtime.instant();
        let looked = self.state.lock().looked;
        if looked.is_some_and(|looked| now.duration_since(looked) < silence / LOOKS) {
            return Ok(());
        }
        self.state.lock().looked = Some(now);
        let Ok(silent_since) = node.store.clock(None).await?.checked_sub(silence) else {
            return Ok(());
        };
        let stopped = node.store.stop_silent_workers(silent_since).await?;
        for worker_id in stopped {
            warn!(%worker_id, "the worker gave no sign for {} s and counts as stopped", silence.as_secs());
        }
        Ok(())
    }
}
