//! Signs of life of this process and of the workers that it serves, and an eye on the others'.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::Timestamp;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::{WorkerFilter, WorkerInfo, WorkerStatus};

/// Gives a sign every few seconds; workers without one for long are marked as stopped.
pub(crate) struct Registry {
    node: Arc<Node>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the store knows this worker, as far as is known here.
    registered: bool,
    /// Ticks left before the others are looked at again.
    rest: usize,
}

/// The others are looked at every so many ticks.
const TICKS_PER_LOOK: usize = 2;
/// Workers for each of which that is one tick later: every worker lists all of them.
const WORKERS_PER_TICK: usize = 50;
/// Without a sign for this many intervals, a worker takes no part in the sharing of tasks.
const INTERVALS_FRESH: u32 = 3;

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
        self.look_at_others().await?;
        let interval = self.node.settings.worker.heartbeat_interval;
        Ok(self.node.runtime.jittered(interval))
    }

    async fn rung(&self) {
        self.node.hub.signs.notified().await;
    }
}

impl Registry {
    async fn give_sign(&self) -> StoreResult<()> {
        let node = &self.node;
        let closed = node.pool.is_closed();
        if !self.state.lock().registered {
            return self.register().await;
        }
        let own = node.worker_beat();
        let signs = node.remote_workers.give_signs(&*node.store, own);
        match signs.await? {
            // It has said farewell already.
            None if closed => Ok(()),
            None => self.register().await,
            // Nobody asked it to stop, which is said by `Draining`: it gave no sign for long (the store out of reach, a slow beat, the
            // machine asleep) and was taken for dead.
            Some(WorkerStatus::Stopped) => {
                info!("this worker was taken for dead and registers again");
                self.register().await
            }
            Some(WorkerStatus::Draining) => {
                if !closed && node.pool.set_draining(true) {
                    info!("this worker was asked to drain");
                }
                Ok(())
            }
            Some(WorkerStatus::Active) if closed => {
                let (store, worker_id) = (&node.store, &node.worker_id);
                let draining = store.set_worker_status(worker_id, WorkerStatus::Draining);
                draining.await.map(drop)
            }
            Some(WorkerStatus::Active) => {
                if node.pool.set_draining(false) {
                    info!("this worker takes tasks again");
                }
                Ok(())
            }
            Some(WorkerStatus::Stale) => Ok(()),
        }
    }

    async fn register(&self) -> StoreResult<()> {
        let node = &self.node;
        if node.pool.is_closed() && !self.state.lock().registered {
            // Nobody has heard of it, and nobody needs to any more.
            return Ok(());
        }
        // Forgotten first: should this fail, the next sign is another try.
        self.state.lock().registered = false;
        node.store.register_worker(node.worker_info(), None).await?;
        self.state.lock().registered = true;
        Ok(())
    }

    /// Counts who else runs the activities of this process, for its share of new tasks, and tells the silent ones from the dead.
    ///
    /// Signs of life are compared with this worker's own, which the store's clock has dated a moment ago: by a wrong clock of its own a
    /// process would take everybody for dead.
    async fn look_at_others(&self) -> StoreResult<()> {
        {
            let mut state = self.state.lock();
            if state.rest > 0 {
                state.rest -= 1;
                return Ok(());
            }
        }
        let node = &self.node;
        let filter = WorkerFilter {
            status: Some(WorkerStatus::Active),
            ..WorkerFilter::default()
        };
        let workers = node.store.list_workers(filter).await?;
        self.state.lock().rest = TICKS_PER_LOOK - 1 + workers.len() / WORKERS_PER_TICK;
        let fresh = node
            .settings
            .worker
            .heartbeat_interval
            .saturating_mul(INTERVALS_FRESH);
        node.pool
            .others_are(others(&workers, &node.worker_id, fresh));
        if !node.hub.does_housekeeping() {
            return Ok(());
        }
        match silent_since(&workers, &node.worker_id, node.settings.worker.stale_after) {
            Some(silent_since) => self.stop_silent(silent_since).await,
            None => Ok(()),
        }
    }

    /// Their leases run out by themselves and the reaper queues their tasks again.
    async fn stop_silent(&self, silent_since: Timestamp) -> StoreResult<()> {
        let stopped = self.node.store.stop_silent_workers(silent_since).await?;
        for worker_id in stopped {
            warn!(%worker_id, "the worker gave no sign for long and counts as stopped");
        }
        Ok(())
    }
}

/// Before when a sign of life is too old, if anybody's is.
fn silent_since(workers: &[WorkerInfo], me: &str, stale_after: Duration) -> Option<Timestamp> {
    let own = workers.iter().find(|worker| worker.id == me)?;
    let since = own.last_heartbeat_at.checked_sub(stale_after).ok()?;
    let silent = workers
        .iter()
        .any(|worker| worker.last_heartbeat_at < since);
    silent.then_some(since)
}

/// Live workers besides this one that take tasks, by activity type. Signs of life are compared with this worker's own, which the same clock
/// has dated a moment ago: what the machines' clocks say does not matter.
fn others(workers: &[WorkerInfo], me: &str, fresh: Duration) -> BTreeMap<String, usize> {
    let mut others = BTreeMap::new();
    let Some(since) = workers
        .iter()
        .find(|worker| worker.id == me)
        .and_then(|worker| worker.last_heartbeat_at.checked_sub(fresh).ok())
    else {
        return others;
    };
    let sharing = workers.iter().filter(|worker| {
        worker.id != me && worker.accepting_tasks && worker.last_heartbeat_at >= since
    });
    for activity_type in sharing.flat_map(|worker| &worker.activity_types) {
        *others.entry(activity_type.clone()).or_default() += 1;
    }
    others
}

#[cfg(test)]
mod tests {
    use durable_core::{Payload, Timestamp};

    use super::*;

    fn worker(id: &str, types: &[&str], beat_at: i64) -> WorkerInfo {
        WorkerInfo {
            id: id.to_owned(),
            worker_group: "default".to_owned(),
            activity_types: types.iter().map(|name| (*name).to_owned()).collect(),
            max_concurrency: 1,
            current_load: 0,
            status: WorkerStatus::Active,
            accepting_tasks: true,
            backpressure_reason: None,
            started_at: Timestamp::UNIX_EPOCH,
            last_heartbeat_at: Timestamp::from_second(beat_at).expect("an instant"),
            hostname: None,
            version: None,
            metadata: Payload::ABSENT,
            tasks_completed: 0,
            tasks_failed: 0,
            avg_task_duration_ms: 0.0,
        }
    }

    #[test]
    fn only_live_workers_that_take_tasks_share_a_type() {
        let mut full = worker("full", &["a"], 100);
        full.accepting_tasks = false;
        let workers = [
            worker("me", &["a", "b"], 100),
            worker("one", &["a"], 99),
            worker("two", &["a", "c"], 86),
            worker("silent", &["a", "b"], 84),
            full,
        ];
        let others = others(&workers, "me", Duration::from_secs(15));
        let expected = [("a".to_owned(), 2), ("c".to_owned(), 1)];
        assert_eq!(others, BTreeMap::from(expected));
    }

    #[test]
    fn worker_that_is_not_listed_knows_of_no_others() {
        let workers = [worker("one", &["a"], 99)];
        assert!(others(&workers, "me", Duration::from_secs(15)).is_empty());
    }
}
