//! The store that fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::model::{
    Attributes, AuditFilter, AuditNotes, AuditRecord, BlockRun, BreakerRecord, ClaimOutbox,
    ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, CountLimit, DeadLetter, DeadLetterDecision,
    DecisionOutcome, DeleteOutcome, DlqFilter, Dump, FinishOutcome, FireDue, Fired, Glance,
    History, LeaseExtension, LeaseState, OutboxRecord, OutboxReport, Page, PurgeOld, PurgeRuns,
    PurgedOld, ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount, RunFilter,
    RunMark, RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire, ScheduleOutcome,
    ScheduleRecord, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun, StepLogFilter,
    StepLogPage, StoreCounts, TaskFilter, TaskRecord, TaskRelease, TaskResult, TerminateOutcome,
    TerminateRun, TurnCommit, TurnOutcome, UpdateRecord, WaitingTypes, WorkerBeat, WorkerFilter,
    WorkerInfo, WorkerStatus,
};
use everruns_durable::persistence::{
    Bell, Shards, StoreError, StoreResult, WorkerPort, WorkflowEventStore,
};
use parking_lot::Mutex;
use uuid::Uuid;

use super::obstacles::Obstacles;
use super::step_aside;
use crate::differential::Random;

/// How often each fault happens, in percent of the calls.
#[derive(Debug, Clone, Copy)]
pub struct FaultRates {
    /// Others go first, up to three times.
    pub delayed: u64,
    /// The call fails and was not carried out.
    pub failed_before: u64,
    /// The call fails and was carried out.
    pub failed_after: u64,
    /// The call is carried out twice; the caller gets the first answer.
    pub repeated: u64,
    /// The call is carried out twice; the caller gets the second answer.
    pub repeated_late: u64,
}

impl FaultRates {
    /// No faults at all.
    pub const NONE: Self = Self {
        delayed: 0,
        failed_before: 0,
        failed_after: 0,
        repeated: 0,
        repeated_late: 0,
    };
}

impl Default for FaultRates {
    fn default() -> Self {
        Self {
            delayed: 30,
            failed_before: 5,
            failed_after: 5,
            repeated: 3,
            repeated_late: 3,
        }
    }
}

/// What happened to the calls of one method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Calls in all.
    pub calls: u64,
    /// Calls that were delayed.
    pub delayed: u64,
    /// Calls that failed and were not carried out.
    pub failed_before: u64,
    /// Calls that failed and were carried out.
    pub failed_after: u64,
    /// Calls that were carried out twice, the first answer given.
    pub repeated: u64,
    /// Calls that were carried out twice, the second answer given.
    pub repeated_late: u64,
}

/// Any store, made unreliable by a seeded plan. Dumps, the audit, `shards` and the bell are left alone: they are the test's own eyes.
pub struct FaultyStore {
    inner: Arc<dyn WorkflowEventStore>,
    rates: Arc<Mutex<FaultRates>>,
    obstacles: Arc<Obstacles>,
    /// Only calls of this method are touched.
    only: Option<&'static str>,
    plan: Arc<Mutex<Random>>,
    counts: Arc<Mutex<BTreeMap<&'static str, FaultCounts>>>,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Works,
    FailsBefore,
    FailsAfter,
    HappensTwice,
    HappensTwiceAnsweredLate,
}

impl FaultyStore {
    /// Wraps a store; the seed is the plan.
    #[must_use]
    pub fn new(inner: Arc<dyn WorkflowEventStore>, seed: u64, rates: FaultRates) -> Self {
        Self {
            inner,
            rates: Arc::new(Mutex::new(rates)),
            obstacles: Arc::default(),
            only: None,
            plan: Arc::new(Mutex::new(Random::new(seed))),
            counts: Arc::default(),
        }
    }

    /// The same with faults in the calls of one method only.
    #[must_use]
    pub fn only(mut self, method: &'static str) -> Self {
        self.only = Some(method);
        self
    }

    /// From now on faults are this frequent.
    pub fn set_rates(&self, rates: FaultRates) {
        *self.rates.lock() = rates;
    }

    /// Holds the calls of a method until [`FaultyStore::let_go`].
    pub fn hold(&self, method: &'static str) {
        self.obstacles.hold(method);
    }

    /// Ends when a call is held.
    pub async fn holds_one(&self) {
        self.obstacles.arrived().await;
    }

    /// Lets held calls go on, and holds no more.
    pub fn let_go(&self) {
        self.obstacles.let_go();
    }

    /// Calls of a method that name this run fail from now on, as if what is stored could not be read.
    pub fn spoil(&self, method: &'static str, run_id: Uuid) {
        self.obstacles.spoil(method, run_id);
    }

    /// The next call of this method panics, as a bug in a store or in what calls it would.
    pub fn lay_trap(&self, method: &'static str) {
        self.obstacles.lay_trap(method);
    }

    /// Whether a trap still lies.
    #[must_use]
    pub fn has_trap(&self) -> bool {
        self.obstacles.has_trap()
    }

    /// What happened so far, by method.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, FaultCounts> {
        self.counts.lock().clone()
    }

    /// Decides about a call, and delays it.
    async fn fate(&self, method: &'static str) -> Fate {
        let (delays, fate) = self.decide(method);
        for _ in 0..delays {
            step_aside().await;
        }
        fate
    }

    fn decide(&self, method: &'static str) -> (u64, Fate) {
        let mut plan = self.plan.lock();
        let rates = match self.only {
            Some(only) if only != method => FaultRates::NONE,
            _ => *self.rates.lock(),
        };
        let delays = if plan.percent(rates.delayed) {
            1 + plan.below(3)
        } else {
            0
        };
        let roll = plan.below(100);
        let fates = [
            (rates.failed_before, Fate::FailsBefore),
            (rates.failed_after, Fate::FailsAfter),
            (rates.repeated, Fate::HappensTwice),
            (rates.repeated_late, Fate::HappensTwiceAnsweredLate),
        ];
        let mut below = 0;
        let fate = fates.into_iter().find_map(|(rate, fate)| {
            below += rate;
            (roll < below).then_some(fate)
        });
        let fate = fate.unwrap_or(Fate::Works);
        drop(plan);
        let mut counts = self.counts.lock();
        let count = counts.entry(method).or_default();
        count.calls += 1;
        count.delayed += u64::from(delays > 0);
        match fate {
            Fate::Works => {}
            Fate::FailsBefore => count.failed_before += 1,
            Fate::FailsAfter => count.failed_after += 1,
            Fate::HappensTwice => count.repeated += 1,
            Fate::HappensTwiceAnsweredLate => count.repeated_late += 1,
        }
        (delays, fate)
    }
}

fn lost(method: &'static str) -> StoreError {
    StoreError::Unavailable {
        message: format!("{method}: the connection was lost on purpose"),
        source: None,
    }
}

fn unreadable(method: &'static str) -> StoreError {
    StoreError::Corrupt {
        message: format!("{method}: spoilt on purpose"),
        source: None,
    }
}

macro_rules! unreliable {
    ($trait:ident { $($(#[$note:meta])* fn $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)+ } $($rest:tt)*) => {
        #[allow(clippy::clone_on_copy, reason = "one rule for every method")]
        #[async_trait]
        impl $trait for FaultyStore {
            $(
                async fn $method(&self, $($arg: $ty),*) -> StoreResult<$out> {
                    let method = stringify!($method);
                    self.obstacles.pass(method).await;
                    self.obstacles.tread(method);
                    if self.obstacles.is_spoilt(method, || format!("{:?}", ($(&$arg,)*))) {
                        return Err(unreadable(method));
                    }
                    match self.fate(method).await {
                        Fate::Works => self.inner.$method($($arg),*).await,
                        Fate::FailsBefore => Err(lost(method)),
                        Fate::FailsAfter => {
                            self.inner.$method($($arg),*).await?;
                            Err(lost(method))
                        }
                        fate @ (Fate::HappensTwice | Fate::HappensTwiceAnsweredLate) => {
                            let first = self.inner.$method($($arg.clone()),*).await;
                            step_aside().await;
                            let second = self.inner.$method($($arg),*).await;
                            if fate == Fate::HappensTwice { first } else { second }
                        }
                    }
                }
            )+
            $($rest)*
        }
    };
}

unreliable! { WorkerPort {
    fn claim_turns(claim: ClaimTurns) -> Vec<ClaimedTurn>;
    fn load_turns(run_ids: &[Uuid]) -> Vec<Option<ClaimedTurn>>;
    fn load_history(run_id: Uuid, after: i64) -> Option<History>;
    fn commit_turns(turns: Vec<TurnCommit>, now: Option<Timestamp>) -> Vec<TurnOutcome>;
    fn block_runs(blocks: Vec<BlockRun>, now: Option<Timestamp>) -> Vec<bool>;
    fn renew_runs(worker_id: &str, run_ids: &[Uuid], lease: Duration, now: Option<Timestamp>) -> Vec<bool>;
    fn release_runs(worker_id: &str, run_ids: &[Uuid]) -> ();
    fn waiting_types() -> WaitingTypes;
    fn claim_tasks(claim: ClaimTasks) -> Vec<ClaimedTask>;
    fn finish_tasks(results: Vec<TaskResult>, now: Option<Timestamp>) -> Vec<FinishOutcome>;
    fn extend_leases(extensions: Vec<LeaseExtension>, now: Option<Timestamp>) -> Vec<LeaseState>;
    fn release_tasks(releases: Vec<TaskRelease>, now: Option<Timestamp>) -> Vec<bool>;
}}

unreliable! { WorkflowEventStore {
    fn clock(now: Option<Timestamp>) -> Timestamp;
    fn start_runs(starts: Vec<StartRun>, now: Option<Timestamp>) -> Vec<StartOutcome>;
    fn send_signals(signals: Vec<SendSignal>, now: Option<Timestamp>) -> Vec<SendOutcome>;
    fn send_updates(updates: Vec<SendUpdate>, now: Option<Timestamp>) -> Vec<SendOutcome>;
    fn get_update(run_id: Uuid, update_id: &str) -> Option<UpdateRecord>;
    fn terminate_runs(runs: Vec<TerminateRun>, now: Option<Timestamp>) -> Vec<TerminateOutcome>;
    fn fire_due(due: FireDue) -> Fired;
    fn reap_leases(reap: ReapLeases) -> Vec<ReapedTask>;
    fn relay_messages(relay: RelayMessages) -> Relayed;
    fn put_schedule(schedule: ScheduleRecord) -> ();
    fn swap_schedule(seen: Option<ScheduleRecord>, schedule: ScheduleRecord) -> bool;
    fn get_schedule(id: &str) -> Option<ScheduleRecord>;
    fn list_schedules(filter: ScheduleFilter, page: Page) -> Vec<ScheduleRecord>;
    fn delete_schedule(id: &str) -> bool;
    fn due_schedules(max: usize, now: Option<Timestamp>) -> Vec<ScheduleRecord>;
    fn fire_schedules(fires: Vec<ScheduleFire>, now: Option<Timestamp>) -> Vec<ScheduleOutcome>;
    fn register_worker(worker: WorkerInfo, now: Option<Timestamp>) -> ();
    fn worker_heartbeats(beats: Vec<WorkerBeat>, now: Option<Timestamp>) -> Vec<Option<WorkerStatus>>;
    fn list_workers(filter: WorkerFilter) -> Vec<WorkerInfo>;
    fn set_worker_status(worker_id: &str, status: WorkerStatus) -> bool;
    fn deregister_worker(worker_id: &str) -> bool;
    fn stop_silent_workers(silent_since: Timestamp) -> Vec<String>;
    fn get_dead_letter(id: Uuid) -> Option<DeadLetter>;
    fn list_dlq(filter: DlqFilter, page: Page) -> Vec<DeadLetter>;
    fn decide_dead_letter(run_id: Uuid, id: Uuid, decision: DeadLetterDecision, now: Option<Timestamp>) -> DecisionOutcome;
    fn purge_dlq(filter: DlqFilter, max: usize) -> u64;
    fn get_breaker(key: &str) -> Option<BreakerRecord>;
    fn save_breaker(breaker: BreakerRecord, now: Option<Timestamp>) -> bool;
    fn list_breakers() -> Vec<BreakerRecord>;
    fn reset_breaker(key: &str) -> bool;
    fn get_once(key: &str) -> Option<Payload>;
    fn put_once(key: &str, result: Payload, now: Option<Timestamp>) -> Payload;
    fn claim_outbox(claim: ClaimOutbox) -> Vec<OutboxRecord>;
    fn finish_outbox(reports: Vec<OutboxReport>, now: Option<Timestamp>) -> Vec<bool>;
    fn get_run(run_id: Uuid) -> Option<RunRecord>;
    fn summarize_runs(run_ids: &[Uuid]) -> Vec<Option<RunSummary>>;
    fn list_runs(filter: RunFilter, page: Page) -> RunPage;
    fn count_runs(filter: RunFilter, limit: CountLimit) -> RunCount;
    fn get_attributes(run_id: Uuid) -> Attributes;
    fn list_tasks(filter: TaskFilter, page: Page) -> Vec<TaskRecord>;
    fn list_step_logs(filter: StepLogFilter, page: Page) -> StepLogPage;
    fn list_events(run_id: Uuid, after: i64, limit: usize) -> Option<History>;
    fn glance(now: Option<Timestamp>) -> Glance;
    fn counts() -> StoreCounts;
    fn count_waiting(at_most: u64) -> u64;
    fn run_marks(run_ids: &[Uuid]) -> Vec<Option<RunMark>>;
    fn rollups(from: Timestamp) -> Vec<RollupRecord>;
    fn purge_runs(purge: PurgeRuns) -> u64;
    fn purge_old(purge: PurgeOld) -> PurgedOld;
    fn delete_run(run_id: Uuid, now: Option<Timestamp>) -> DeleteOutcome;
}
    fn shards(&self) -> Shards {
        self.inner.shards()
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.inner.bell()
    }

    async fn reside(&self, worker_id: &str) -> StoreResult<()> {
        self.inner.reside(worker_id).await
    }

    /// The same plan goes on in the view.
    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        let view = self.inner.audited(notes)?;
        Ok(view.map(|inner| {
            Arc::new(Self {
                inner,
                rates: Arc::clone(&self.rates),
                obstacles: Arc::clone(&self.obstacles),
                only: self.only,
                plan: Arc::clone(&self.plan),
                counts: Arc::clone(&self.counts),
            }) as _
        }))
    }

    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
        self.inner.list_audit(filter, page).await
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.inner.dump().await
    }
}
