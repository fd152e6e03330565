//! The store contract: what of each call is encoded and what is decoded.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use futures_util::future::try_join_all;
use uuid::Uuid;

use super::CodecStore;
use crate::persistence::model::{
    Attributes, AuditFilter, AuditNotes, AuditRecord, Awaited, BlockRun, BreakerRecord,
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, CountLimit, DeadLetter,
    DeadLetterDecision, DecisionOutcome, DeleteOutcome, DlqFilter, Dump, FinishOutcome, FireDue,
    Fired, Glance, History, LeaseExtension, LeaseState, OutboxRecord, OutboxReport, Page, PurgeOld,
    PurgeRuns, PurgedOld, ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount,
    RunFilter, RunMark, RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire,
    ScheduleOutcome, ScheduleRecord, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun,
    StepLogFilter, StepLogPage, StoreCounts, TaskFilter, TaskRecord, TaskRelease, TaskResult,
    TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome, UpdateRecord, WaitingTypes,
    WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::persistence::{
    Asides, Bell, Shards, StoreResult, Transactions, WorkerPort, WorkflowEventStore, check,
};

/// `[encoded]` before an argument encodes it; what stands behind the arrow is done with the answer.
macro_rules! coded {
    ($trait:ident {
        $(fn $method:ident($($([$in:ident])? $arg:ident: $ty:ty),*) -> $out:ty => $answer:ident;)+
    } $($rest:tt)*) => {
        #[async_trait]
        impl $trait for CodecStore {
            $(
                async fn $method(&self, $($arg: $ty),*) -> StoreResult<$out> {
                    $($(let $arg = self.$in($arg).await?;)?)*
                    self.$answer(self.inner.$method($($arg),*).await?).await
                }
            )+
            $($rest)*
        }
    };
}

coded! { WorkerPort {
    fn claim_turns(claim: ClaimTurns) -> Vec<ClaimedTurn> => decoded_each;
    fn load_turns(run_ids: &[Uuid]) -> Vec<Option<ClaimedTurn>> => decoded_each;
    fn load_history(run_id: Uuid, after: i64) -> Option<History> => decoded;
    fn block_runs(blocks: Vec<BlockRun>, now: Option<Timestamp>) -> Vec<bool> => as_is;
    fn renew_runs(worker_id: &str, run_ids: &[Uuid], lease: Duration, now: Option<Timestamp>) -> Vec<bool> => as_is;
    fn release_runs(worker_id: &str, run_ids: &[Uuid]) -> () => as_is;
    fn waiting_types() -> WaitingTypes => as_is;
    fn claim_tasks(claim: ClaimTasks) -> Vec<ClaimedTask> => decoded_tasks;
    fn finish_tasks([encoded] results: Vec<TaskResult>, now: Option<Timestamp>) -> Vec<FinishOutcome> => as_is;
    fn extend_leases([encoded] extensions: Vec<LeaseExtension>, now: Option<Timestamp>) -> Vec<LeaseState> => as_is;
    fn release_tasks(releases: Vec<TaskRelease>, now: Option<Timestamp>) -> Vec<bool> => as_is;
}
    fn encodes_payloads(&self) -> bool {
        true
    }

    fn starts_with_turns(&self) -> bool {
        self.inner.starts_with_turns()
    }

    async fn commit_turns(
        &self,
        mut turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        let starts = turns.iter_mut().flat_map(|turn| {
            let children = turn.children.iter_mut().map(|child| &mut child.start);
            turn.start.as_deref_mut().into_iter().chain(children)
        });
        self.fingerprint(starts);
        self.inner.commit_turns(self.encoded(turns).await?, now).await
    }
}

coded! { WorkflowEventStore {
    fn clock(now: Option<Timestamp>) -> Timestamp => as_is;
    fn send_signals([encoded] signals: Vec<SendSignal>, now: Option<Timestamp>) -> Vec<SendOutcome> => as_is;
    fn send_updates([encoded] updates: Vec<SendUpdate>, now: Option<Timestamp>) -> Vec<SendOutcome> => as_is;
    fn get_update(run_id: Uuid, update_id: &str) -> Option<UpdateRecord> => decoded;
    fn terminate_runs(runs: Vec<TerminateRun>, now: Option<Timestamp>) -> Vec<TerminateOutcome> => as_is;
    fn fire_due(due: FireDue) -> Fired => as_is;
    fn reap_leases(reap: ReapLeases) -> Vec<ReapedTask> => as_is;
    fn relay_messages(relay: RelayMessages) -> Relayed => as_is;
    fn put_schedule([encoded] schedule: ScheduleRecord) -> () => as_is;
    fn get_schedule(id: &str) -> Option<ScheduleRecord> => decoded;
    fn list_schedules(filter: ScheduleFilter, page: Page) -> Vec<ScheduleRecord> => decoded_each;
    fn delete_schedule(id: &str) -> bool => as_is;
    fn due_schedules(max: usize, now: Option<Timestamp>) -> Vec<ScheduleRecord> => decoded_each;
    fn register_worker([encoded] worker: WorkerInfo, now: Option<Timestamp>) -> () => as_is;
    fn worker_heartbeats(beats: Vec<WorkerBeat>, now: Option<Timestamp>) -> Vec<Option<WorkerStatus>> => as_is;
    fn list_workers(filter: WorkerFilter) -> Vec<WorkerInfo> => decoded_each;
    fn set_worker_status(worker_id: &str, status: WorkerStatus) -> bool => as_is;
    fn deregister_worker(worker_id: &str) -> bool => as_is;
    fn stop_silent_workers(silent_since: Timestamp) -> Vec<String> => as_is;
    fn get_dead_letter(id: Uuid) -> Option<DeadLetter> => decoded;
    fn list_dlq(filter: DlqFilter, page: Page) -> Vec<DeadLetter> => decoded_each;
    fn decide_dead_letter(run_id: Uuid, id: Uuid, [encoded] decision: DeadLetterDecision, now: Option<Timestamp>) -> DecisionOutcome => as_is;
    fn purge_dlq(filter: DlqFilter, max: usize) -> u64 => as_is;
    fn get_breaker(key: &str) -> Option<BreakerRecord> => as_is;
    fn save_breaker(breaker: BreakerRecord, now: Option<Timestamp>) -> bool => as_is;
    fn list_breakers() -> Vec<BreakerRecord> => as_is;
    fn reset_breaker(key: &str) -> bool => as_is;
    fn get_once(key: &str) -> Option<Payload> => decoded;
    fn put_once(key: &str, [encoded] result: Payload, now: Option<Timestamp>) -> Payload => decoded;
    fn claim_outbox(claim: ClaimOutbox) -> Vec<OutboxRecord> => decoded_each;
    fn finish_outbox(reports: Vec<OutboxReport>, now: Option<Timestamp>) -> Vec<bool> => as_is;
    fn get_run(run_id: Uuid) -> Option<RunRecord> => decoded;
    fn await_run(run_id: Uuid, max: Duration) -> Awaited => decoded;
    fn summarize_runs(run_ids: &[Uuid]) -> Vec<Option<RunSummary>> => as_is;
    fn list_runs(filter: RunFilter, page: Page) -> RunPage => as_is;
    fn count_runs(filter: RunFilter, limit: CountLimit) -> RunCount => as_is;
    fn get_attributes(run_id: Uuid) -> Attributes => as_is;
    fn list_tasks(filter: TaskFilter, page: Page) -> Vec<TaskRecord> => decoded_each;
    fn list_step_logs(filter: StepLogFilter, page: Page) -> StepLogPage => decoded;
    fn list_events(run_id: Uuid, after: i64, limit: usize) -> Option<History> => decoded;
    fn list_audit(filter: AuditFilter, page: Page) -> Vec<AuditRecord> => as_is;
    fn glance(now: Option<Timestamp>) -> Glance => as_is;
    fn counts() -> StoreCounts => as_is;
    fn count_waiting(at_most: u64) -> u64 => as_is;
    fn run_marks(run_ids: &[Uuid]) -> Vec<Option<RunMark>> => as_is;
    fn rollups(from: Timestamp) -> Vec<RollupRecord> => as_is;
    fn purge_runs(purge: PurgeRuns) -> u64 => as_is;
    fn purge_old(purge: PurgeOld) -> PurgedOld => as_is;
    fn delete_run(run_id: Uuid, now: Option<Timestamp>) -> DeleteOutcome => as_is;
    fn dump() -> Dump => decoded_each;
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

    fn announces(&self) -> bool {
        self.inner.announces()
    }

    fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        self.encoding_transactions()
    }

    async fn reside(&self, worker_id: &str) -> StoreResult<()> {
        self.inner.reside(worker_id).await
    }

    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        let view = self.inner.audited(notes)?;
        let codec = Arc::clone(&self.codec);
        Ok(view.map(|view| Arc::new(Self::new(view, codec)) as _))
    }

    async fn start_runs(
        &self,
        mut starts: Vec<StartRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<StartOutcome>> {
        let known_as = self.known_as(&starts);
        self.fingerprint(&mut starts);
        let outcomes = self.inner.start_runs(self.encoded(starts).await?, now).await?;
        let recognised = outcomes.into_iter().zip(&known_as);
        try_join_all(recognised.map(|(outcome, known_as)| self.recognise(outcome, known_as))).await
    }

    /// The same value is encoded differently each time: it is compared decoded, and fenced by what is stored.
    async fn swap_schedule(
        &self,
        seen: Option<ScheduleRecord>,
        schedule: ScheduleRecord,
    ) -> StoreResult<bool> {
        check::swap(seen.as_ref(), &schedule)?;
        let stored = self.inner.get_schedule(&schedule.id).await?;
        if self.decoded(stored.clone()).await? != seen {
            return Ok(false);
        }
        let schedule = self.encoded(schedule).await?;
        self.inner.swap_schedule(stored, schedule).await
    }

    async fn fire_schedules(
        &self,
        mut fires: Vec<ScheduleFire>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleOutcome>> {
        self.fingerprint(fires.iter_mut().filter_map(|fire| fire.start.as_mut()));
        self.inner.fire_schedules(self.encoded(fires).await?, now).await
    }
}
