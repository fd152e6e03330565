//! The pool: activities that run in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use durable_core::ActivityOptions;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use super::capacity::{Capacity, Pressure};
use super::execution::Execution;
use super::results::{Finished, Kept};
use super::{HeartbeatBatcher, ResultSink, Slot, Slots, WorkerSettings};
use crate::activity::{ActivityRegistry, AnyActivity, OnceLedger};
use crate::engine::{Hub, Origin, RunningActivity};
use crate::persistence::model::{ClaimedTask, TaskLease, TaskOutcome, TaskRelease};
use crate::persistence::{Bug, Transactions, WorkerPort, check, planted};
use crate::reliability::Gate;
use crate::runtime::Runtime;

/// Runs activities: at most as many at once as it has slots, each under a lease that the library renews.
pub struct WorkerPool {
    pub(super) slots: Slots,
    pub(super) activities: ActivityRegistry,
    pub(super) settings: WorkerSettings,
    pub(super) runtime: Runtime,
    pub(super) leases: Arc<HeartbeatBatcher>,
    pub(super) gate: Arc<Gate>,
    pub(super) once: Arc<dyn OnceLedger>,
    pub(super) transactions: Option<Arc<dyn Transactions>>,
    port: Arc<dyn WorkerPort>,
    hub: Arc<Hub>,
    pub(super) results: Arc<ResultSink>,
    /// By run, task and token, so that they are told to stop in an order that can be repeated.
    running: Mutex<BTreeMap<(Uuid, Uuid, Uuid), Running>>,
    /// Types of which tasks wait in the queue for want of a slot.
    backlog: Mutex<BTreeSet<String>>,
    /// Others may have queued tasks, or some have come back, while this worker was too full to look.
    unseen: AtomicBool,
    /// Asked to drain by an operator, who may change their mind.
    draining: AtomicBool,
    /// It takes nothing more, for good.
    closed: AtomicBool,
    pub(super) capacity: Capacity,
    pub(super) totals: Totals,
}

/// Whether there is room for one more run.
pub(crate) enum Room {
    /// There is, with a slot for its first activity.
    Slot(Slot),
    /// There is none for now.
    None,
    /// It does not matter: its activities run elsewhere, or also elsewhere.
    Ample,
}

struct Running {
    lease: TaskLease,
    activity_id: String,
    activity_type: String,
    cancel: CancellationToken,
    /// The engine gave it back or gave it up: whatever it answers is not reported.
    abandoned: Arc<AtomicBool>,
}

/// What a pool is made of.
pub(crate) struct PoolParts {
    pub(crate) activities: ActivityRegistry,
    pub(crate) settings: WorkerSettings,
    pub(crate) runtime: Runtime,
    pub(crate) port: Arc<dyn WorkerPort>,
    pub(crate) leases: Arc<HeartbeatBatcher>,
    pub(crate) results: Arc<ResultSink>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) once: Arc<dyn OnceLedger>,
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
}

/// What a worker has done so far.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) busy_ms: AtomicU64,
}

impl WorkerPool {
    pub(crate) fn new(parts: PoolParts) -> Self {
        let slots = Slots::new(parts.settings.max_concurrent_tasks);
        Self {
            capacity: Capacity::new(&parts.settings, slots.max()),
            slots,
            activities: parts.activities,
            settings: parts.settings,
            runtime: parts.runtime,
            leases: parts.leases,
            gate: parts.gate,
            once: parts.once,
            transactions: parts.transactions,
            port: parts.port,
            hub: parts.hub,
            results: parts.results,
            running: Mutex::default(),
            backlog: Mutex::default(),
            unseen: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            totals: Totals::default(),
        }
    }

    /// Activities that may run at once.
    #[must_use]
    pub fn max_concurrency(&self) -> usize {
        self.slots.max()
    }

    /// Whether it takes new tasks at all: not once it drains.
    #[must_use]
    pub fn accepting_tasks(&self) -> bool {
        !self.draining.load(Ordering::SeqCst) && !self.is_closed()
    }

    /// Whether it never takes a task again: its engine shuts down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Takes no new tasks, or takes them again, as an operator asked. Answers whether that is a change.
    pub(crate) fn set_draining(&self, draining: bool) -> bool {
        self.draining.swap(draining, Ordering::SeqCst) != draining
    }

    /// Types it runs.
    #[must_use]
    pub fn activity_types(&self) -> Vec<String> {
        self.activities.types().map(str::to_owned).collect()
    }

    /// What renews the leases of running activities and carries their heartbeats.
    #[must_use]
    pub fn heartbeats(&self) -> &HeartbeatBatcher {
        &self.leases
    }

    /// A slot for a task that is about to be queued by this process; none where it should wait in the queue like any other.
    pub(crate) fn reserve(&self, activity_type: &str, options: &ActivityOptions) -> Option<Slot> {
        let direct = self.takes_directly(activity_type, options) && self.pressure().is_none();
        if direct { self.slots.try_take() } else { None }
    }

    /// Whether a task that is about to be queued may have a slot that its run has already. A worker that is full does not get fuller by that; one
    /// that is not alone leaves it to the others all the same.
    pub(crate) fn may_pass_on(&self, activity_type: &str, options: &ActivityOptions) -> bool {
        self.takes_directly(activity_type, options)
            && match self.pressure() {
                None => true,
                // What waits in the queue waits for a slot: then the run's next activity waits behind it, like any other.
                Some(Pressure::Load { .. }) => self.is_alone() && !self.anything_waits(),
                Some(_) => false,
            }
    }

    /// Not past breakers, limiters, or older tasks of the type.
    fn takes_directly(&self, activity_type: &str, options: &ActivityOptions) -> bool {
        self.activities.contains(activity_type)
            && options.circuit_breaker.is_none()
            && options.rate_limit.is_none()
            && !self.backlog.lock().contains(activity_type)
    }

    /// Whether a new run may begin here.
    pub(crate) fn room(&self, origin: Origin) -> Room {
        // Others can help with what was started here only if its tasks queue up; what was claimed they could have claimed themselves.
        let others_may_help = origin == Origin::Started && !self.is_alone();
        if self.activities.is_empty() || others_may_help {
            return Room::Ample;
        }
        if self.anything_waits() || self.pressure().is_some() {
            return Room::None;
        }
        self.slots.try_take().map_or(Room::None, Room::Slot)
    }

    /// Tasks of these types wait in the queue: newer ones queue up behind them.
    pub(crate) fn backlog(&self, types: &[String]) {
        let mut backlog = self.backlog.lock();
        for activity_type in types {
            if self.activities.contains(activity_type) && !backlog.contains(activity_type) {
                backlog.insert(activity_type.clone());
            }
        }
    }

    /// Tasks may wait in the queue that there is no room to look at.
    pub(super) fn something_may_wait(&self) {
        self.unseen.store(true, Ordering::SeqCst);
    }

    fn anything_waits(&self) -> bool {
        self.unseen.load(Ordering::SeqCst) || self.has_backlog()
    }

    /// A claim found the queue empty.
    pub(super) fn backlog_is_gone(&self) {
        self.unseen.store(false, Ordering::SeqCst);
        self.backlog.lock().clear();
    }

    /// Whether tasks are known to wait in the queue.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.lock().is_empty()
    }

    /// Runs a task. The slot is held until its result is stored. A pool that drains gives the task back instead.
    pub(crate) fn start(self: &Arc<Self>, task: ClaimedTask, mut slot: Slot) {
        if !self.accepting_tasks() {
            self.give_back(task, slot);
            return;
        }
        slot.holds(task_bytes(&task));
        let cancel = CancellationToken::new();
        let abandoned = Arc::new(AtomicBool::new(false));
        let running = Running {
            lease: task.lease.clone(),
            activity_id: task.activity_id.clone(),
            activity_type: task.activity_type.clone(),
            cancel: cancel.clone(),
            abandoned: Arc::clone(&abandoned),
        };
        let key = (task.lease.run_id, task.lease.task_id, task.lease.token);
        self.running.lock().insert(key, running);
        self.leases.hold(&task, cancel.clone());
        let pool = Arc::clone(self);
        self.runtime.spawn(async move {
            let execution = Execution::new(&pool, task, cancel);
            let ended = execution.run().await;
            pool.running.lock().remove(&key);
            let held = pool.leases.until_stored(&ended.task.lease);
            if planted(Bug::SlotFreedEarly) {
                slot.free();
            }
            if abandoned.load(Ordering::SeqCst) {
                pool.gate.give_back(&ended.task);
                drop(slot);
            } else {
                let result = check::result_bytes(&ended.outcome, &ended.step_logs);
                slot.holds(task_bytes(&ended.task).saturating_add(result));
                pool.count(&ended.outcome, ended.took);
                pool.gate.record(&ended.task, &ended.outcome);
                pool.report(Finished {
                    task: ended.task,
                    outcome: ended.outcome,
                    step_logs: ended.step_logs,
                    kept: ended.kept,
                    held,
                    slot,
                });
            }
        });
    }

    /// Gives a task back unrun; whoever drains waits for it.
    fn give_back(self: &Arc<Self>, task: ClaimedTask, slot: Slot) {
        self.gate.give_back(&task);
        let pool = Arc::clone(self);
        self.runtime.spawn(async move {
            let release = TaskRelease::now(task.lease);
            match pool.port.release_tasks(vec![release], None).await {
                Ok(_) => pool.hub.claimable_by_others([&*task.activity_type]),
                // Its lease runs out and the reaper takes it back.
                Err(error) => warn!(%error, "a task could not be given back"),
            }
            drop(slot);
        });
    }

    /// With the run's next turn where its program is here, else to its inbox.
    fn report(&self, finished: Finished) {
        if finished.kept != Kept::NotYet || !finished.may_join_a_turn() {
            self.results.store(vec![finished]);
        } else {
            let now = self.runtime.instant();
            if let Err(finished) = self.hub.desk.finished(Box::new(finished), now) {
                self.results.store(vec![*finished]);
            }
        }
    }

    fn count(&self, outcome: &TaskOutcome, took: Duration) {
        let counter = match outcome {
            TaskOutcome::Completed { .. } => &self.totals.completed,
            TaskOutcome::Failed { .. } | TaskOutcome::Cancelled { .. } => &self.totals.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.capacity.took(took);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.totals.busy_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// What runs of a run.
    pub(crate) fn running_of(&self, run_id: Uuid) -> Vec<RunningActivity> {
        let running = self.running.lock();
        let running = of_run(&running, run_id).map(|running| RunningActivity {
            activity_id: Some(running.activity_id.clone()),
            cancel: running.cancel.clone(),
        });
        running.collect()
    }

    /// The breakers and limiters that tasks pass.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Where what activities do once is kept.
    pub(crate) fn once(&self) -> Arc<dyn OnceLedger> {
        Arc::clone(&self.once)
    }

    /// An activity that runs here.
    pub(crate) fn activity(&self, activity_type: &str) -> Option<Arc<dyn AnyActivity>> {
        self.activities.get(activity_type)
    }

    /// Asks all running activities of a run to stop.
    pub(crate) fn cancel_run(&self, run_id: Uuid) {
        for running in of_run(&self.running.lock(), run_id) {
            running.cancel.cancel();
        }
    }

    /// Takes no new tasks, for good. What a claim or a commit under way still brings is given back.
    pub(crate) fn stop_accepting(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.slots.close();
    }

    /// Waits until nothing runs and every result is stored, at most for `grace`; then answers the leases of what still runs, with its type. It is
    /// asked to stop, and its results no longer count.
    pub(crate) async fn drain(&self, grace: Duration) -> Vec<(TaskLease, String)> {
        tokio::select! {
            biased;
            () = self.slots.emptied() => return Vec::new(),
            () = self.runtime.sleep(grace) => {}
        }
        let running = self.running.lock();
        running
            .values()
            .map(|running| {
                running.abandoned.store(true, Ordering::SeqCst);
                running.cancel.cancel();
                (running.lease.clone(), running.activity_type.clone())
            })
            .collect()
    }

    /// Saves reports to breakers as they come in, for ever.
    pub(crate) async fn keep_saving_reports(&self) {
        self.gate.run().await;
    }

    /// Saves the last reports to breakers; the ones that the store does not take now are lost, which a breaker can bear.
    pub(crate) async fn save_reports(&self) {
        self.gate.flush().await;
    }

    /// Tasks completed, tasks failed, and the milliseconds they took together.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            read(&self.totals.completed),
            read(&self.totals.failed),
            read(&self.totals.busy_ms),
        )
    }
}

/// What a task brings, in bytes.
fn task_bytes(task: &ClaimedTask) -> usize {
    usize::try_from(task.bytes()).unwrap_or(usize::MAX)
}

/// What runs of one run.
fn of_run(
    running: &BTreeMap<(Uuid, Uuid, Uuid), Running>,
    run_id: Uuid,
) -> impl Iterator<Item = &Running> {
    let (first, last) = (Uuid::nil(), Uuid::max());
    running
        .range((run_id, first, first)..=(run_id, last, last))
        .map(|(_, running)| running)
}
