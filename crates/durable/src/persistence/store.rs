//! The rest of the store: starts, signals, what becomes due, operations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::model::{
    Attributes, AuditFilter, AuditNotes, AuditRecord, Awaited, BreakerRecord, ClaimOutbox,
    CountLimit, DeadLetter, DeadLetterDecision, DecisionOutcome, DeleteOutcome, DlqFilter, Dump,
    FireDue, Fired, Glance, History, HostedType, OutboxRecord, OutboxReport, Page, PurgeOld,
    PurgeRuns, PurgedOld, ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount,
    RunFilter, RunMark, RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire,
    ScheduleOutcome, ScheduleRecord, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun,
    StepLogFilter, StepLogPage, StoreCounts, TaskFilter, TaskRecord, TerminateOutcome,
    TerminateRun, UpdateRecord, WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::hosting::Offers;

use super::{Asides, Bell, Shards, StoreError, Transactions, WorkerPort};

/// The result of every store method.
pub type StoreResult<T> = Result<T, StoreError>;

/// A store: the worker's port and everything else the engine, its clients and its operators need.
///
/// The rules of [`WorkerPort`] about `now`, order of answers and errors hold here too.
/// S0's operations, by their names, are in [`super::SeedOperations`], for every store.
#[async_trait]
pub trait WorkflowEventStore: WorkerPort {
    /// How many shards the database has.
    fn shards(&self) -> Shards;

    /// A doorbell between those who share the database, in this process or others; each call answers one of its own, which hears all the
    /// others. None: others cannot be heard.
    fn bell(&self) -> Option<Arc<dyn Bell>> {
        None
    }

    /// Whether whoever carries out a start or a turn also tells those who take turns, or wait for them.
    fn announces(&self) -> bool {
        false
    }

    /// Runs of these types that others start through the same server, offered to this process before they are: it may take their first turns.
    /// None: nobody offers any. A store that wraps another and changes payloads has none, since they pass through it.
    fn offers(&self, _types: BTreeSet<HostedType>) -> Option<Offers> {
        None
    }

    /// Transactions in which an activity's own writes and its result commit as one. None: the store has none to share. A store that
    /// wraps another and changes payloads wraps this too, since results pass through it.
    fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        None
    }

    /// What this process has set aside because the store cannot handle it: due items and messages
    /// of single runs, which would otherwise stop those of all. None: the store sets nothing aside.
    fn asides(&self) -> Option<Arc<Asides>> {
        None
    }

    /// A view of this store for what somebody does to it: each item of a call that changes something leaves an audit row, in the same
    /// commit. None: the store keeps no audit.
    ///
    /// What operators do leaves rows: starts, signals, updates, terminations, turns (a reset is one), decisions about dead letters and
    /// their deletion, schedules, a worker's status, the reset of a breaker. The work of workers (claims, results, leases) and
    /// a store's chores (what becomes due, ticks, retention) leave none, through a view either. A call that is refused, or repeats what
    /// was done, leaves none.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] or [`StoreError::Limit`] for a note that cannot be stored.
    fn audited(&self, _notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        Ok(None)
    }

    /// This worker lives and dies with the process that has the store open. Where that is one process at a time, what the workers of
    /// the former one held is free as soon as the store is opened again; those who were only connected to it still hold what they have.
    async fn reside(&self, _worker_id: &str) -> StoreResult<()> {
        Ok(())
    }

    /// The store's clock, by which everything in it is dated; the given instant, where one is given. Processes' own clocks may
    /// disagree, so whoever has to know how late something is asks this one.
    async fn clock(&self, now: Option<Timestamp>) -> StoreResult<Timestamp>;

    // ---- starts, signals, updates -------------------------------------------------------------

    /// Starts runs, in order.
    ///
    /// First the idempotency key, then the run id, then the business id decides. A key (or run id) that a run has
    /// already answers `Existing` if the start is the same ([`StartRun::fingerprint`]), `KeyConflict` if not. With
    /// signals or updates (signal-with-start) the input is not compared, and they are delivered to the existing run,
    /// which also is looked for by business id: its last run, if that has not ended. A run that has ended takes none: `RunFinished`.
    /// The reuse policy looks at the last run with the business id.
    ///
    /// Crash: each start is all or nothing, its key included. Repeated: `Existing`. Any number of concurrent callers with one key get one run.
    async fn start_runs(
        &self,
        starts: Vec<StartRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<StartOutcome>>;

    /// Sends signals: each waits in its run's inbox as a `signal.received` fact. Refused by a run that has ended.
    ///
    /// Crash: all or nothing for each. Repeated: `Duplicate`, also after a turn has taken it.
    async fn send_signals(
        &self,
        signals: Vec<SendSignal>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<SendOutcome>>;

    /// Sends updates: each waits in its run's inbox as an `update.accepted` fact. Refused by a run that has ended.
    ///
    /// Crash: all or nothing for each. Repeated: `Duplicate`.
    async fn send_updates(
        &self,
        updates: Vec<SendUpdate>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<SendOutcome>>;

    /// An update and its answer.
    async fn get_update(&self, run_id: Uuid, update_id: &str) -> StoreResult<Option<UpdateRecord>>;

    /// Ends runs at once: status failed, error `WorkflowTerminated`. Signals that wait are appended to the history
    /// first, in order, so that none is lost; then the terminal event. Tasks, timers and other facts go; open updates fail;
    /// parent and children are told by messages.
    ///
    /// Crash: all or nothing for each. Repeated: `AlreadyFinished`.
    async fn terminate_runs(
        &self,
        runs: Vec<TerminateRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TerminateOutcome>>;

    // ---- what becomes due ---------------------------------------------------------------------

    /// Handles what is due, shard by shard: first runs past a deadline (failed with `ExecutionTimeout` or `RunTimeout`, the way
    /// [`Self::terminate_runs`] ends them), then timers (`timer.fired` facts), then tasks: delayed and parked ones may be claimed; a clock that ran out is a
    /// failed attempt, retried by the policy (start-to-close, heartbeat), or the end of the activity
    /// (`activity.timed_out` fact and a dead letter; policy `Park` holds here too). Each kind in order of its instant, then id.
    ///
    /// Crash: all or nothing for each item. Repeated, or by several at once: each item once, since it is checked again under its run's lock.
    async fn fire_due(&self, due: FireDue) -> StoreResult<Fired>;

    /// Takes back tasks whose lease has run out, by the end of the lease, then id: they may be claimed at once, the attempt does not count, the
    /// delivery does. One that was handed out [`super::limits::DELIVERIES_MAX`] times ends as a dead letter (`DeliveriesExhausted`).
    ///
    /// The lease is checked again under the run's lock, so that one extended meanwhile is left alone.
    async fn reap_leases(&self, reap: ReapLeases) -> StoreResult<Vec<ReapedTask>>;

    /// Delivers messages between runs, by sender, sequence number and index within a shard. A receiver that is gone, over, in another iteration
    /// or has the message already drops it. A child that cannot be started is told to its parent as `child.failed`.
    ///
    /// Crash: a message is delivered and removed in one commit. Several at once: each message once.
    async fn relay_messages(&self, relay: RelayMessages) -> StoreResult<Relayed>;

    // ---- schedules ----------------------------------------------------------------------------

    /// Creates a schedule or replaces it (all but `created_at`, `last_fire_at`, `last_run`).
    async fn put_schedule(&self, schedule: ScheduleRecord) -> StoreResult<()>;

    /// [`Self::put_schedule`] if the stored one still is as it was seen; none was seen: if there is none. False: somebody else changed, created or
    /// deleted it, ticks included, and nothing was written: read again.
    ///
    /// Repeated: false, since the first call changed it.
    async fn swap_schedule(
        &self,
        seen: Option<ScheduleRecord>,
        schedule: ScheduleRecord,
    ) -> StoreResult<bool>;

    /// A schedule.
    async fn get_schedule(&self, id: &str) -> StoreResult<Option<ScheduleRecord>>;

    /// Schedules by id, as [`ScheduleRecord::listed`] says: without their inputs.
    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> StoreResult<Vec<ScheduleRecord>>;

    /// Deletes a schedule. False: there was none.
    async fn delete_schedule(&self, id: &str) -> StoreResult<bool>;

    /// Schedules that are due and not paused, by `next_fire_at`, then id, as
    /// [`ScheduleRecord::listed`] says: without their inputs. The input of a schedule that fires is
    /// read with [`WorkflowEventStore::get_schedule`].
    async fn due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleRecord>>;

    /// Takes ticks of schedules: if the schedule is not paused and `next_fire_at` still is the nominal time, moves it on and starts the run,
    /// in one commit with the tick's own key. Whoever is second gets `Lost`.
    ///
    /// Crash: all or nothing for each. Repeated: `Lost`.
    async fn fire_schedules(
        &self,
        fires: Vec<ScheduleFire>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleOutcome>>;

    // ---- workers ------------------------------------------------------------------------------

    /// Registers a worker, or replaces what was known of it; `started_at` and `last_heartbeat_at` become now.
    async fn register_worker(&self, worker: WorkerInfo, now: Option<Timestamp>) -> StoreResult<()>;

    /// Signs of life of workers. Answers for each the status it should be in (an operator may have asked it to drain); None: it is not known,
    /// register again. Of a worker that is named twice the last sign counts.
    async fn worker_heartbeats(
        &self,
        beats: Vec<WorkerBeat>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<Option<WorkerStatus>>>;

    /// Workers by id, with the status as stored.
    async fn list_workers(&self, filter: WorkerFilter) -> StoreResult<Vec<WorkerInfo>>;

    /// Changes a worker's status (drain, stop). False: it is not known.
    async fn set_worker_status(&self, worker_id: &str, status: WorkerStatus) -> StoreResult<bool>;

    /// Forgets a worker. False: it was not known.
    async fn deregister_worker(&self, worker_id: &str) -> StoreResult<bool>;

    /// Marks workers as stopped that gave no sign since `silent_since`, and answers their ids, in order.
    async fn stop_silent_workers(&self, silent_since: Timestamp) -> StoreResult<Vec<String>>;

    // ---- dead letters -------------------------------------------------------------------------

    /// A dead letter by its id alone, whole.
    async fn get_dead_letter(&self, id: Uuid) -> StoreResult<Option<DeadLetter>>;

    /// Dead letters, newest death first, then by id, as [`DeadLetter::listed`] says: without
    /// payloads.
    async fn list_dlq(&self, filter: DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>>;

    /// Decides about a dead letter; the run's state is checked in the same commit. A run that waits (`Park`): its task is queued
    /// again in its place in the line, or the fact goes to its inbox. A run that saw the failure: only `Discard` can be done here.
    ///
    /// Crash: all or nothing. Repeated: `AlreadyDecided`.
    async fn decide_dead_letter(
        &self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
        now: Option<Timestamp>,
    ) -> StoreResult<DecisionOutcome>;

    /// Deletes dead letters, at most `max`, but none for which a run waits. Answers how many.
    async fn purge_dlq(&self, filter: DlqFilter, max: usize) -> StoreResult<u64>;

    // ---- breakers, dedup, outbox --------------------------------------------------------------

    /// A breaker.
    async fn get_breaker(&self, key: &str) -> StoreResult<Option<BreakerRecord>>;

    /// Saves a breaker if its stored version is `breaker.version` (0: it must not exist), and raises the version by one; `updated_at` becomes now. False: somebody else saved first.
    async fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool>;

    /// Breakers by key.
    async fn list_breakers(&self) -> StoreResult<Vec<BreakerRecord>>;

    /// Forgets a breaker, which closes it. False: there was none.
    async fn reset_breaker(&self, key: &str) -> StoreResult<bool>;

    /// The result recorded under a key.
    async fn get_once(&self, key: &str) -> StoreResult<Option<Payload>>;

    /// Records a result under a key unless there is one, and answers the recorded one: the first wins.
    async fn put_once(
        &self,
        key: &str,
        result: Payload,
        now: Option<Timestamp>,
    ) -> StoreResult<Payload>;

    /// Claims outbox events. Counts an attempt for each.
    async fn claim_outbox(&self, claim: ClaimOutbox) -> StoreResult<Vec<OutboxRecord>>;

    /// Stores how publishing went. False: the claim had passed on, nothing was written.
    async fn finish_outbox(
        &self,
        reports: Vec<OutboxReport>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>>;

    // ---- reads for operators ------------------------------------------------------------------

    /// A run.
    async fn get_run(&self, run_id: Uuid) -> StoreResult<Option<RunRecord>>;

    /// Waits for a run where that is nearer to it than here: answers it at once if it has ended or is blocked, as soon as something is heard
    /// of it, or when the time is up. Writes nothing.
    async fn await_run(&self, _run_id: Uuid, _max: Duration) -> StoreResult<Awaited> {
        Ok(Awaited::Here)
    }

    /// Runs by id, as lists show them; None for one that does not exist. No payload is read.
    async fn summarize_runs(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<RunSummary>>>;

    /// Runs, newest first; the limit is clamped to 1..=1000, and no payload is read.
    ///
    /// A store may stop before the page is full, after it has examined
    /// [`LIST_EXAMINED_MAX`](super::limits::LIST_EXAMINED_MAX) runs, and answers what it found
    /// until then: [`RunPage::partial`]. Following [`RunPage::next`] visits every run that matches.
    async fn list_runs(&self, filter: RunFilter, page: Page) -> StoreResult<RunPage>;

    /// How many runs. A capped count stops at [`COUNT_MAX`](super::limits::COUNT_MAX), or after it
    /// has examined [`LIST_EXAMINED_MAX`](super::limits::LIST_EXAMINED_MAX) runs, and says so.
    async fn count_runs(&self, filter: RunFilter, limit: CountLimit) -> StoreResult<RunCount>;

    /// A run's search attributes.
    async fn get_attributes(&self, run_id: Uuid) -> StoreResult<Attributes>;

    /// Queued tasks, as [`TaskRecord::listed`] says: without payloads.
    async fn list_tasks(&self, filter: TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>>;

    /// A run's log lines, by id; bounded in rows and bytes ([`StepLogPage`]).
    async fn list_step_logs(&self, filter: StepLogFilter, page: Page) -> StoreResult<StepLogPage>;

    /// The run with the first of its events above `after`, at most `limit`, at most
    /// [`PAGE_ROWS_MAX`](super::limits::PAGE_ROWS_MAX) and no further than
    /// [`PAGE_BYTES_MAX`](super::limits::PAGE_BYTES_MAX) of stored event data and payloads (the
    /// first event is always there), as [`super::WorkerPort::load_history`] has them; there are
    /// more where the last of them is below the run's `sequence`. None: no such run.
    async fn list_events(
        &self,
        run_id: Uuid,
        after: i64,
        limit: usize,
    ) -> StoreResult<Option<History>>;

    /// Audit rows, newest first, which is by id from the largest; the limit is clamped to 1..=1000.
    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>>;

    /// What waits, at a glance. One statement a shard: an idle process asks for nothing else.
    async fn glance(&self, now: Option<Timestamp>) -> StoreResult<Glance>;

    /// Where runs stand: one answer an id, in order, none for a run that does not exist. Reads
    /// neither payloads nor events, so that a follower of a run can ask again and again. At most
    /// [`BATCH_ITEMS_MAX`](super::limits::BATCH_ITEMS_MAX) ids.
    async fn run_marks(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<RunMark>>>;

    /// Counts open work for health and metrics. Reads at most a bounded number of rows for each
    /// figure, none of a run that has ended; ended runs are counted by
    /// [`WorkflowEventStore::rollups`].
    async fn counts(&self) -> StoreResult<StoreCounts>;

    /// Counts claimable tasks and runs that have not begun, together, and stops at `at_most`
    /// (clamped to 1..=[`COUNT_WAITING_MAX`](super::limits::COUNT_WAITING_MAX)).
    async fn count_waiting(&self, at_most: u64) -> StoreResult<u64>;

    /// Totals since `from`, in order, at most [`ROLLUP_ROWS_MAX`](super::limits::ROLLUP_ROWS_MAX)
    /// of them: the earliest.
    async fn rollups(&self, from: Timestamp) -> StoreResult<Vec<RollupRecord>>;

    // ---- retention and proof ------------------------------------------------------------------

    /// Deletes runs that ended before, by the instant of their end, then id, with all that belongs
    /// to them, and refuses their ids for [`super::limits::TOMBSTONE_DAYS`]. A run with messages or
    /// outbox events on their way is left for later. Answers how many. With less to do than `max`,
    /// limiters (breakers whose key begins with `limit:`) that were not saved for as long are
    /// forgotten too. Audit rows older than [`super::limits::AUDIT_DAYS`] go with each call, a
    /// bounded number of them, the oldest first.
    ///
    /// A run is gone for every call once its row is deleted and its tombstone written, in one small
    /// commit. Its events and other rows follow in slices with commits of their own, bounded in
    /// rows and bytes.
    ///
    /// Crash: a run is there or gone, never in part. Rows that are left are deleted by the next
    /// call of this, of [`Self::purge_old`] or of [`Self::delete_run`].
    async fn purge_runs(&self, purge: PurgeRuns) -> StoreResult<u64>;

    /// Deletes details by their age, at most `max` rows of each kind and shard, and goes on
    /// deleting the rows of runs that are gone. Totals are
    /// added up by the day, and by one row for all days older than [`super::limits::ROLLUP_DAYS`],
    /// so that their sums stay the same.
    ///
    /// Tombstones and audit rows whose time is over go too, as by [`Self::purge_runs`], at most
    /// [`super::limits::BATCH_ITEMS_MAX`] of each. [`PurgedOld::more`] says whether to call again.
    ///
    /// A signal or update whose row went may be sent again and counts as a new one.
    ///
    /// Crash: each slice is all or nothing; the next call goes on.
    async fn purge_old(&self, purge: PurgeOld) -> StoreResult<PurgedOld>;

    /// Deletes one run that has ended, with all that belongs to it, and refuses its id for
    /// [`super::limits::TOMBSTONE_DAYS`]. A run with very many rows answers
    /// [`DeleteOutcome::Deleting`]: call again until it is `Deleted`.
    ///
    /// Crash: as for [`Self::purge_runs`]. Repeated: `AlreadyDeleted`.
    async fn delete_run(&self, run_id: Uuid, now: Option<Timestamp>) -> StoreResult<DeleteOutcome>;

    /// Everything the store holds, in canonical form, read at one instant. For tests and the audit: it loads all of it.
    async fn dump(&self) -> StoreResult<Dump>;
}
