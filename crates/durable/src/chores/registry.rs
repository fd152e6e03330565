//! The worker's signs of life, and an eye on the others'.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tracing::{info, warn};

use super::Chore;
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::{WorkerFilter, WorkerInfo, WorkerStatus};

/// Gives a sign every few seconds; workers without one for long are marked as stopped.
pub(crate) struct Registry {
    node: Arc<Node>,
    registered: AtomicBool,
    /// Ticks left before the others are counted again.
    rest: AtomicU64,
}

impl Registry {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            registered: AtomicBool::new(false),
            rest: AtomicU64::new(0),
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
        self.count_others().await?;
        Ok(node
            .runtime
            .jittered(node.settings.worker.heartbeat_interval))
    }
}

/// Without a sign for this many intervals, a worker takes no part in the sharing of tasks.
const INTERVALS_FRESH: u32 = 3;
/// Workers for each of which the count is taken one interval less often: every worker lists all of them.
const WORKERS_PER_REST: u64 = 50;

impl Registry {
    /// Counts who else runs the activities of this process, for its share of new tasks.
    async fn count_others(&self) -> StoreResult<()> {
        let rest = self.rest.load(Ordering::SeqCst);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::SeqCst);
            return Ok(());
        }
        let node = &self.node;
        let filter = WorkerFilter {
            status: Some(WorkerStatus::Active),
            ..WorkerFilter::default()
        };
        let workers = node.store.list_workers(filter).await?;
        let fresh = node.settings.worker.heartbeat_interval * INTERVALS_FRESH;
        node.pool
            .others_are(others(&workers, &node.worker_id, fresh));
        self.rest
            .store(workers.len() as u64 / WORKERS_PER_REST, Ordering::SeqCst);
        Ok(())
    }

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
