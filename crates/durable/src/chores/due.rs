//! Fires what is due: timers, delayed and parked tasks, the clocks of activities and runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Chore, LOCKED_AGAIN, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::reliability::TimeoutManager;

/// Sleeps until the next known due time; a turn that sets an earlier one rings.
pub(crate) struct Due {
    node: Arc<Node>,
    timeouts: TimeoutManager,
}

impl Due {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let store = Arc::clone(&node.store);
        let batch = node.settings.chores.batch;
        let timeouts = TimeoutManager::new(store, node.runtime.clone(), batch);
        Self { node, timeouts }
    }
}

/// The next instant is the store's and the wait is by this node's clock, which may be ahead: without a pause it would ask all the time.
const SHORTEST: Duration = Duration::from_millis(5);

#[async_trait]
impl Chore for Due {
    fn name(&self) -> &'static str {
        "due"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        // Planned before looking: what is rung for while the store looks is not forgotten.
        node.hub.due.plan(node.runtime.instant() + UNTIL_RUNG);
        let fired = self.timeouts.check_timeouts().await?;
        if !fired.claimable_types.is_empty() {
            // By whoever runs them: another process finds them fired, and nothing more due that it would look for.
            let types = fired.claimable_types.iter().map(String::as_str);
            node.hub.claimable(types);
        }
        if !fired.runs_timed_out.is_empty() {
            node.hub.messages.notify_one();
            for run_id in &fired.runs_timed_out {
                node.cancel_run(*run_id);
            }
            node.hub.finished(&fired.runs_timed_out);
        }
        node.hub.ready_runs(fired.ready_runs);
        if fired.put_off > 0 {
            node.hub.due.due_in(node.runtime.instant(), LOCKED_AGAIN);
        }
        if let Some(due) = fired.next_due {
            let wait = node.until(due).max(SHORTEST);
            node.hub.due.due_in(node.runtime.instant(), wait);
        }
        node.tell_ended(&fired.runs_timed_out).await;
        Ok(node.hub.due.wait(node.runtime.instant()))
    }

    async fn rung(&self) {
        loop {
            let now = self.node.runtime.instant();
            let wait = self.node.hub.due.wait(now);
            if wait.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = self.node.hub.due.rung() => {}
                () = self.node.runtime.sleep(wait) => return,
            }
        }
    }
}
