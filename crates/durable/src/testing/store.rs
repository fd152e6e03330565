//! The store as the engines of a test's world reach it: watched, held back, failing on purpose.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::gate::Step;
use super::watch::{Fate, Watch};
use crate::persistence::model::{
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
use crate::persistence::{
    Bell, MemoryStore, Shards, StoreError, StoreResult, WorkerPort, WorkflowEventStore,
};
use crate::runtime::Life;

/// One actor's way to the world's store.
pub(super) struct WatchedStore {
    inner: Arc<MemoryStore>,
    watch: Arc<Watch>,
    /// The engine's life; none: the test's own client, whom nothing happens to.
    engine: Option<Life>,
}

impl WatchedStore {
    pub(super) fn for_client(inner: &Arc<MemoryStore>, watch: &Arc<Watch>) -> Self {
        Self {
            inner: Arc::clone(inner),
            watch: Arc::clone(watch),
            engine: None,
        }
    }

    pub(super) fn for_engine(inner: &Arc<MemoryStore>, watch: &Arc<Watch>, life: Life) -> Self {
        Self {
            engine: Some(life),
            ..Self::for_client(inner, watch)
        }
    }

    async fn reach<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let Some(life) = &self.engine else {
            let answer = call.await;
            // Waits look through this store, too: only what can end one of them rings.
            if method == "terminate_runs" {
                self.watch.progress.notify_waiters();
            }
            return answer;
        };
        let fate = self.watch.fate(method, life.steps());
        match fate {
            Fate::CrashBefore => die(life).await,
            Fate::FailBefore => return Err(lost(method)),
            Fate::CrashAfter | Fate::FailAfter | Fate::Works => {}
        }
        let answer = call.await;
        self.watch.progress.notify_waiters();
        match fate {
            Fate::CrashAfter => die(life).await,
            Fate::FailAfter => Err(lost(method)),
            _ => answer,
        }
    }

    async fn pass_gate(&self, step: impl FnOnce() -> Step) {
        if self.engine.is_some() {
            self.watch.gate.pass(step).await;
        }
    }
}

/// As SIGKILL would: what comes after this await never happens.
async fn die<T>(life: &Life) -> T {
    life.kill();
    std::future::pending().await
}

fn lost(method: &'static str) -> StoreError {
    StoreError::Unavailable {
        message: format!("{method}: the connection was lost on purpose"),
        source: None,
    }
}

macro_rules! watched {
    ($trait:ident { $(fn $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)+ } $($rest:tt)*) => {
        #[async_trait]
        impl $trait for WatchedStore {
            $(
                async fn $method(&self, $($arg: $ty),*) -> StoreResult<$out> {
                    self.reach(stringify!($method), self.inner.$method($($arg),*)).await
                }
            )+
            $($rest)*
        }
    };
}

watched! { WorkerPort {
    fn claim_turns(claim: ClaimTurns) -> Vec<ClaimedTurn>;
    fn load_turns(run_ids: &[Uuid]) -> Vec<Option<ClaimedTurn>>;
    fn load_history(run_id: Uuid, after: i64) -> Option<History>;
    fn renew_runs(worker_id: &str, run_ids: &[Uuid], lease: Duration, now: Option<Timestamp>) -> Vec<bool>;
    fn release_runs(worker_id: &str, run_ids: &[Uuid]) -> ();
    fn waiting_types() -> WaitingTypes;
    fn claim_tasks(claim: ClaimTasks) -> Vec<ClaimedTask>;
    fn extend_leases(extensions: Vec<LeaseExtension>, now: Option<Timestamp>) -> Vec<LeaseState>;
    fn release_tasks(releases: Vec<TaskRelease>, now: Option<Timestamp>) -> Vec<bool>;
}
    async fn commit_turns(
        &self,
        turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        self.pass_gate(|| step_of(&turns)).await;
        self.watch.look_at_turns(&turns);
        self.reach("commit_turns", self.inner.commit_turns(turns, now)).await
    }

    async fn finish_tasks(
        &self,
        results: Vec<TaskResult>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        self.pass_gate(|| Step::Results { tasks: results.len() }).await;
        self.reach("finish_tasks", self.inner.finish_tasks(results, now)).await
    }

    async fn block_runs(
        &self,
        blocks: Vec<BlockRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        self.watch.look_at_blocks(&blocks);
        self.reach("block_runs", self.inner.block_runs(blocks, now)).await
    }
}

/// A driver's engine commits one turn at a time.
fn step_of(turns: &[TurnCommit]) -> Step {
    let events = turns.iter().flat_map(|turn| &turn.events);
    Step::Turn {
        run_id: turns.first().map_or(Uuid::nil(), |turn| turn.run_id),
        events: events
            .map(durable_core::WorkflowEvent::event_type)
            .collect(),
    }
}

watched! { WorkflowEventStore {
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
    fn list_audit(filter: AuditFilter, page: Page) -> Vec<AuditRecord>;
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

    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        let inner = Arc::new(self.inner.audited_view(notes)?);
        Ok(Some(Arc::new(Self {
            inner,
            watch: Arc::clone(&self.watch),
            engine: self.engine.clone(),
        })))
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.inner.dump().await
    }
}
