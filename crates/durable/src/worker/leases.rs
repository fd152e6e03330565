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
use crate::persistence::{Bug, StoreError, WorkerPort, planted};
use crate::runtime::Runtime;
use crate::worker::batches::batches;

/// Renews leases in batches; a user's heartbeat goes with the next batch, which is at most 100 ms away.
///
/// A heartbeat is taken out of the waiting ones only once the store has it: one that comes while a batch is under way
/// stays for the next. What one heartbeat brings can cost nobody the lease: a batch that is refused is split, down to the one at fault, which is
/// then renewed without its details.
pub struct HeartbeatBatcher {
    port: Arc<dyn WorkerPort>,
    runtime: Runtime,
    lease: Duration,
    renewal: Duration,
    /// By task and token, so that batches are in an order that can be repeated.
    held: Mutex<BTreeMap<(Uuid, Uuid), Held>>,
    beat: Notify,
}

/// A lease that is let go of when this is dropped.
pub(crate) struct HeldLease {
    /// None in tests that keep no leases.
    leases: Option<Arc<HeartbeatBatcher>>,
    lease: TaskLease,
}

impl HeldLease {
    /// One without an owner.
    #[cfg(test)]
    pub(crate) const fn unkept(lease: TaskLease) -> Self {
        let leases = None;
        Self { leases, lease }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(leases) = &self.leases {
            leases.let_go(&self.lease);
        }
    }
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

/// A lease as it goes into a batch.
#[derive(Clone)]
struct Renewal {
    lease: TaskLease,
    beat: Option<Beat>,
}

impl Renewal {
    fn bytes(&self) -> usize {
        self.beat.as_ref().map_or(0, |beat| beat.details.len())
    }
}

/// Whether the store took what it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// It did.
    All,
    /// Some leases are not renewed: soon again.
    NotAll,
}

impl Sent {
    fn and(self, other: Self) -> Self {
        match self {
            Self::All => other,
            Self::NotAll => self,
        }
    }
}

/// How long heartbeats gather before they are sent.
const BEAT_DELAY: Duration = Duration::from_millis(100);
/// Wait before leases that could not be renewed are sent again: short, so that a lease lives through several failures.
const RENEW_AGAIN: Duration = Duration::from_millis(500);

impl HeartbeatBatcher {
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
        self.hold_lease(task.lease.clone(), cancel);
    }

    /// The same for a task of which only the lease is known.
    pub(crate) fn hold_lease(&self, lease: TaskLease, cancel: CancellationToken) {
        let key = key(&lease);
        let held = Held {
            lease,
            cancel,
            beat: None,
        };
        self.held.lock().insert(key, held);
    }

    pub(crate) fn let_go(&self, lease: &TaskLease) {
        self.held.lock().remove(&key(lease));
    }

    /// The lease of an activity that has ended, kept until its outcome is stored: that may take as
    /// long as another transaction has the run.
    pub(crate) fn until_stored(self: &Arc<Self>, lease: &TaskLease) -> HeldLease {
        HeldLease {
            leases: Some(Arc::clone(self)),
            lease: lease.clone(),
        }
    }

    /// Leases that it keeps: one for each activity that runs.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.lock().len()
    }

    /// Heartbeats that the store does not have yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let held = self.held.lock();
        held.values().filter(|held| held.beat.is_some()).count()
    }

    /// Renews and beats, for ever.
    pub(crate) async fn run(&self) {
        let mut renew_at = self.runtime.instant() + self.renewal;
        loop {
            let until = renew_at.saturating_duration_since(self.runtime.instant());
            tokio::select! {
                biased;
                () = self.runtime.sleep(until) => {
                    let sent = if planted(Bug::LeasesNotRenewed) {
                        Sent::All
                    } else {
                        self.send(|_| true).await
                    };
                    renew_at = self.runtime.instant() + match sent {
                        Sent::All => self.renewal,
                        Sent::NotAll => self.renewal.min(RENEW_AGAIN),
                    };
                }
                () = self.beat.notified() => {
                    self.runtime.sleep(BEAT_DELAY.min(self.renewal)).await;
                    if self.send(|held| held.beat.is_some()).await == Sent::NotAll {
                        // The beats stay, and go with the next renewal.
                        renew_at = renew_at.min(self.runtime.instant() + RENEW_AGAIN);
                    }
                }
            }
        }
    }

    async fn send(&self, wanted: impl Fn(&Held) -> bool) -> Sent {
        let renewals: Vec<Renewal> = {
            let held = self.held.lock();
            held.values()
                .filter(|held| wanted(held))
                .map(|held| Renewal {
                    lease: held.lease.clone(),
                    beat: held.beat.clone(),
                })
                .collect()
        };
        let mut sent = Sent::All;
        for batch in batches(renewals, Renewal::bytes) {
            sent = sent.and(self.send_batch(&batch).await);
        }
        sent
    }

    async fn send_batch(&self, batch: &[Renewal]) -> Sent {
        let details = |beat: &Beat| beat.details.clone();
        let error = match self.extend(batch, details).await {
            Ok(sent) => return sent,
            Err(error) => error,
        };
        if !error.is_refusal() {
            // The leases hold for a while yet, and the beats stay for the next batch.
            warn!(%error, leases = batch.len(), "leases could not be renewed");
            return Sent::NotAll;
        }
        if batch.len() > 1 {
            let (one, other) = batch.split_at(batch.len() / 2);
            let one = Box::pin(self.send_batch(one)).await;
            return one.and(Box::pin(self.send_batch(other)).await);
        }
        warn!(%error, "a heartbeat was refused; the lease is renewed without its details");
        match self.extend(batch, |_| Payload::ABSENT).await {
            Ok(sent) => sent,
            Err(error) => {
                warn!(%error, "a lease could not be renewed");
                Sent::NotAll
            }
        }
    }

    async fn extend(
        &self,
        batch: &[Renewal],
        details: impl Fn(&Beat) -> Payload,
    ) -> Result<Sent, StoreError> {
        let extensions = batch.iter().map(|renewal| LeaseExtension {
            lease: renewal.lease.clone(),
            extend: self.lease,
            heartbeat: renewal.beat.as_ref().map(&details),
        });
        let extended = self.port.extend_leases(extensions.collect(), None).await?;
        let mut sent = Sent::All;
        for (renewal, state) in batch.iter().zip(extended) {
            sent = sent.and(self.settle(&renewal.lease, renewal.beat.as_ref(), state));
        }
        Ok(sent)
    }

    fn settle(&self, lease: &TaskLease, sent: Option<&Beat>, state: LeaseState) -> Sent {
        let mut held = self.held.lock();
        let Some(held) = held.get_mut(&key(lease)) else {
            return Sent::All;
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
            // Another transaction has the task: the lease holds, and its beat stays for the next
            // batch.
            LeaseState::Unknown => return Sent::NotAll,
        }
        Sent::All
    }
}

impl HeartbeatSink for HeartbeatBatcher {
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

#[cfg(test)]
mod tests;
