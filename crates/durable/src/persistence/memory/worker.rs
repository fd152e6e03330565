//! The worker registry.

use durable_core::Timestamp;

use super::state::State;
use crate::persistence::model::{WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus};

impl State {
    pub(super) fn register_worker(&mut self, mut worker: WorkerInfo, now: Timestamp) {
        worker.started_at = now;
        worker.last_heartbeat_at = now;
        self.workers.insert(worker.id.clone(), worker);
    }

    /// Notes a sign of life; answers the status the worker should be in.
    pub(super) fn worker_heartbeat(
        &mut self,
        beat: WorkerBeat,
        now: Timestamp,
    ) -> Option<WorkerStatus> {
        let worker = self.workers.get_mut(&beat.worker_id)?;
        worker.current_load = beat.current_load;
        worker.accepting_tasks = beat.accepting_tasks;
        worker.backpressure_reason = beat.backpressure_reason;
        worker.tasks_completed = beat.tasks_completed;
        worker.tasks_failed = beat.tasks_failed;
        worker.avg_task_duration_ms = beat.avg_task_duration_ms;
        worker.last_heartbeat_at = now;
        Some(worker.status)
    }

    pub(super) fn list_workers(&self, filter: &WorkerFilter) -> Vec<WorkerInfo> {
        self.workers
            .values()
            .filter(|worker| passes(filter, worker))
            .cloned()
            .collect()
    }

    /// Changes a worker's status; answers the former one.
    pub(super) fn set_worker_status(
        &mut self,
        worker_id: &str,
        status: WorkerStatus,
    ) -> Option<WorkerStatus> {
        let worker = self.workers.get_mut(worker_id)?;
        Some(std::mem::replace(&mut worker.status, status))
    }

    /// Marks workers as stopped that gave no sign since then; answers their ids.
    pub(super) fn stop_silent_workers(&mut self, silent_since: Timestamp) -> Vec<String> {
        self.workers
            .values_mut()
            .filter(|worker| worker.status != WorkerStatus::Stopped)
            .filter(|worker| worker.last_heartbeat_at < silent_since)
            .map(|worker| {
                worker.status = WorkerStatus::Stopped;
                worker.id.clone()
            })
            .collect()
    }
}

fn passes(filter: &WorkerFilter, worker: &WorkerInfo) -> bool {
    filter
        .worker_group
        .as_ref()
        .is_none_or(|group| *group == worker.worker_group)
        && filter.status.is_none_or(|status| status == worker.status)
        && filter
            .heartbeat_since
            .is_none_or(|since| worker.last_heartbeat_at >= since)
}
