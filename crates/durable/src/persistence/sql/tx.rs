//! The seam between the rules and a SQL database.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::rows::{
    Changes, EndedAt, Load, Loaded, OldRows, Picked, PurgeRecord, Purgeable, RegistryWrite, Slice,
    SliceLimit, TaskFound, Touched,
};
use crate::persistence::model::{
    Attributes, AuditFilter, AuditRecord, BreakerRecord, ClaimOutbox, ClaimTasks, ClaimTurns,
    ClaimedTurn, CountLimit, DeadLetter, DlqFilter, Dump, Glance, History, OutboxRecord, Page,
    RollupRecord, RunCount, RunFilter, RunMark, RunPage, RunRecord, RunSummary, ScheduleFilter,
    ScheduleRecord, StepLogFilter, StepLogPage, StoreCounts, TaskFilter, TaskRecord, UpdateRecord,
    WaitingTypes, WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::persistence::{Bell, Shards, StoreResult, Transactions};

/// One transaction, as the rules see it: coarse, set-based reads. What is to be written goes into [`Changes`].
///
/// Every statement on a run's tables names one shard. Rows are locked in key order, shard by shard.
pub trait Tx: Send {
    /// How many shards there are.
    fn shards(&self) -> Shards;

    /// The instant of this transaction: the one given, or the database's clock. The same at every call.
    fn now(&mut self) -> impl Future<Output = StoreResult<Timestamp>> + Send;

    /// Locks and reads, in the order of [`Load`]'s fields; one round trip where the database allows.
    fn load(&mut self, load: Load) -> impl Future<Output = StoreResult<Loaded>> + Send;

    /// Claims pending tasks of a shard and answers them as changed (attempt and delivery counted, lease set, in claim order).
    /// One statement; other claimers are not waited for.
    fn claim_tasks(
        &mut self,
        shard: i32,
        claim: &ClaimTasks,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<TaskRecord>>> + Send;

    /// Claims ready runs of a shard and answers them as changed (owner set), longest ready first, with their waiting facts.
    fn claim_turns(
        &mut self,
        shard: i32,
        claim: &ClaimTurns,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<ClaimedTurn>>> + Send;

    /// Claims due outbox events of a shard and answers them as changed.
    fn claim_outbox(
        &mut self,
        shard: i32,
        claim: &ClaimOutbox,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<OutboxRecord>>> + Send;

    /// Carries out a write on a small table: one statement, or one for each row.
    fn write_registry(
        &mut self,
        write: &RegistryWrite,
    ) -> impl Future<Output = StoreResult<Touched>> + Send;

    /// Runs of a shard whose deadline has come, by (deadline, id), but for some runs. Not locked:
    /// load them and look again.
    fn due_runs(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> impl Future<Output = StoreResult<Vec<Uuid>>> + Send;

    /// Timers of a shard that are due, by (fire_at, run, timer id), but for those of some runs. Not
    /// locked.
    fn due_timers(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> impl Future<Output = StoreResult<Vec<(Uuid, String)>>> + Send;

    /// Tasks of a shard of which a clock has run out, by (timeout_at, id), but for those of some
    /// runs. Not locked.
    fn due_tasks(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> impl Future<Output = StoreResult<Vec<TaskFound>>> + Send;

    /// Leased tasks of a shard whose lease has run out, by (lease_expires_at, id), but for those of
    /// some runs. Not locked.
    fn expired_leases(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> impl Future<Output = StoreResult<Vec<TaskFound>>> + Send;

    /// The smallest run deadline (of runs that have not ended), timer or task timeout of all
    /// shards, as stored, but for those of some runs.
    fn next_due(
        &mut self,
        except: &[Uuid],
    ) -> impl Future<Output = StoreResult<Option<Timestamp>>> + Send;

    /// Messages of a shard, locked, by (sender, sequence_num, idx), but for those of some senders.
    /// Those locked by others are passed over, and so are those behind them of the same sender:
    /// what a run says arrives in the order in which it said it.
    fn pick_messages(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> impl Future<Output = StoreResult<Picked>> + Send;

    /// Runs, in all shards, whose parent this is, that have not ended and were not told yet that it
    /// has: by id, at most so many. Not locked.
    fn open_children(
        &mut self,
        parent: Uuid,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<Uuid>>> + Send;

    /// Looks at the first `max` runs of a shard that ended before, behind a place, and answers
    /// those that have neither messages nor outbox events on their way, locked. Runs that others
    /// have locked are passed over, and so are those whose deletion failed and is noted.
    fn purgeable_runs(
        &mut self,
        shard: i32,
        finished_before: Timestamp,
        behind: Option<EndedAt>,
        max: usize,
    ) -> impl Future<Output = StoreResult<Purgeable>> + Send;

    /// Whether messages or outbox events of a run are on their way.
    fn is_on_its_way(&mut self, run_id: Uuid) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Deleted runs of a shard whose rows are still to be deleted, locked; those locked by others
    /// are passed over. By when they are due.
    fn due_purges(
        &mut self,
        shard: i32,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<PurgeRecord>>> + Send;

    /// A deleted run whose rows are still to be deleted, locked.
    fn purge_of(
        &mut self,
        run_id: Uuid,
    ) -> impl Future<Output = StoreResult<Option<PurgeRecord>>> + Send;

    /// How many deletions of a shard failed at their last attempt; counts to `max`.
    fn stuck_purges(
        &mut self,
        shard: i32,
        max: usize,
    ) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Deletes rows that belong to deleted runs of a shard, of each kind at most so many. Also
    /// answers how far the events of which run are deleted, where the next slice needs to know.
    fn delete_belongings(
        &mut self,
        shard: i32,
        purges: &[PurgeRecord],
        limit: SliceLimit,
    ) -> impl Future<Output = StoreResult<(Slice, Vec<(Uuid, i64)>)>> + Send;

    /// Deletes old rows, of a shard where they have one, at most so many.
    fn delete_old(
        &mut self,
        rows: OldRows,
        shard: i32,
        before: Timestamp,
        limit: SliceLimit,
    ) -> impl Future<Output = StoreResult<Slice>> + Send;

    /// Looks at `runs` runs of a shard with events of earlier iterations, behind an id, and deletes
    /// those events that were appended before, at most so many. Answers where to go on; none: there
    /// are no more runs.
    fn delete_past(
        &mut self,
        shard: i32,
        before: Timestamp,
        behind: Option<Uuid>,
        runs: usize,
        limit: SliceLimit,
    ) -> impl Future<Output = StoreResult<(Slice, Option<Uuid>)>> + Send;

    /// Tombstones written before, oldest first.
    fn old_tombstones(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<(String, Uuid)>>> + Send;

    /// Deletes audit rows from before an instant, the oldest first, at most so many; answers how
    /// many.
    fn forget_audit(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Ticks taken before that nobody could take again: their schedule is gone, or it is not its last one and beyond what it makes up for.
    /// Oldest first.
    fn old_slots(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> impl Future<Output = StoreResult<Vec<(String, Uuid)>>> + Send;
}

/// One write of the contract: reads through a [`Tx`], decides by the rules, says what to write.
///
/// It may run several times (serialisation failures are retried), so it is data that can be read again.
pub trait Intent: Send + Sync + 'static {
    /// What the caller gets.
    type Answer: Send + 'static;

    /// The instant given by the caller.
    fn at(&self) -> Option<Timestamp>;

    /// Whether it waits for what another transaction has locked.
    fn patience(&self) -> Patience {
        Patience::Waits
    }

    /// Decides. Nothing but what is in the changes is written (the claims and small tables of [`Tx`] apart).
    fn plan<T: Tx>(
        &self,
        tx: &mut T,
    ) -> impl Future<Output = StoreResult<(Self::Answer, Changes)>> + Send;
}

/// How an intent meets what another transaction keeps locked. A database with one writer has no
/// such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It is tried again for a while, without a connection meanwhile.
    Waits,
    /// It hears soon which runs are locked, and leaves them out.
    None,
}

impl Patience {
    /// Of a set with so many items: one alone delays only itself.
    #[must_use]
    pub const fn of_set(items: usize) -> Self {
        if items > 1 { Self::None } else { Self::Waits }
    }
}

/// Which pool of connections serves a call (S0's pools per concern).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// Claims.
    Tasks,
    /// Turns, starts, signals: the reserve that must not be starved by claims.
    Events,
    /// Leases and results of tasks: small, and late ones cost work that was done already.
    Results,
    /// Worker registry, schedules, breakers, what waits at a glance.
    Registry,
    /// Lists, counts and the like: what people and dashboards ask for. They have a time limit and
    /// are cut off when the caller goes away, and nothing of the engine's own waits for them.
    Operators,
}

/// A SQL database: carries out intents, and answers reads that change nothing.
///
/// What processes write by themselves in small single-row tables (a worker's registration, a breaker's state, results recorded once) has no
/// rules to share and is written here directly. What operators write there is a [`RegistryWrite`], so that an audit row can go with it.
pub trait Database: Send + Sync + 'static {
    /// How many shards there are.
    fn shards(&self) -> Shards;

    /// One more listener's doorbell, if others can be heard.
    fn bell(&self) -> Option<Arc<dyn Bell>> {
        None
    }

    /// Transactions that user code may write in, if there is such a thing.
    fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        None
    }

    /// Contract.
    fn reside(&self, _worker_id: String) -> impl Future<Output = StoreResult<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Runs an intent in one transaction and applies its changes; all or nothing. Retries what the database asks to retry.
    fn write<I: Intent>(
        &self,
        concern: Concern,
        intent: I,
    ) -> impl Future<Output = StoreResult<I::Answer>> + Send;

    /// See the method of the same name in the contract, for this and all below.
    fn load_turns(
        &self,
        run_ids: Vec<Uuid>,
    ) -> impl Future<Output = StoreResult<Vec<Option<ClaimedTurn>>>> + Send;
    /// Contract.
    fn load_history(
        &self,
        run_id: Uuid,
        after: i64,
    ) -> impl Future<Output = StoreResult<Option<History>>> + Send;
    /// Contract.
    fn list_events(
        &self,
        run_id: Uuid,
        after: i64,
        limit: usize,
    ) -> impl Future<Output = StoreResult<Option<History>>> + Send;
    /// Contract.
    fn get_update(
        &self,
        run_id: Uuid,
        update_id: String,
    ) -> impl Future<Output = StoreResult<Option<UpdateRecord>>> + Send;
    /// Contract.
    fn get_run(&self, run_id: Uuid) -> impl Future<Output = StoreResult<Option<RunRecord>>> + Send;
    /// Contract.
    fn list_runs(
        &self,
        filter: RunFilter,
        page: Page,
    ) -> impl Future<Output = StoreResult<RunPage>> + Send;
    /// Contract.
    fn count_runs(
        &self,
        filter: RunFilter,
        limit: CountLimit,
    ) -> impl Future<Output = StoreResult<RunCount>> + Send;
    /// Contract, for each run once; those that exist, in no order.
    fn summarize_runs(
        &self,
        run_ids: Vec<Uuid>,
    ) -> impl Future<Output = StoreResult<Vec<RunSummary>>> + Send;
    /// Contract.
    fn get_dead_letter(
        &self,
        id: Uuid,
    ) -> impl Future<Output = StoreResult<Option<DeadLetter>>> + Send;
    /// Contract.
    fn get_attributes(&self, run_id: Uuid) -> impl Future<Output = StoreResult<Attributes>> + Send;
    /// Contract.
    fn list_tasks(
        &self,
        filter: TaskFilter,
        page: Page,
    ) -> impl Future<Output = StoreResult<Vec<TaskRecord>>> + Send;
    /// Contract.
    fn list_step_logs(
        &self,
        filter: StepLogFilter,
        page: Page,
    ) -> impl Future<Output = StoreResult<StepLogPage>> + Send;
    /// Contract.
    fn list_audit(
        &self,
        filter: AuditFilter,
        page: Page,
    ) -> impl Future<Output = StoreResult<Vec<AuditRecord>>> + Send;
    /// Contract.
    fn glance(&self, now: Option<Timestamp>) -> impl Future<Output = StoreResult<Glance>> + Send;
    /// Contract.
    fn waiting_types(&self) -> impl Future<Output = StoreResult<WaitingTypes>> + Send;
    /// Contract.
    fn counts(&self) -> impl Future<Output = StoreResult<StoreCounts>> + Send;
    /// Contract; the ids are unique.
    fn run_marks(
        &self,
        run_ids: Vec<Uuid>,
    ) -> impl Future<Output = StoreResult<BTreeMap<Uuid, RunMark>>> + Send;
    /// Contract; `at_most` is within its bounds.
    fn count_waiting(&self, at_most: u64) -> impl Future<Output = StoreResult<u64>> + Send;
    /// Contract.
    fn rollups(
        &self,
        from: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<RollupRecord>>> + Send;
    /// Contract.
    fn list_dlq(
        &self,
        filter: DlqFilter,
        page: Page,
    ) -> impl Future<Output = StoreResult<Vec<DeadLetter>>> + Send;
    /// Contract.
    fn get_schedule(
        &self,
        id: String,
    ) -> impl Future<Output = StoreResult<Option<ScheduleRecord>>> + Send;
    /// Contract.
    fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> impl Future<Output = StoreResult<Vec<ScheduleRecord>>> + Send;
    /// Contract.
    fn clock(&self, now: Option<Timestamp>) -> impl Future<Output = StoreResult<Timestamp>> + Send;
    /// Contract.
    fn due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> impl Future<Output = StoreResult<Vec<ScheduleRecord>>> + Send;
    /// Contract.
    fn register_worker(
        &self,
        worker: WorkerInfo,
        now: Option<Timestamp>,
    ) -> impl Future<Output = StoreResult<()>> + Send;
    /// Contract; each worker is named once, and those that are known are answered.
    fn worker_heartbeats(
        &self,
        beats: Vec<WorkerBeat>,
        now: Option<Timestamp>,
    ) -> impl Future<Output = StoreResult<BTreeMap<String, WorkerStatus>>> + Send;
    /// Contract.
    fn list_workers(
        &self,
        filter: WorkerFilter,
    ) -> impl Future<Output = StoreResult<Vec<WorkerInfo>>> + Send;
    /// Contract.
    fn stop_silent_workers(
        &self,
        silent_since: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<String>>> + Send;
    /// Contract.
    fn get_breaker(
        &self,
        key: String,
    ) -> impl Future<Output = StoreResult<Option<BreakerRecord>>> + Send;
    /// Contract.
    fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> impl Future<Output = StoreResult<bool>> + Send;
    /// Contract.
    fn list_breakers(&self) -> impl Future<Output = StoreResult<Vec<BreakerRecord>>> + Send;
    /// Contract.
    fn get_once(&self, key: String) -> impl Future<Output = StoreResult<Option<Payload>>> + Send;
    /// Contract.
    fn put_once(
        &self,
        key: String,
        result: Payload,
        now: Option<Timestamp>,
    ) -> impl Future<Output = StoreResult<Payload>> + Send;
    /// Contract.
    fn dump(&self) -> impl Future<Output = StoreResult<Dump>> + Send;
}
