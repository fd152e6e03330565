//! Reports to breakers, on their way to the store.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use durable_core::CircuitBreakerConfig;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, warn};
use uuid::Uuid;

use super::breaker::{Ending, Probe, Report};
use super::gate::Gate;
use crate::persistence::model::{ClaimedTask, TaskLease, TaskOutcome};

/// Reports that wait to be saved, and the probes that run here.
///
/// A breaker's row is hot, so reports are saved in batches: while one save is under way the next batch forms.
#[derive(Default)]
pub(super) struct Reports {
    /// By task and token.
    probes: Mutex<HashMap<(Uuid, Uuid), Probe>>,
    /// By breaker key.
    waiting: Mutex<BTreeMap<String, Batch>>,
    bell: Notify,
    /// Held while a batch is being saved: who flushes also waits for the one under way.
    flushing: tokio::sync::Mutex<()>,
}

struct Batch {
    config: CircuitBreakerConfig,
    reports: Vec<Report>,
}

/// Wait after a batch that could not be saved.
const RETRY: Duration = Duration::from_millis(500);

impl Reports {
    /// A task runs as a probe.
    pub(super) fn is_probe(&self, lease: &TaskLease, probe: Probe) {
        self.probes.lock().insert(key(lease), probe);
    }

    /// Takes in how a task went. What tells a breaker nothing costs nothing: a success counts only for a probe.
    pub(super) fn take(&self, task: &ClaimedTask, ending: Ending) {
        let Some(config) = &task.options.circuit_breaker else {
            return;
        };
        let probe = self.probes.lock().remove(&key(&task.lease));
        if probe.is_none() && ending != Ending::Failed {
            return;
        }
        let breaker = config.key_for(&task.activity_type);
        let batch = Batch {
            config: config.clone(),
            reports: vec![Report { probe, ending }],
        };
        self.put(breaker, batch);
    }

    fn put(&self, breaker: String, mut batch: Batch) {
        let mut waiting = self.waiting.lock();
        match waiting.get_mut(&breaker) {
            Some(waiting) => waiting.reports.append(&mut batch.reports),
            None => {
                waiting.insert(breaker, batch);
            }
        }
        self.bell.notify_one();
    }
}

impl Gate {
    /// Tells the task's breaker how it went; returns at once.
    pub(crate) fn record(&self, task: &ClaimedTask, outcome: &TaskOutcome) {
        let ending = match outcome {
            TaskOutcome::Completed { .. } => Ending::Succeeded,
            TaskOutcome::Failed { .. } => Ending::Failed,
            TaskOutcome::Cancelled { .. } => Ending::GivenBack,
        };
        self.reports.take(task, ending);
    }

    /// A task that was let through does not run after all.
    pub(crate) fn give_back(&self, task: &ClaimedTask) {
        self.reports.take(task, Ending::GivenBack);
    }

    /// Saves reports as they come in, for ever.
    pub(crate) async fn run(&self) {
        loop {
            self.reports.bell.notified().await;
            while !self.flush().await {
                self.runtime.sleep(self.runtime.jittered(RETRY)).await;
            }
        }
    }

    /// Saves what waits. False: some of it could not be saved and waits on.
    pub(crate) async fn flush(&self) -> bool {
        let _turn = self.reports.flushing.lock().await;
        let batches = std::mem::take(&mut *self.reports.waiting.lock());
        let mut all_saved = true;
        for (key, batch) in batches {
            let breaker = self.breaker(&key, &batch.config);
            match breaker.record(&batch.reports).await {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {
                    debug!(%key, %error, "reports to a breaker are saved again later");
                    self.reports.put(key, batch);
                    all_saved = false;
                }
                Err(error) => warn!(%key, %error, "reports to a breaker are lost"),
            }
        }
        all_saved
    }

    /// Whether reports wait.
    pub(super) fn has_reports(&self) -> bool {
        !self.reports.waiting.lock().is_empty()
    }
}

fn key(lease: &TaskLease) -> (Uuid, Uuid) {
    (lease.task_id, lease.token)
}
