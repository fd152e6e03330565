//! The workers that a process serves: their signs of life, and what runs there.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::worker::Shared;
use crate::engine::RunningActivity;
use crate::persistence::limits::BATCH_ITEMS_MAX;
use crate::persistence::model::{TaskLease, WorkerBeat, WorkerStatus};
use crate::persistence::{StoreResult, WorkflowEventStore};

/// The workers that a process serves, and what runs there.
#[derive(Default)]
pub(crate) struct RemoteWorkers {
    /// Those that have not gone, and perhaps some that have.
    pub(super) open: Mutex<Vec<Weak<Shared>>>,
    /// None of them takes anything new.
    pub(super) closing: CancellationToken,
    emptied: Notify,
    /// By run, task and token.
    running: Mutex<BTreeMap<(Uuid, Uuid, Uuid), Running>>,
}

struct Running {
    lease: TaskLease,
    /// Its id and its type; not known of a task that was taken over from an earlier connection.
    activity: Option<(String, String)>,
    cancel: CancellationToken,
}

impl RemoteWorkers {
    /// Gives signs of life for all of them and for the process itself, whose status it answers: a thousand workers cost no more calls than one.
    pub(crate) async fn give_signs(
        &self,
        store: &dyn WorkflowEventStore,
        own: WorkerBeat,
    ) -> StoreResult<Option<WorkerStatus>> {
        let workers = self.registered();
        let mut beats = vec![own];
        beats.extend(workers.iter().map(|worker| worker.beat()));
        let mut statuses = Vec::with_capacity(beats.len());
        for beats in beats.chunks(BATCH_ITEMS_MAX) {
            statuses.extend(store.worker_heartbeats(beats.to_vec(), None).await?);
        }
        let mut statuses = statuses.into_iter();
        let own = statuses.next().flatten();
        for (worker, status) in workers.iter().zip(statuses) {
            worker.heard(status).await?;
        }
        Ok(own)
    }

    /// A worker of that name that has not gone, the newest one if it has several connections.
    pub(super) fn namesake(&self, id: &str) -> Option<Arc<Shared>> {
        let open = self.open.lock();
        let mut newest_first = open.iter().rev().filter_map(Weak::upgrade);
        newest_first.find(|worker| !worker.closed.is_cancelled() && worker.id() == id)
    }

    fn registered(&self) -> Vec<Arc<Shared>> {
        let mut registered = Vec::new();
        self.open.lock().retain(|worker| {
            let there = worker.upgrade();
            let there = there.filter(|worker| !worker.closed.is_cancelled());
            let stays = there.is_some();
            registered.extend(there.filter(|worker| worker.registered.load(Ordering::SeqCst)));
            stays
        });
        registered
    }

    pub(super) fn runs(
        &self,
        lease: &TaskLease,
        activity: Option<(String, String)>,
        cancel: CancellationToken,
    ) {
        let running = Running {
            lease: lease.clone(),
            activity,
            cancel,
        };
        let key = (lease.run_id, lease.task_id, lease.token);
        self.running.lock().insert(key, running);
    }

    pub(super) fn ended(&self, lease: &TaskLease) {
        let key = (lease.run_id, lease.task_id, lease.token);
        let mut running = self.running.lock();
        running.remove(&key);
        if running.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// Takes nothing new, and waits until nothing runs, at most for `grace`; then answers what still runs: leases and types.
    pub(crate) async fn drain(&self, grace: Duration) -> Vec<(TaskLease, String)> {
        self.closing.cancel();
        let emptied = async {
            loop {
                let emptied = self.emptied.notified();
                tokio::pin!(emptied);
                emptied.as_mut().enable();
                if self.running.lock().is_empty() {
                    return;
                }
                emptied.await;
            }
        };
        if tokio::time::timeout(grace, emptied).await.is_ok() {
            return Vec::new();
        }
        let running = self.running.lock();
        running
            .values()
            .map(|running| {
                running.cancel.cancel();
                let activity = running.activity.clone();
                let (_, activity_type) = activity.unwrap_or_default();
                (running.lease.clone(), activity_type)
            })
            .collect()
    }

    /// What runs of a run.
    pub(crate) fn running_of(&self, run_id: Uuid) -> Vec<RunningActivity> {
        let of_run = (run_id, Uuid::nil(), Uuid::nil())..=(run_id, Uuid::max(), Uuid::max());
        let running = self.running.lock();
        let running = running.range(of_run).map(|(_, running)| RunningActivity {
            activity_id: running.activity.as_ref().map(|(id, _)| id.clone()),
            cancel: running.cancel.clone(),
        });
        running.collect()
    }

    /// Asks all running activities of a run to stop.
    pub(crate) fn cancel_run(&self, run_id: Uuid) {
        for running in self.running_of(run_id) {
            running.cancel.cancel();
        }
    }
}
