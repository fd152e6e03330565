//! Keeps the leases of running activities, and carries their heartbeats.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use durable_core::Payload;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

use crate::activity::HeartbeatSink;
use crate::persistence::model::{ClaimedTask, LeaseExtension, LeaseState, TaskLease};
use crate::persistence::{Bug, WorkerPort, planted};
use crate::runtime::Runtime;

/// Renews leases in batches; a user's heartbeat goes with the next batch, which is at most [`BEAT_DELAY`] away.
///
/// A heartbeat is taken out of the waiting ones only once the store has it: one that comes while a batch is under way
/// stays for the next.
pub(crate) struct LeaseKeeper {
    port: Arc<dyn WorkerPort>,
    runtime: Runtime,
    lease: Duration,
    renewal: Duration,
    /// By task and token, so that batches are in an order that can be repeated.
    held: Mutex<BTreeMap<(Uuid, Uuid), Held>>,
    beat: Notify,
}

struct Held {
    lease: TaskLease,
    cancel: CancellationToken,
    beat: Option<Beat>,
}

/// A heartbeat that waits; the number tells a newer one from the one that was sent.
#[derive(Clone)]
struct Beat {
    number: u64,
    details: Payload,
}

/// How long heartbeats gather before they are sent.
const BEAT_DELAY: Duration = Duration::from_millis(100);

impl LeaseKeeper {
    pub(crate) fn new(
        port: Arc<dyn WorkerPort>,
        runtime: Runtime,
        lease: Duration,
        renewal: Duration,
    ) -> Self {
        Self {
            port,
            runtime,
            lease,
            renewal,
            held: Mutex::default(),
            beat: Notify::new(),
        }
    }

    pub(crate) fn hold(&self, task: &ClaimedTask, cancel: CancellationToken) {
        let lease = task.lease.clone();
        let held = Held {
            lease,
            cancel,
            beat: None,
        };
        self.held.lock().insert(key(&task.lease), held);
    }

    pub(crate) fn let_go(&self, lease: &TaskLease) {
        self.held.lock().remove(&key(lease));
    }

    /// Renews and beats, for ever.
    pub(crate) async fn run(&self) {
        let mut renew_at = self.runtime.instant() + self.renewal;
        loop {
            let until = renew_at.saturating_duration_since(self.runtime.instant());
            tokio::select! {
                biased;
                () = self.runtime.sleep(until) => {
                    if !planted(Bug::LeasesNotRenewed) {
                        self.send(|_| true).await;
                    }
                    renew_at = self.runtime.instant() + self.renewal;
                }
                () = self.beat.notified() => {
                    self.runtime.sleep(BEAT_DELAY.min(self.renewal)).await;
                    self.send(|held| held.beat.is_some()).await;
                }
            }
        }
    }

    async fn send(&self, wanted: impl Fn(&Held) -> bool) {
        let batch: Vec<(TaskLease, Option<Beat>)> = {
            let held = self.held.lock();
            held.values()
                .filter(|held| wanted(held))
                .map(|held| (held.lease.clone(), held.beat.clone()))
                .collect()
        };
        if batch.is_empty() {
            return;
        }
        let extensions = batch.iter().map(|(lease, beat)| LeaseExtension {
            lease: lease.clone(),
            extend: self.lease,
            heartbeat: beat.as_ref().map(|beat| beat.details.clone()),
        });
        match self.port.extend_leases(extensions.collect(), None).await {
            Ok(states) => {
                for ((lease, beat), state) in batch.iter().zip(states) {
                    self.settle(lease, beat.as_ref(), state);
                }
            }
            // The leases hold for a while yet, and the beats stay for the next batch.
            Err(error) => {
                warn!(%error, leases = batch.len(), "leases could not be renewed");
                self.beat.notify_one();
            }
        }
    }

    fn settle(&self, lease: &TaskLease, sent: Option<&Beat>, state: LeaseState) {
        let mut held = self.held.lock();
        let Some(held) = held.get_mut(&key(lease)) else {
            return;
        };
        match state {
            LeaseState::Extended { .. } => {
                let sent = sent.map(|beat| beat.number);
                let newest = held.beat.as_ref().map(|beat| beat.number);
                if newest == sent || planted(Bug::HeartbeatLost) {
                    held.beat = None;
                }
            }
            LeaseState::Lost => {
                debug!(task_id = %lease.task_id, "the lease is lost");
                held.beat = None;
                if !planted(Bug::LostLeaseIgnored) {
                    held.cancel.cancel();
                }
            }
        }
    }
}

impl HeartbeatSink for LeaseKeeper {
    fn queue(&self, lease: &TaskLease, details: Payload) {
        if let Some(held) = self.held.lock().get_mut(&key(lease)) {
            let number = held.beat.as_ref().map_or(0, |beat| beat.number) + 1;
            held.beat = Some(Beat { number, details });
        }
        self.beat.notify_one();
    }
}

fn key(lease: &TaskLease) -> (Uuid, Uuid) {
    (lease.task_id, lease.token)
}
