//! The store, with somebody who counts at its door.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everruns_durable::core::{Payload, Timestamp};
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
    Asides, Bell, Shards, StoreResult, Transactions, WorkerPort, WorkflowEventStore,
};
use tonic::async_trait;
use uuid::Uuid;

use super::{Measures, open, requeues};

/// A store that counts what passes; it changes nothing.
pub struct MeasuredStore {
    inner: Arc<dyn WorkflowEventStore>,
    measures: Arc<Measures>,
}

impl MeasuredStore {
    /// Counts what passes to and from a store.
    #[must_use]
    pub fn new(inner: Arc<dyn WorkflowEventStore>, measures: Arc<Measures>) -> Self {
        Self { inner, measures }
    }
}

macro_rules! passed_on {
    ($trait:ident { $(fn $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)+ } $($rest:tt)*) => {
        #[async_trait]
        impl $trait for MeasuredStore {
            $(
                async fn $method(&self, $($arg: $ty),*) -> StoreResult<$out> {
                    self.inner.$method($($arg),*).await
                }
            )+
            $($rest)*
        }
    };
}

passed_on! { WorkerPort {
    fn claim_turns(claim: ClaimTurns) -> Vec<ClaimedTurn>;
    fn load_turns(run_ids: &[Uuid]) -> Vec<Option<ClaimedTurn>>;
    fn load_history(run_id: Uuid, after: i64) -> Option<History>;
    fn block_runs(blocks: Vec<BlockRun>, now: Option<Timestamp>) -> Vec<bool>;
    fn renew_runs(worker_id: &str, run_ids: &[Uuid], lease: Duration, now: Option<Timestamp>) -> Vec<bool>;
    fn release_runs(worker_id: &str, run_ids: &[Uuid]) -> ();
    fn waiting_types() -> WaitingTypes;
    fn extend_leases(extensions: Vec<LeaseExtension>, now: Option<Timestamp>) -> Vec<LeaseState>;
    fn release_tasks(releases: Vec<TaskRelease>, now: Option<Timestamp>) -> Vec<bool>;
}
    fn encodes_payloads(&self) -> bool {
        self.inner.encodes_payloads()
    }

    async fn claim_tasks(&self, claim: ClaimTasks) -> StoreResult<Vec<ClaimedTask>> {
        let begun = Instant::now();
        let tasks = self.inner.claim_tasks(claim).await?;
        self.measures.claimed(&tasks, begun.elapsed());
        Ok(tasks)
    }

    async fn commit_turns(
        &self,
        turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        let sizes = turns.iter().map(|turn| (turn.tasks.len(), turn.requeued_letters.len()));
        let sizes: Vec<_> = sizes.collect();
        let outcomes = self.inner.commit_turns(turns, now).await?;
        for (sizes, outcome) in sizes.into_iter().zip(&outcomes) {
            self.measures.turned(sizes, outcome);
        }
        Ok(outcomes)
    }

    async fn finish_tasks(
        &self,
        results: Vec<TaskResult>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        let outcomes = self.inner.finish_tasks(results, now).await?;
        let now = now.unwrap_or_else(Timestamp::now);
        for outcome in &outcomes {
            self.measures.finished(outcome, now);
        }
        Ok(outcomes)
    }
}

passed_on! { WorkflowEventStore {
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
    fn purge_dlq(filter: DlqFilter, max: usize) -> u64;
    fn get_breaker(key: &str) -> Option<BreakerRecord>;
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
    fn delete_run(run_id: Uuid, now: Option<Timestamp>) -> DeleteOutcome;
    fn dump() -> Dump;
}
    fn shards(&self) -> Shards {
        self.inner.shards()
    }

    fn asides(&self) -> Option<Arc<Asides>> {
        self.inner.asides()
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.inner.bell()
    }

    fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        self.inner.transactions()
    }

    async fn reside(&self, worker_id: &str) -> StoreResult<()> {
        self.inner.reside(worker_id).await
    }

    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        let view = self.inner.audited(notes)?;
        Ok(view.map(|inner| Arc::new(Self::new(inner, Arc::clone(&self.measures))) as _))
    }

    async fn purge_old(&self, purge: PurgeOld) -> StoreResult<PurgedOld> {
        let purged = self.inner.purge_old(purge).await?;
        self.measures.purged(&purged);
        Ok(purged)
    }

    async fn decide_dead_letter(
        &self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
        now: Option<Timestamp>,
    ) -> StoreResult<DecisionOutcome> {
        let requeue = requeues(&decision);
        let outcome = self.inner.decide_dead_letter(run_id, id, decision, now).await?;
        self.measures.decided(requeue, &outcome);
        Ok(outcome)
    }

    async fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        let open = open(&breaker);
        let saved = self.inner.save_breaker(breaker, now).await?;
        if let Some((key, at)) = open.filter(|_| saved) {
            self.measures.opened(key, at);
        }
        Ok(saved)
    }
}
