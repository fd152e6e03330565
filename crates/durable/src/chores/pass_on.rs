//! Tells those who do the store's chores what there is for them, in a process that does none.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{Chore, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::{Ring, StoreResult};

/// Passes on what turns and results leave to be done: timers set, messages written.
pub(crate) struct PassOn {
    node: Arc<Node>,
    ring: Mutex<Ring>,
}

impl PassOn {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let ring = Mutex::default();
        Self { node, ring }
    }
}

#[async_trait]
impl Chore for PassOn {
    fn name(&self) -> &'static str {
        "pass-on"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let ring = take(&mut *self.ring.lock());
        self.node.hub.tell_others(ring);
        Ok(UNTIL_RUNG)
    }

    async fn rung(&self) {
        let hub = &self.node.hub;
        tokio::select! {
            biased;
            () = hub.messages.notified() => self.ring.lock().messages = true,
            () = hub.due.rung() => self.ring.lock().clocks = true,
        }
    }
}
