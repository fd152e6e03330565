//! The worker's port: what a worker process needs of a store, near or far.

use std::time::Duration;

use async_trait::async_trait;
use durable_core::Timestamp;
use uuid::Uuid;

use super::model::{
    BlockRun, ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, FinishOutcome, History,
    LeaseExtension, LeaseState, TaskRelease, TaskResult, TurnCommit, TurnOutcome, WaitingTypes,
};
use super::store::StoreResult;

/// What a worker process needs: claims, turns, results, leases.
///
/// Every method takes `now` for tests; absent, the database's clock decides. Every set-based
/// method answers one outcome per item, in the order asked. An error means that nothing of the
/// call was written, unless [`super::StoreError::is_outcome_unknown`] says otherwise.
#[async_trait]
pub trait WorkerPort: Send + Sync + 'static {
    /// Whether payloads are stored in another form than they are given in: how large they are there, and so whether they fit, is
    /// known only when they are handed over.
    fn encodes_payloads(&self) -> bool {
        false
    }

    /// Whether a turn may start its run ([`TurnCommit::start`]).
    fn starts_with_turns(&self) -> bool {
        true
    }

    /// Claims runs with a turn due: `ready_at` set, not over, of a hosted type and version, without an owner
    /// or with one whose time is up, and not blocked for this build. Within a shard the longest
    /// ready come first, then by id. Makes the caller their owner.
    ///
    /// Crash: the ownership runs out and others take over. Repeated: answers other runs; those of
    /// a lost answer come back when their time is up. Ownership is a hint: two owners do no harm,
    /// since a turn is accepted by sequence.
    async fn claim_turns(&self, claim: ClaimTurns) -> StoreResult<Vec<ClaimedTurn>>;

    /// Runs with the facts that wait for them, by id; None for one that does not exist. Writes nothing.
    async fn load_turns(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<ClaimedTurn>>>;

    /// The first events of a run with a sequence number above `after`, as stored, all iterations
    /// and epochs included; those of the current iteration are the ones above `history_start`. At
    /// most [`HISTORY_PAGE_EVENTS_MAX`](super::limits::HISTORY_PAGE_EVENTS_MAX), each while the
    /// bytes of those before it are below
    /// [`HISTORY_PAGE_BYTES_MAX`](super::limits::HISTORY_PAGE_BYTES_MAX); there are more where the
    /// last of them is below the run's `sequence` ([`super::whole_history`] reads all). None: no
    /// such run. Writes nothing.
    async fn load_history(&self, run_id: Uuid, after: i64) -> StoreResult<Option<History>>;

    /// Commits turns of any number of runs (one turn a run), each all or nothing and independent of its
    /// neighbours; see [`TurnCommit`] for when one is accepted and [`super::model::Next`] for what becomes of the run.
    ///
    /// What an accepted turn writes, in this order: the tasks it finished leave the queue (a failed one leaves a dead letter),
    /// cancelled activities and fired or cancelled timers go; where the run ends, continues as new or is reset, so do all its other
    /// tasks and timers; facts up to `facts_through` leave the inbox and their signals are marked;
    /// events are appended; timers are set; tasks are queued; the run's line moves up: the first of its
    /// sequential tasks, if it was in line, may be claimed now; messages to other runs are written (children,
    /// then signals, then the news for the parent and the children of a run that ends);
    /// updates are answered (those still open when the run ends fail); attributes, outbox, log lines, totals; the run itself.
    ///
    /// Crash: all or nothing for each turn. Repeated with the same turn ids: nothing is written
    /// twice, and the answer is `Committed` with `repeated` set, as long as the turn is the run's last.
    async fn commit_turns(
        &self,
        turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>>;

    /// Notes that a build could not turn these runs; claims of that build pass over them from now on. True: noted.
    /// False: the run has gone on, ended or does not exist. The next committed turn clears it. Gives ownership up.
    async fn block_runs(
        &self,
        blocks: Vec<BlockRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>>;

    /// Renews ownership of runs. False: not this worker's any more, or a turn is due: an owner that was told takes it, and one that was not
    /// must not keep the run from the others by renewing.
    async fn renew_runs(
        &self,
        worker_id: &str,
        run_ids: &[Uuid],
        lease: Duration,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>>;

    /// Gives ownership of runs up; those of others are left alone.
    async fn release_runs(&self, worker_id: &str, run_ids: &[Uuid]) -> StoreResult<()>;

    /// Which types wait to be claimed, whoever may claim them: what a worker asks that takes any. Changes nothing.
    async fn waiting_types(&self) -> StoreResult<WaitingTypes>;

    /// Claims pending tasks of the given types: by priority from the largest, then `visible_at`, then id, within a shard.
    /// Counts an attempt and a delivery for each.
    ///
    /// Crash, or a lost answer: the leases run out and [`super::WorkflowEventStore::reap_leases`] takes the tasks back.
    async fn claim_tasks(&self, claim: ClaimTasks) -> StoreResult<Vec<ClaimedTask>>;

    /// Stores results of attempts, fences checked in the same commit; the run's line moves up when a task leaves the queue.
    ///
    /// A final outcome is a fact in the run's inbox. A failure is retried by the task's own policy (it keeps its place in
    /// the line meanwhile); when no attempt is left, or the failure is not retryable, a dead letter is written in the same commit,
    /// and the task's policy decides whether the run sees it ([`durable_core::ExhaustedPolicy::Fail`]) or goes on waiting (`Park`: the
    /// task stays, as `Dead`). An answer sets deliveries back to 0.
    ///
    /// Crash: all or nothing for each result. Repeated: the lease is gone, so the answer is `LeaseLost`
    /// and nothing is written twice; either way the worker is done with the task.
    async fn finish_tasks(
        &self,
        results: Vec<TaskResult>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<FinishOutcome>>;

    /// Extends leases and records heartbeats. A lease that has run out but was not taken back yet is extended.
    /// Repeated: extends again.
    async fn extend_leases(
        &self,
        extensions: Vec<LeaseExtension>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<LeaseState>>;

    /// Gives tasks back unrun: neither attempt nor delivery counts. They may be claimed at once, or are parked: held back for a
    /// time, in their place in the line, until [`super::WorkflowEventStore::fire_due`] finds it has passed.
    /// False: the lease was lost before.
    ///
    /// Repeated: the lease is gone, so the answer is false and a task that was parked stays parked as it was.
    async fn release_tasks(
        &self,
        releases: Vec<TaskRelease>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>>;
}
