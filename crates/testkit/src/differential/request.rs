//! A store's calls and their answers as data: one variant for each method of the contract.

use std::time::Duration;

use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::model::{
    Attributes, BlockRun, BreakerRecord, ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTask,
    ClaimedTurn, CountLimit, DeadLetter, DeadLetterDecision, DecisionOutcome, DeleteOutcome,
    DlqFilter, FinishOutcome, FireDue, Fired, History, LeaseExtension, LeaseState, OutboxRecord,
    OutboxReport, Page, PurgeOld, PurgeRuns, PurgedOld, ReapLeases, ReapedTask, RelayMessages,
    Relayed, RollupRecord, RunCount, RunFilter, RunMark, RunPage, RunRecord, RunSummary,
    ScheduleFilter, ScheduleFire, ScheduleOutcome, ScheduleRecord, SendOutcome, SendSignal,
    SendUpdate, StartOutcome, StartRun, StepLogFilter, StepLogPage, StoreCounts, TaskFilter,
    TaskRecord, TaskRelease, TaskResult, TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome,
    UpdateRecord, WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use everruns_durable::persistence::{StoreError, WorkflowEventStore};
use uuid::Uuid;

macro_rules! requests {
    ($(
        $variant:ident { $($field:ident: $ty:ty),* } -> $out:ty =
        $name:literal |$store:ident, $now:pat_param| $call:expr;
    )+) => {
        /// One call of a store, with all its arguments but the instant.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Request { $($variant { $($field: $ty),* }),+ }

        /// What a store answered.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Answer {
            $($variant($out),)+
            /// The call failed: compared by the error's kind and text.
            Failed { kind: &'static str, text: String },
        }

        impl Request {
            /// Every method's name.
            #[cfg(test)]
            pub(crate) const METHODS: &'static [&'static str] = &[$($name),+];

            /// The method's name.
            pub(crate) const fn method(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name),+ }
            }

            /// Makes the call at the given instant.
            pub(crate) async fn send(&self, store: &dyn WorkflowEventStore, now: Timestamp) -> Answer {
                match self.clone() {$(
                    Self::$variant { $($field),* } => {
                        let ($store, $now) = (store, Some(now));
                        match $call.await {
                            Ok(answer) => Answer::$variant(answer),
                            Err(error) => Answer::failed(&error),
                        }
                    }
                )+}
            }
        }
    };
}

requests! {
    // ---- the worker's port
    ClaimTurns { claim: ClaimTurns } -> Vec<ClaimedTurn> = "claim_turns" |s, now| s.claim_turns(ClaimTurns { now, ..claim });
    LoadTurns { runs: Vec<Uuid> } -> Vec<Option<ClaimedTurn>> = "load_turns" |s, _| s.load_turns(&runs);
    LoadHistory { run: Uuid, after: i64 } -> Option<History> = "load_history" |s, _| s.load_history(run, after);
    CommitTurns { turns: Vec<TurnCommit> } -> Vec<TurnOutcome> = "commit_turns" |s, now| s.commit_turns(turns, now);
    BlockRuns { blocks: Vec<BlockRun> } -> Vec<bool> = "block_runs" |s, now| s.block_runs(blocks, now);
    RenewRuns { worker: String, runs: Vec<Uuid>, lease: Duration } -> Vec<bool> = "renew_runs" |s, now| s.renew_runs(&worker, &runs, lease, now);
    ReleaseRuns { worker: String, runs: Vec<Uuid> } -> () = "release_runs" |s, _| s.release_runs(&worker, &runs);
    ClaimTasks { claim: ClaimTasks } -> Vec<ClaimedTask> = "claim_tasks" |s, now| s.claim_tasks(ClaimTasks { now, ..claim });
    FinishTasks { results: Vec<TaskResult> } -> Vec<FinishOutcome> = "finish_tasks" |s, now| s.finish_tasks(results, now);
    ExtendLeases { extensions: Vec<LeaseExtension> } -> Vec<LeaseState> = "extend_leases" |s, now| s.extend_leases(extensions, now);
    ReleaseTasks { releases: Vec<TaskRelease> } -> Vec<bool> = "release_tasks" |s, now| s.release_tasks(releases, now);
    // ---- starts, signals, updates
    StartRuns { starts: Vec<StartRun> } -> Vec<StartOutcome> = "start_runs" |s, now| s.start_runs(starts, now);
    SendSignals { signals: Vec<SendSignal> } -> Vec<SendOutcome> = "send_signals" |s, now| s.send_signals(signals, now);
    SendUpdates { updates: Vec<SendUpdate> } -> Vec<SendOutcome> = "send_updates" |s, now| s.send_updates(updates, now);
    GetUpdate { run: Uuid, update: String } -> Option<UpdateRecord> = "get_update" |s, _| s.get_update(run, &update);
    TerminateRuns { runs: Vec<TerminateRun> } -> Vec<TerminateOutcome> = "terminate_runs" |s, now| s.terminate_runs(runs, now);
    // ---- what becomes due
    FireDue { due: FireDue } -> Fired = "fire_due" |s, now| s.fire_due(FireDue { now, ..due });
    ReapLeases { reap: ReapLeases } -> Vec<ReapedTask> = "reap_leases" |s, now| s.reap_leases(ReapLeases { now, ..reap });
    RelayMessages { relay: RelayMessages } -> Relayed = "relay_messages" |s, now| s.relay_messages(RelayMessages { now, ..relay });
    // ---- schedules
    PutSchedule { schedule: ScheduleRecord } -> () = "put_schedule" |s, _| s.put_schedule(schedule);
    SwapSchedule { seen: Option<Box<ScheduleRecord>>, schedule: Box<ScheduleRecord> } -> bool = "swap_schedule" |s, _| s.swap_schedule(seen.map(|seen| *seen), *schedule);
    GetSchedule { id: String } -> Option<ScheduleRecord> = "get_schedule" |s, _| s.get_schedule(&id);
    ListSchedules { filter: ScheduleFilter, page: Page } -> Vec<ScheduleRecord> = "list_schedules" |s, _| s.list_schedules(filter, page);
    DeleteSchedule { id: String } -> bool = "delete_schedule" |s, _| s.delete_schedule(&id);
    DueSchedules { max: usize } -> Vec<ScheduleRecord> = "due_schedules" |s, now| s.due_schedules(max, now);
    FireSchedules { fires: Vec<ScheduleFire> } -> Vec<ScheduleOutcome> = "fire_schedules" |s, now| s.fire_schedules(fires, now);
    // ---- workers
    RegisterWorker { worker: WorkerInfo } -> () = "register_worker" |s, now| s.register_worker(worker, now);
    WorkerHeartbeats { beats: Vec<WorkerBeat> } -> Vec<Option<WorkerStatus>> = "worker_heartbeats" |s, now| s.worker_heartbeats(beats, now);
    ListWorkers { filter: WorkerFilter } -> Vec<WorkerInfo> = "list_workers" |s, _| s.list_workers(filter);
    SetWorkerStatus { worker: String, status: WorkerStatus } -> bool = "set_worker_status" |s, _| s.set_worker_status(&worker, status);
    DeregisterWorker { worker: String } -> bool = "deregister_worker" |s, _| s.deregister_worker(&worker);
    StopSilentWorkers { silent_since: Timestamp } -> Vec<String> = "stop_silent_workers" |s, _| s.stop_silent_workers(silent_since);
    // ---- dead letters
    GetDeadLetter { id: Uuid } -> Option<DeadLetter> = "get_dead_letter" |s, _| s.get_dead_letter(id);
    ListDlq { filter: DlqFilter, page: Page } -> Vec<DeadLetter> = "list_dlq" |s, _| s.list_dlq(filter, page);
    DecideDeadLetter { run: Uuid, id: Uuid, decision: DeadLetterDecision } -> DecisionOutcome = "decide_dead_letter" |s, now| s.decide_dead_letter(run, id, decision, now);
    PurgeDlq { filter: DlqFilter, max: usize } -> u64 = "purge_dlq" |s, _| s.purge_dlq(filter, max);
    // ---- breakers, results recorded once, outbox
    GetBreaker { key: String } -> Option<BreakerRecord> = "get_breaker" |s, _| s.get_breaker(&key);
    SaveBreaker { breaker: BreakerRecord } -> bool = "save_breaker" |s, now| s.save_breaker(breaker, now);
    ListBreakers {} -> Vec<BreakerRecord> = "list_breakers" |s, _| s.list_breakers();
    ResetBreaker { key: String } -> bool = "reset_breaker" |s, _| s.reset_breaker(&key);
    GetOnce { key: String } -> Option<Payload> = "get_once" |s, _| s.get_once(&key);
    PutOnce { key: String, result: Payload } -> Payload = "put_once" |s, now| s.put_once(&key, result, now);
    ClaimOutbox { claim: ClaimOutbox } -> Vec<OutboxRecord> = "claim_outbox" |s, now| s.claim_outbox(ClaimOutbox { now, ..claim });
    FinishOutbox { reports: Vec<OutboxReport> } -> Vec<bool> = "finish_outbox" |s, now| s.finish_outbox(reports, now);
    // ---- reads
    GetRun { run: Uuid } -> Option<RunRecord> = "get_run" |s, _| s.get_run(run);
    ListRuns { filter: RunFilter, page: Page } -> RunPage = "list_runs" |s, _| s.list_runs(filter, page);
    CountRuns { filter: RunFilter, limit: CountLimit } -> RunCount = "count_runs" |s, _| s.count_runs(filter, limit);
    SummarizeRuns { runs: Vec<Uuid> } -> Vec<Option<RunSummary>> = "summarize_runs" |s, _| s.summarize_runs(&runs);
    GetAttributes { run: Uuid } -> Attributes = "get_attributes" |s, _| s.get_attributes(run);
    ListTasks { filter: TaskFilter, page: Page } -> Vec<TaskRecord> = "list_tasks" |s, _| s.list_tasks(filter, page);
    ListEvents { run: Uuid, after: i64, limit: usize } -> Option<History> = "list_events" |s, _| s.list_events(run, after, limit);
    ListStepLogs { filter: StepLogFilter, page: Page } -> StepLogPage = "list_step_logs" |s, _| s.list_step_logs(filter, page);
    Counts {} -> StoreCounts = "counts" |s, _| s.counts();
    RunMarks { runs: Vec<Uuid> } -> Vec<Option<RunMark>> = "run_marks" |s, _| s.run_marks(&runs);
    CountWaiting { at_most: u64 } -> u64 = "count_waiting" |s, _| s.count_waiting(at_most);
    Rollups { from: Timestamp } -> Vec<RollupRecord> = "rollups" |s, _| s.rollups(from);
    // ---- retention
    DeleteRun { run: Uuid } -> DeleteOutcome = "delete_run" |s, now| s.delete_run(run, now);
    PurgeOld { purge: PurgeOld } -> PurgedOld = "purge_old" |s, now| s.purge_old(PurgeOld { now, ..purge });
    PurgeRuns { purge: PurgeRuns } -> u64 = "purge_runs" |s, now| s.purge_runs(PurgeRuns { now, ..purge });
}

impl Answer {
    fn failed(error: &StoreError) -> Self {
        let kind = match error {
            StoreError::Conflict(_) => "Conflict",
            StoreError::LeaseLost(_) => "LeaseLost",
            StoreError::NotFound { .. } => "NotFound",
            StoreError::Invalid(_) => "Invalid",
            StoreError::Limit { .. } => "Limit",
            StoreError::RunFinished { .. } => "RunFinished",
            StoreError::Unavailable { .. } => "Unavailable",
            StoreError::Corrupt { .. } => "Corrupt",
            StoreError::Schema(_) => "Schema",
            StoreError::Open { .. } => "Open",
            _ => "another kind",
        };
        Self::Failed {
            kind,
            text: error.to_string(),
        }
    }
}
