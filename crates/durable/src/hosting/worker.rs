//! A worker whose activities run in another process.
//!
//! ```text
//!   TaskBell ─► claim loop (one a worker, while it has room) ─► TaskSink ─► … the other process …
//!                    ▲ room                                                      │
//!                    └──────────── finish, release ◄──────────────────────────────┘
//! ```
//!
//! Its leases are renewed by the engine's [`HeartbeatBatcher`](crate::worker::HeartbeatBatcher), together with all others, for as long as it is open. Closed without a
//! farewell its tasks keep their leases until those run out, so that a worker which reconnects can go on with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use durable_core::Payload;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

use super::bell::Ear;
use crate::activity::HeartbeatSink as _;
use crate::engine::{Hosted, Node};
use crate::persistence::StoreResult;
use crate::persistence::model::{
    ClaimedTask, FinishOutcome, LeaseExtension, LeaseState, TaskLease, TaskOutcome, WorkerBeat,
    WorkerInfo, WorkerStatus,
};
use crate::worker::outcome;

/// Longest pause after a claim that failed; they begin with the poll interval and double.
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Where a worker's tasks go.
#[async_trait]
pub trait TaskSink: Send + Sync + 'static {
    /// Hands a task over; it is answered by [`RemoteWorker::finish`] or [`RemoteWorker::release`].
    async fn run(&self, task: ClaimedTask);

    /// Asks a task to stop: it was cancelled, its time is up, or its lease is lost.
    async fn stop(&self, lease: TaskLease);
}

/// Who a worker is and what it does.
#[derive(Debug, Clone)]
pub struct WorkerProfile {
    /// Its name, unique among all workers.
    pub id: String,
    /// Its group.
    pub group: String,
    /// Name of its build.
    pub build: String,
    /// The machine it runs on.
    pub hostname: Option<String>,
    /// Activity types it runs.
    pub activity_types: BTreeSet<String>,
    /// Workflow types it hosts: for those who look for a host. They are offered by [`super::Hosting::attach_workflows`].
    pub workflow_types: BTreeSet<String>,
    /// Tasks it takes at once.
    pub slots: usize,
}

/// A worker whose activities run in another process. Dropped, it is closed without a farewell.
pub struct RemoteWorker {
    shared: Arc<Shared>,
}

/// What its tasks share.
pub(super) struct Shared {
    node: Arc<Node>,
    profile: WorkerProfile,
    sink: Arc<dyn TaskSink>,
    slots: Mutex<usize>,
    held: Mutex<BTreeMap<(Uuid, Uuid), Held>>,
    /// There may be room again.
    room: Notify,
    /// Not once it is about to leave.
    accepting: AtomicBool,
    /// An operator has asked it to drain; that can be taken back.
    drained: AtomicBool,
    pub(super) closed: CancellationToken,
    /// Whether the store knows it, as far as is known here.
    pub(super) registered: AtomicBool,
    completed: AtomicU64,
    failed: AtomicU64,
}

/// A task that runs there.
struct Held {
    lease: TaskLease,
    /// Absent for one that was taken over from an earlier connection.
    task: Option<ClaimedTask>,
    /// Ends the watch for its cancellation.
    done: CancellationToken,
}

impl RemoteWorker {
    pub(super) fn open(node: Arc<Node>, profile: WorkerProfile, sink: Arc<dyn TaskSink>) -> Self {
        let shared = Arc::new(Shared {
            slots: Mutex::new(profile.slots),
            node,
            profile,
            sink,
            held: Mutex::default(),
            room: Notify::new(),
            accepting: AtomicBool::new(true),
            drained: AtomicBool::new(false),
            closed: CancellationToken::new(),
            registered: AtomicBool::new(false),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let node = &shared.node;
        node.remote_workers
            .open
            .lock()
            .push(Arc::downgrade(&shared));
        if !shared.profile.activity_types.is_empty() {
            let ear = node
                .hub
                .elsewhere
                .listen(shared.profile.activity_types.clone());
            node.runtime
                .spawn(Arc::clone(&shared).claim_until_closed(ear));
        }
        node.runtime
            .spawn(Arc::clone(&shared).belong_until_closed());
        Self { shared }
    }

    /// For how long its tasks are leased after it was last heard of.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.shared.node.settings.worker.lease
    }

    /// Takes over tasks from an earlier connection of the same worker; those whose leases are lost are asked to stop.
    ///
    /// # Errors
    /// The store's.
    pub async fn resume(&self, leases: Vec<TaskLease>) -> StoreResult<()> {
        let shared = &self.shared;
        let extensions = leases.iter().map(|lease| LeaseExtension {
            lease: lease.clone(),
            extend: shared.node.settings.worker.lease,
            heartbeat: None,
        });
        let states = shared
            .node
            .store
            .extend_leases(extensions.collect(), None)
            .await?;
        for (lease, state) in leases.into_iter().zip(states) {
            match state {
                // One that another transaction has for the moment is not lost: the next renewal
                // tells.
                LeaseState::Extended { .. } | LeaseState::Unknown => shared.hold(lease, None),
                LeaseState::Lost => shared.sink.stop(lease).await,
            }
        }
        Ok(())
    }

    /// Changes how many tasks it takes at once, those that run included.
    pub fn set_slots(&self, slots: usize) {
        *self.shared.slots.lock() = slots;
        self.shared.room.notify_one();
    }

    /// Takes nothing new from now on.
    pub fn stop_accepting(&self) {
        self.shared.accepting.store(false, Ordering::SeqCst);
    }

    /// A sign of life of a task, with progress that the next attempt is given.
    pub fn heartbeat(&self, lease: &TaskLease, details: Payload) {
        self.shared.node.leases.queue(lease, details);
    }

    /// Stores how a task ended. Its slot is free afterwards.
    ///
    /// # Errors
    /// The store's, for what it refuses; the task is as before.
    pub async fn finish(
        &self,
        lease: TaskLease,
        outcome: TaskOutcome,
    ) -> StoreResult<FinishOutcome> {
        let shared = &self.shared;
        let stored = match shared
            .node
            .finish_for(vec![(lease.clone(), outcome.clone())])
            .await
        {
            // To try the activity again would end in the same refusal.
            Err(error) if error.is_refusal() => {
                let refused = vec![(lease.clone(), outcome::refused(&error))];
                shared.node.finish_for(refused).await?
            }
            stored => stored?,
        };
        if let Some(task) = shared.let_go(&lease).and_then(|held| held.task) {
            shared.node.pool.gate().record(&task, &outcome);
        }
        let count = match outcome {
            TaskOutcome::Completed { .. } => &shared.completed,
            TaskOutcome::Failed { .. } | TaskOutcome::Cancelled { .. } => &shared.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(stored
            .into_iter()
            .next()
            .unwrap_or(FinishOutcome::LeaseLost))
    }

    /// Gives a task back unrun: no attempt is lost. False: its lease was lost before.
    ///
    /// # Errors
    /// The store's; the task is as before.
    pub async fn release(&self, lease: TaskLease) -> StoreResult<bool> {
        let shared = &self.shared;
        let released = shared.node.release_for(vec![lease.clone()]).await?;
        if let Some(task) = shared.let_go(&lease).and_then(|held| held.task) {
            shared.node.pool.gate().give_back(&task);
        }
        Ok(released.contains(&true))
    }

    /// Closes it politely: what it did not answer is given back at once.
    ///
    /// # Errors
    /// The store's; its leases run out then.
    pub async fn close(self) -> StoreResult<()> {
        let shared = &self.shared;
        shared.closed.cancel();
        let held = std::mem::take(&mut *shared.held.lock());
        let mut leases = Vec::with_capacity(held.len());
        for held in held.into_values() {
            shared.forget(&held);
            if let Some(task) = &held.task {
                shared.node.pool.gate().give_back(task);
            }
            leases.push(held.lease);
        }
        if !leases.is_empty() {
            shared.node.release_for(leases).await?;
        }
        Ok(())
    }
}

impl Drop for RemoteWorker {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.closed.cancel();
        for held in std::mem::take(&mut *shared.held.lock()).into_values() {
            shared.forget(&held);
        }
    }
}

impl Shared {
    /// Whether it takes anything new at all.
    fn takes_new(&self) -> bool {
        self.accepting.load(Ordering::SeqCst)
            && !self.drained.load(Ordering::SeqCst)
            && !self.closed.is_cancelled()
            && !self.node.remote_workers.closing.is_cancelled()
    }

    /// Tasks it could take now.
    fn room(&self) -> usize {
        if !self.takes_new() {
            return 0;
        }
        let slots = *self.slots.lock();
        slots.saturating_sub(self.held.lock().len())
    }

    fn hold(self: &Arc<Self>, lease: TaskLease, task: Option<ClaimedTask>) {
        let (cancel, done) = (CancellationToken::new(), CancellationToken::new());
        self.node.leases.hold_lease(lease.clone(), cancel.clone());
        let activity = task.as_ref();
        let activity = activity.map(|task| (task.activity_id.clone(), task.activity_type.clone()));
        self.node
            .remote_workers
            .runs(&lease, activity, cancel.clone());
        let held = Held {
            lease: lease.clone(),
            task,
            done: done.clone(),
        };
        self.held.lock().insert(key(&lease), held);
        let sink = Arc::clone(&self.sink);
        self.node.runtime.spawn(async move {
            tokio::select! {
                biased;
                () = done.cancelled() => {}
                () = cancel.cancelled() => sink.stop(lease).await,
            }
        });
    }

    fn let_go(&self, lease: &TaskLease) -> Option<Held> {
        let held = self.held.lock().remove(&key(lease))?;
        self.forget(&held);
        self.room.notify_one();
        Some(held)
    }

    fn forget(&self, held: &Held) {
        self.node.leases.let_go(&held.lease);
        self.node.remote_workers.ended(&held.lease);
        held.done.cancel();
    }

    async fn claim_until_closed(self: Arc<Self>, ear: Ear) {
        let first_pause = self.node.settings.worker.poll_interval;
        let mut pause = first_pause;
        loop {
            let room = self.room();
            let rest = if room == 0 {
                ear.pass_on();
                Rest::UntilRoom
            } else {
                ear.wait_from_now();
                self.claim(room).await
            };
            if !matches!(rest, Rest::Failed) {
                pause = first_pause;
            }
            let runtime = &self.node.runtime;
            tokio::select! {
                biased;
                () = self.closed.cancelled() => return,
                () = self.room.notified(), if !matches!(rest, Rest::Not) => {}
                () = ear.rung(), if matches!(rest, Rest::UntilRung) => {}
                () = runtime.sleep(runtime.jittered(pause)), if matches!(rest, Rest::Failed) => {
                    pause = (pause * 2).min(FAILED_PAUSE_MAX);
                }
                () = std::future::ready(()), if matches!(rest, Rest::Not) => {}
            }
        }
    }

    /// Claims as much as there is room for. Not broken off: what it has taken would wait for its leases to run out.
    async fn claim(self: &Arc<Self>, room: usize) -> Rest {
        let settings = &self.node.settings.worker;
        let asked = room.min(settings.claim_batch_size);
        let types = self.profile.activity_types.iter().cloned().collect();
        let claimed = self
            .node
            .claim_for(&self.profile.id, types, asked, settings.lease)
            .await;
        let tasks = match claimed {
            Ok(tasks) => tasks,
            Err(error) => {
                debug!(%error, "tasks could not be claimed");
                return Rest::Failed;
            }
        };
        let is_all = tasks.len() < asked && !ClaimedTask::may_have_left_some(&tasks);
        if !self.takes_new() {
            let leases = tasks.into_iter().map(|task| task.lease).collect();
            if let Err(error) = self.node.release_for(leases).await {
                // Their leases run out and the reaper takes them back.
                warn!(%error, "tasks could not be given back");
            }
            return Rest::UntilRung;
        }
        for task in tasks {
            self.hold(task.lease.clone(), Some(task.clone()));
            self.sink.run(task).await;
        }
        if is_all { Rest::UntilRung } else { Rest::Not }
    }

    /// Registers, and says farewell when it is closed. Its signs of life are given together with all others' ([`RemoteWorkers::give_signs`]).
    async fn belong_until_closed(self: Arc<Self>) {
        let node = &self.node;
        while let Err(error) = self.register().await {
            debug!(%error, "a worker could not be registered");
            tokio::select! {
                biased;
                () = self.closed.cancelled() => return,
                () = node.runtime.sleep(node.settings.worker.heartbeat_interval) => {}
            }
        }
        self.closed.cancelled().await;
        if let Err(error) = self.leave().await {
            debug!(%error, "a worker could not be deregistered; it is taken for dead in a while");
        }
    }

    /// Takes its name from the list, or leaves it to the newest of its other connections: it has come back before this one was over.
    async fn leave(&self) -> StoreResult<()> {
        let node = &self.node;
        while let Some(other) = node.remote_workers.namesake(&self.profile.id) {
            other.register().await?;
            // One that has gone meanwhile may have left before it was registered.
            if !other.closed.is_cancelled() {
                return Ok(());
            }
        }
        node.store.deregister_worker(&self.profile.id).await?;
        Ok(())
    }

    pub(super) fn beat(&self) -> WorkerBeat {
        WorkerBeat {
            worker_id: self.profile.id.clone(),
            current_load: self.load(),
            accepting_tasks: self.room() > 0,
            backpressure_reason: None,
            tasks_completed: self.completed.load(Ordering::Relaxed),
            tasks_failed: self.failed.load(Ordering::Relaxed),
            avg_task_duration_ms: 0.0,
        }
    }

    /// What the store said to its sign of life.
    pub(super) async fn heard(&self, status: Option<WorkerStatus>) -> StoreResult<()> {
        match status {
            None | Some(WorkerStatus::Stopped) if self.closed.is_cancelled() => Ok(()),
            None | Some(WorkerStatus::Stopped) => self.register().await,
            Some(status) => {
                let drained = status == WorkerStatus::Draining;
                if self.drained.swap(drained, Ordering::SeqCst) && !drained {
                    self.room.notify_one();
                }
                Ok(())
            }
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.profile.id
    }

    async fn register(&self) -> StoreResult<()> {
        let profile = &self.profile;
        let now = self.node.runtime.now();
        let accepting = self.takes_new();
        let hosted = Hosted {
            workflow_types: profile.workflow_types.clone(),
            takes_any_workflow: false,
        };
        let info = WorkerInfo {
            id: profile.id.clone(),
            worker_group: profile.group.clone(),
            activity_types: profile.activity_types.iter().cloned().collect(),
            max_concurrency: u32::try_from(*self.slots.lock()).unwrap_or(u32::MAX),
            current_load: self.load(),
            status: if accepting {
                WorkerStatus::Active
            } else {
                WorkerStatus::Draining
            },
            accepting_tasks: accepting,
            backpressure_reason: None,
            started_at: now,
            last_heartbeat_at: now,
            hostname: profile.hostname.clone(),
            version: Some(profile.build.clone()),
            metadata: Payload::from_value(&hosted).unwrap_or_default(),
            tasks_completed: self.completed.load(Ordering::Relaxed),
            tasks_failed: self.failed.load(Ordering::Relaxed),
            avg_task_duration_ms: 0.0,
        };
        self.node.store.register_worker(info, None).await?;
        self.registered.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn load(&self) -> u32 {
        u32::try_from(self.held.lock().len()).unwrap_or(u32::MAX)
    }
}

/// How long a claim loop rests.
enum Rest {
    /// Not at all: more may wait.
    Not,
    /// Until somebody rings.
    UntilRung,
    /// Until a task has ended.
    UntilRoom,
    /// A moment: the store could not be asked.
    Failed,
}

fn key(lease: &TaskLease) -> (Uuid, Uuid) {
    (lease.task_id, lease.token)
}
