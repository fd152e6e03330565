//! One process's engine: the parts and how they know each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use durable_core::{Payload, Timestamp};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::hub::Hub;
use super::off_runtime::OffRuntime;
use super::settings::Settings;
use super::stops::RunningActivity;
use crate::hosting::RemoteWorkers;
use crate::observability::{DurableMetrics, Listeners};
use crate::persistence::WorkflowEventStore;
use crate::persistence::model::{ClaimedTask, RunRecord, WorkerBeat, WorkerInfo, WorkerStatus};
use crate::reliability::BackpressureCoordinator;
use crate::runtime::Runtime;
use crate::worker::{HeartbeatBatcher, ResultListener, ResultSink, WorkerPool};
use crate::workflow::WorkflowRegistry;

/// What the loops of one process share.
pub(crate) struct Node {
    pub(crate) worker_id: String,
    pub(crate) store: Arc<dyn WorkflowEventStore>,
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    pub(crate) workflows: WorkflowRegistry,
    pub(crate) hub: Arc<Hub>,
    pub(crate) pool: Arc<WorkerPool>,
    /// Workers in other processes that this one serves.
    pub(crate) remote_workers: RemoteWorkers,
    pub(crate) results: Arc<ResultSink>,
    pub(crate) leases: Arc<HeartbeatBatcher>,
    /// By how much the store's clock is ahead of this node's.
    pub(crate) store_ahead_us: AtomicI64,
    pub(crate) off_runtime: OffRuntime,
    pub(crate) metrics: DurableMetrics,
    pub(crate) listeners: Arc<Listeners>,
    /// Refuses starts while too much waits.
    pub(crate) admission: Option<Arc<BackpressureCoordinator>>,
}

/// What a process says about the workflows it hosts, in the registry of workers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Hosted {
    pub(crate) workflow_types: BTreeSet<String>,
    pub(crate) takes_any_workflow: bool,
}

impl Hosted {
    fn of(workflows: &WorkflowRegistry) -> Self {
        let types = workflows.hosted().into_iter();
        Self {
            workflow_types: types.map(|hosted| hosted.workflow_type).collect(),
            takes_any_workflow: workflows.takes_any(),
        }
    }
}

impl Node {
    /// What runs of a run, here and on the workers that are served from here.
    pub(crate) fn running_of(&self, run_id: Uuid) -> Vec<RunningActivity> {
        let mut running = self.pool.running_of(run_id);
        running.extend(self.remote_workers.running_of(run_id));
        running
    }

    /// Asks all running activities of a run to stop.
    pub(crate) fn cancel_run(&self, run_id: Uuid) {
        self.pool.cancel_run(run_id);
        self.remote_workers.cancel_run(run_id);
    }

    /// Name of the build that turns a run: of the code that is elsewhere, or of this process.
    pub(crate) fn build_for(&self, workflow_type: &str, version: &str) -> String {
        match self.workflows.elsewhere_for(workflow_type, version) {
            Some(host) => host.build().to_owned(),
            None => self.settings.build.clone(),
        }
    }

    /// A shard to begin with.
    pub(crate) fn first_shard(&self) -> u16 {
        self.runtime.any_shard(self.store.shards())
    }

    /// The store's clock shows this now.
    pub(crate) fn set_clock(&self, store_now: Timestamp) {
        let ahead = store_now.as_microsecond() - self.runtime.now().as_microsecond();
        self.store_ahead_us.store(ahead, Ordering::Relaxed);
    }

    /// How long until an instant of the store's, as far as can be told from here: clocks differ, so this one reckons with the
    /// difference it saw last. A hint: the store decides what is due.
    pub(crate) fn until(&self, instant: Timestamp) -> Duration {
        let ahead = SignedDuration::from_micros(self.store_ahead_us.load(Ordering::Relaxed));
        let now = self.runtime.now().saturating_add(ahead).unwrap_or(instant);
        let left = instant.duration_since(now);
        // A microsecond is cut off by some stores: not to be early is to come once instead of twice.
        Duration::try_from(left).map_or(Duration::ZERO, |left| left + Duration::from_millis(1))
    }

    /// Tells listeners of runs that were ended from outside. They want to know more than the id; where that cannot be read, the
    /// history has it.
    pub(crate) async fn tell_ended(&self, runs: &[Uuid]) {
        if !self.listeners.is_anybody_there() {
            return;
        }
        for run_id in runs {
            if let Ok(Some(run)) = self.store.get_run(*run_id).await {
                self.listeners.ended(&run);
            }
        }
    }

    /// The run has to be over by then.
    pub(crate) fn announce_deadline(&self, run: &RunRecord) {
        let deadlines = [run.execution_deadline, run.run_deadline];
        if let Some(first) = deadlines.into_iter().flatten().min() {
            let wait = self.until(first);
            self.hub.due.due_in(self.runtime.instant(), wait);
        }
    }

    pub(crate) fn worker_info(&self) -> WorkerInfo {
        let beat = self.worker_beat();
        let now = self.runtime.now();
        let activity_types = self.pool.activity_types();
        WorkerInfo {
            id: self.worker_id.clone(),
            worker_group: self.settings.worker.group.clone(),
            max_concurrency: if activity_types.is_empty() {
                0
            } else {
                u32::try_from(self.pool.max_concurrency()).unwrap_or(u32::MAX)
            },
            activity_types,
            current_load: beat.current_load,
            // One that drains and is taken for dead meanwhile drains on.
            status: if self.pool.accepting_tasks() {
                WorkerStatus::Active
            } else {
                WorkerStatus::Draining
            },
            accepting_tasks: beat.accepting_tasks,
            backpressure_reason: beat.backpressure_reason,
            started_at: now,
            last_heartbeat_at: now,
            hostname: std::env::var("HOSTNAME")
                .ok()
                .filter(|name| !name.is_empty()),
            version: Some(self.settings.build.clone()),
            metadata: Payload::from_value(&Hosted::of(&self.workflows)).unwrap_or_default(),
            tasks_completed: beat.tasks_completed,
            tasks_failed: beat.tasks_failed,
            avg_task_duration_ms: beat.avg_task_duration_ms,
        }
    }

    pub(crate) fn worker_beat(&self) -> WorkerBeat {
        let (completed, failed, busy_ms) = self.pool.totals();
        #[allow(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = if completed + failed == 0 {
            0.0
        } else {
            busy_ms as f64 / (completed + failed) as f64
        };
        let backpressure_reason = self.pool.backpressure_reason();
        WorkerBeat {
            worker_id: self.worker_id.clone(),
            current_load: u32::try_from(self.pool.current_load()).unwrap_or(u32::MAX),
            accepting_tasks: backpressure_reason.is_none(),
            backpressure_reason,
            tasks_completed: completed,
            tasks_failed: failed,
            avg_task_duration_ms: mean,
        }
    }
}

impl ResultListener for Node {
    fn recorded(&self, task: &ClaimedTask, line_moved: bool) {
        if line_moved {
            // Of which type the next one is is not known here; most lines are of one.
            self.hub.claimable([&*task.activity_type]);
        }
        self.hub.ready_runs([task.lease.run_id]);
    }

    fn unsure(&self, task: &ClaimedTask) {
        self.recorded(task, true);
        // It may be tried again instead.
        self.hub.due.ring();
    }

    fn retrying(&self, _task: &ClaimedTask, visible_at: Timestamp) {
        let wait = self.until(visible_at);
        self.hub.due.due_in(self.runtime.instant(), wait);
    }
}
