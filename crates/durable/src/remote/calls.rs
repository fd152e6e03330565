//! The one table of the contract's methods: their names on the wire, their arguments and answers, and who may call them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::answerer::{Permit, answered};
use super::offers;
use super::store::RemoteStore;
use super::touch::Touches;
use super::wire::{Mistake, read};
use crate::hosting::Offers;
use crate::persistence::model::{
    Attributes, AuditFilter, AuditRecord, Awaited, BlockRun, BreakerRecord, ClaimOutbox,
    ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, CountLimit, DeadLetter, DeadLetterDecision,
    DecisionOutcome, DeleteOutcome, DlqFilter, Dump, FinishOutcome, FireDue, Fired, Glance,
    History, HostedType, LeaseExtension, LeaseState, OutboxRecord, OutboxReport, Page, PurgeOld,
    PurgeRuns, PurgedOld, ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount,
    RunFilter, RunMark, RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire,
    ScheduleOutcome, ScheduleRecord, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun,
    StepLogFilter, StepLogPage, StoreCounts, TaskFilter, TaskRecord, TaskRelease, TaskResult,
    TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome, UpdateRecord, WaitingTypes,
    WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::persistence::{Bell, Shards, StoreError, StoreResult, WorkerPort, WorkflowEventStore};

/// A method of the service, which is a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Door {
    /// Claims and finishes work.
    Work,
    /// Reads.
    Read,
    /// Starts runs.
    Start,
    /// Sends signals and updates.
    Signal,
    /// Mends, and does a store's chores.
    Operate,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Work,
        Self::Read,
        Self::Start,
        Self::Signal,
        Self::Operate,
    ];

    /// The method's name in the service.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work => "Work",
            Self::Read => "Read",
            Self::Start => "Start",
            Self::Signal => "Signal",
            Self::Operate => "Operate",
        }
    }

    /// Reads the name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|door| door.name() == name)
    }
}

/// A borrowed argument is kept on the other side: `&str as String`.
macro_rules! kept {
    ($ty:ty) => {
        $ty
    };
    ($ty:ty as $kept:ty) => {
        $kept
    };
}

macro_rules! lent {
    ($arg:ident) => {
        $arg
    };
    ($arg:ident as $kept:ty) => {
        &*$arg
    };
}

/// From the table: the names, the doors, the caller's side ([`RemoteStore`]) and the server's ([`carry_out`]).
macro_rules! contract {
    ($(
        $trait:ident {
            $(fn $method:ident($($arg:ident: $ty:ty $(as $kept:ty)?),*) -> $out:ty => $($door:ident)|+;)+
        }
        $(+ { $($rest:tt)* })?
    )+) => {
        /// A method of the contract.
        #[allow(non_camel_case_types, reason = "they are the contract's own names")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "said where the contract is")]
        pub enum Method { $($($method),+),+ }

        impl Method {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($(Self::$method),+),+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$method => stringify!($method)),+),+ }
            }

            /// The doors that lead to it; the caller takes the first that it may use.
            #[must_use]
            pub const fn doors(self) -> &'static [Door] {
                match self { $($(Self::$method => &[$(Door::$door),+]),+),+ }
            }
        }

        $(
            #[async_trait]
            impl $trait for RemoteStore {
                $(
                    async fn $method(&self, $($arg: $ty),*) -> StoreResult<$out> {
                        $($arg.check()?;)*
                        #[allow(unused_mut, reason = "some have no arguments")]
                        let mut touched = Vec::new();
                        $($arg.touches(&mut touched);)*
                        let door = self.line.door(Method::$method, &touched);
                        drop(touched);
                        self.line.call(door, Method::$method, &($($arg,)*)).await
                    }
                )+
                $($($rest)*)?
            }
        )+

        /// Does what a call asks for, once the permit has seen what it touches.
        pub(super) async fn carry_out(
            store: &dyn WorkflowEventStore,
            method: Method,
            body: &[u8],
            permit: &dyn Permit,
        ) -> Result<Vec<u8>, Mistake> {
            match method {
                $($(
                    Method::$method => {
                        #[allow(clippy::unused_unit, reason = "some have no arguments")]
                        let ($($arg,)*): ($(kept!($ty $(as $kept)?),)*) = read(method.name(), body)?;
                        #[allow(unused_mut, reason = "some have no arguments")]
                        let mut touched = Vec::new();
                        $($arg.touches(&mut touched);)*
                        if let Err(error) = permit.permit(method, &touched).await {
                            return Ok(answered::<$out>(Err(error)));
                        }
                        drop(touched);
                        Ok(answered::<$out>(store.$method($(lent!($arg $(as $kept)?)),*).await))
                    }
                )+)+
            }
        }
    };
}

contract! {
    WorkerPort {
        fn claim_turns(claim: ClaimTurns) -> Vec<ClaimedTurn> => Work;
        fn load_turns(run_ids: &[Uuid] as Vec<Uuid>) -> Vec<Option<ClaimedTurn>> => Work | Read;
        fn load_history(run_id: Uuid, after: i64) -> Option<History> => Work | Read;
        // A turn that resets its run is an operator's (`Line::door` says which way it goes).
        fn commit_turns(turns: Vec<TurnCommit>, now: Option<Timestamp>) -> Vec<TurnOutcome> => Work | Operate;
        fn block_runs(blocks: Vec<BlockRun>, now: Option<Timestamp>) -> Vec<bool> => Work;
        fn renew_runs(worker_id: &str as String, run_ids: &[Uuid] as Vec<Uuid>, lease: Duration, now: Option<Timestamp>) -> Vec<bool> => Work;
        fn release_runs(worker_id: &str as String, run_ids: &[Uuid] as Vec<Uuid>) -> () => Work;
        fn waiting_types() -> WaitingTypes => Work;
        fn claim_tasks(claim: ClaimTasks) -> Vec<ClaimedTask> => Work;
        fn finish_tasks(results: Vec<TaskResult>, now: Option<Timestamp>) -> Vec<FinishOutcome> => Work;
        fn extend_leases(extensions: Vec<LeaseExtension>, now: Option<Timestamp>) -> Vec<LeaseState> => Work;
        fn release_tasks(releases: Vec<TaskRelease>, now: Option<Timestamp>) -> Vec<bool> => Work;
    }
    + {
        fn encodes_payloads(&self) -> bool {
            self.welcome.encodes_payloads
        }

        /// Who takes turns may not start runs.
        fn starts_with_turns(&self) -> bool {
            false
        }
    }

    WorkflowEventStore {
        fn clock(now: Option<Timestamp>) -> Timestamp => Work | Read;
        fn start_runs(starts: Vec<StartRun>, now: Option<Timestamp>) -> Vec<StartOutcome> => Start;
        fn send_signals(signals: Vec<SendSignal>, now: Option<Timestamp>) -> Vec<SendOutcome> => Signal;
        fn send_updates(updates: Vec<SendUpdate>, now: Option<Timestamp>) -> Vec<SendOutcome> => Signal;
        fn get_update(run_id: Uuid, update_id: &str as String) -> Option<UpdateRecord> => Read;
        fn terminate_runs(runs: Vec<TerminateRun>, now: Option<Timestamp>) -> Vec<TerminateOutcome> => Operate;
        fn fire_due(due: FireDue) -> Fired => Operate;
        fn reap_leases(reap: ReapLeases) -> Vec<ReapedTask> => Operate;
        fn relay_messages(relay: RelayMessages) -> Relayed => Operate;
        fn put_schedule(schedule: ScheduleRecord) -> () => Operate;
        fn swap_schedule(seen: Option<ScheduleRecord>, schedule: ScheduleRecord) -> bool => Operate;
        fn get_schedule(id: &str as String) -> Option<ScheduleRecord> => Read;
        fn list_schedules(filter: ScheduleFilter, page: Page) -> Vec<ScheduleRecord> => Read;
        fn delete_schedule(id: &str as String) -> bool => Operate;
        fn due_schedules(max: usize, now: Option<Timestamp>) -> Vec<ScheduleRecord> => Operate;
        fn fire_schedules(fires: Vec<ScheduleFire>, now: Option<Timestamp>) -> Vec<ScheduleOutcome> => Operate;
        fn register_worker(worker: WorkerInfo, now: Option<Timestamp>) -> () => Work;
        fn worker_heartbeats(beats: Vec<WorkerBeat>, now: Option<Timestamp>) -> Vec<Option<WorkerStatus>> => Work;
        fn list_workers(filter: WorkerFilter) -> Vec<WorkerInfo> => Work | Read;
        fn set_worker_status(worker_id: &str as String, status: WorkerStatus) -> bool => Work | Operate;
        fn deregister_worker(worker_id: &str as String) -> bool => Work | Operate;
        fn stop_silent_workers(silent_since: Timestamp) -> Vec<String> => Operate;
        fn get_dead_letter(id: Uuid) -> Option<DeadLetter> => Read;
        fn list_dlq(filter: DlqFilter, page: Page) -> Vec<DeadLetter> => Read;
        fn decide_dead_letter(run_id: Uuid, id: Uuid, decision: DeadLetterDecision, now: Option<Timestamp>) -> DecisionOutcome => Operate;
        fn purge_dlq(filter: DlqFilter, max: usize) -> u64 => Operate;
        fn get_breaker(key: &str as String) -> Option<BreakerRecord> => Work | Read;
        fn save_breaker(breaker: BreakerRecord, now: Option<Timestamp>) -> bool => Work | Operate;
        fn list_breakers() -> Vec<BreakerRecord> => Work | Read;
        fn reset_breaker(key: &str as String) -> bool => Operate;
        fn get_once(key: &str as String) -> Option<Payload> => Work;
        fn put_once(key: &str as String, result: Payload, now: Option<Timestamp>) -> Payload => Work;
        fn claim_outbox(claim: ClaimOutbox) -> Vec<OutboxRecord> => Operate;
        fn finish_outbox(reports: Vec<OutboxReport>, now: Option<Timestamp>) -> Vec<bool> => Operate;
        fn get_run(run_id: Uuid) -> Option<RunRecord> => Work | Read;
        fn await_run(run_id: Uuid, max: Duration) -> Awaited => Read;
        fn summarize_runs(run_ids: &[Uuid] as Vec<Uuid>) -> Vec<Option<RunSummary>> => Read;
        fn list_runs(filter: RunFilter, page: Page) -> RunPage => Read;
        fn count_runs(filter: RunFilter, limit: CountLimit) -> RunCount => Read;
        fn get_attributes(run_id: Uuid) -> Attributes => Read;
        fn list_tasks(filter: TaskFilter, page: Page) -> Vec<TaskRecord> => Read;
        fn list_step_logs(filter: StepLogFilter, page: Page) -> StepLogPage => Read;
        fn list_events(run_id: Uuid, after: i64, limit: usize) -> Option<History> => Read;
        fn glance(now: Option<Timestamp>) -> Glance => Work | Read;
        fn counts() -> StoreCounts => Work | Read;
        fn count_waiting(at_most: u64) -> u64 => Work | Read;
        fn run_marks(run_ids: &[Uuid] as Vec<Uuid>) -> Vec<Option<RunMark>> => Read;
        fn rollups(from: Timestamp) -> Vec<RollupRecord> => Read;
        fn purge_runs(purge: PurgeRuns) -> u64 => Operate;
        fn purge_old(purge: PurgeOld) -> PurgedOld => Operate;
        fn delete_run(run_id: Uuid, now: Option<Timestamp>) -> DeleteOutcome => Operate;
        fn dump() -> Dump => Operate;
    }
    + {
        fn shards(&self) -> Shards {
            self.welcome.shards
        }

        fn bell(&self) -> Option<Arc<dyn Bell>> {
            Some(self.belfry.bell(&self.line))
        }

        /// Its client there does.
        fn announces(&self) -> bool {
            true
        }

        fn offers(&self, types: BTreeSet<HostedType>) -> Option<Offers> {
            Some(offers::take(self.line.clone(), types))
        }

        /// Behind no door: who may read the audit is asked where it is served.
        async fn list_audit(&self, _: AuditFilter, _: Page) -> StoreResult<Vec<AuditRecord>> {
            let message = "a server's audit is not read through its store; ask GET /v1/durable/audit";
            Err(StoreError::Denied(message.to_owned()))
        }
    }
}

impl Method {
    /// Reads the name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|method| method.name() == name)
    }

    /// Whether it tells of, or touches, what its arguments do not name by type: nothing for a token that is limited to some types.
    #[must_use]
    pub const fn is_beyond_scopes(self) -> bool {
        matches!(
            self,
            Self::counts
                | Self::count_waiting
                | Self::rollups
                | Self::dump
                | Self::waiting_types
                // A letter's id alone does not say whose it is.
                | Self::get_dead_letter
                | Self::get_schedule
                | Self::list_schedules
                | Self::due_schedules
                | Self::delete_schedule
                | Self::reset_breaker
                | Self::stop_silent_workers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_name() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.name()), Some(*method));
        }
        for door in Door::ALL {
            assert_eq!(Door::parse(door.name()), Some(door));
        }
        assert_eq!(Method::parse("drop_tables"), None);
    }

    #[test]
    fn who_runs_tasks_can_call_the_whole_port_and_no_more_than_an_engine_needs() {
        let by_work = |method: &&Method| method.doors().contains(&Door::Work);
        let names: Vec<_> = Method::ALL
            .iter()
            .filter(by_work)
            .map(|m| m.name())
            .collect();
        let port_and_more = [
            "claim_turns",
            "load_turns",
            "load_history",
            "commit_turns",
            "block_runs",
            "renew_runs",
            "release_runs",
            "waiting_types",
            "claim_tasks",
            "finish_tasks",
            "extend_leases",
            "release_tasks",
            "clock",
            "register_worker",
            "worker_heartbeats",
            "list_workers",
            "set_worker_status",
            "deregister_worker",
            "get_breaker",
            "save_breaker",
            "list_breakers",
            "get_once",
            "put_once",
            "get_run",
            "glance",
            "counts",
            "count_waiting",
        ];
        assert_eq!(names, port_and_more);
    }
}
