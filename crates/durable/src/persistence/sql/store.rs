//! The contract over any SQL database: checks at the edge, then the intents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{AttributeValue, Payload, Timestamp};
use uuid::Uuid;

use super::intents::claims::{ClaimTasksOf, ClaimTurnsOf};
use super::intents::commit_turns::CommitTurns;
use super::intents::dead_letters::DecideDeadLetter;
use super::intents::due::{FireShard, NextDue};
use super::intents::finish_tasks::FinishTasks;
use super::intents::leases::{ExtendLeases, ReapLeases as ReapShard, ReleaseTasks};
use super::intents::outbox::{ClaimOutboxOf, FinishOutbox};
use super::intents::ownership::{BlockRuns, RenewRuns};
use super::intents::relay::RelayShard;
use super::intents::retention::{PurgeShard, PurgeTombstones};
use super::intents::schedules::FireSchedules;
use super::intents::sends::{SendSignals, SendUpdates};
use super::intents::starts::StartRuns;
use super::intents::terminate::TerminateRuns;
use super::tx::{Concern, Database};
use crate::persistence::model::{
    Attributes, BlockRun, BreakerRecord, ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTask,
    ClaimedTurn, DeadLetter, DeadLetterDecision, DecisionOutcome, DlqFilter, Dump, FinishOutcome,
    FireDue, Fired, History, LeaseExtension, LeaseState, OutboxRecord, OutboxReport, Page,
    PurgeRuns, ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunFilter, RunRecord,
    ScheduleFire, ScheduleOutcome, ScheduleRecord, SendOutcome, SendSignal, SendUpdate,
    StartOutcome, StartRun, StepLogRecord, StoreCounts, TaskFilter, TaskRecord, TaskRelease,
    TaskResult, TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome, UpdateRecord, WorkerBeat,
    WorkerFilter, WorkerInfo, WorkerStatus, cut,
};
use crate::persistence::{
    Bell, Shards, StoreResult, WorkerPort, WorkflowEventStore, check, limits,
};

/// A store over a SQL database.
#[derive(Debug)]
pub struct SqlStore<D> {
    database: D,
}

impl<D: Database> SqlStore<D> {
    /// A store over this database.
    pub fn new(database: D) -> Self {
        Self { database }
    }

    /// The database itself.
    pub fn database(&self) -> &D {
        &self.database
    }
}

#[async_trait]
impl<D: Database> WorkerPort for SqlStore<D> {
    async fn claim_turns(&self, claim: ClaimTurns) -> StoreResult<Vec<ClaimedTurn>> {
        check::claim_turns(&claim)?;
        let mut turns = Vec::new();
        for shard in self.shards().from(claim.first_shard) {
            let max = claim.max - turns.len();
            if max == 0 {
                break;
            }
            let intent = ClaimTurnsOf {
                shard,
                claim: claim.clone(),
                max,
            };
            if !keep(
                &mut turns,
                self.database.write(Concern::Tasks, intent).await,
            )? {
                break;
            }
        }
        Ok(turns)
    }

    async fn load_turns(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        limits::check_batch("the number of runs", run_ids.len())?;
        // Each run is read once, however often it is asked for.
        let unique: BTreeSet<Uuid> = run_ids.iter().copied().collect();
        let unique: Vec<Uuid> = unique.into_iter().collect();
        let turns = self.database.load_turns(unique.clone()).await?;
        let of: BTreeMap<Uuid, Option<ClaimedTurn>> = unique.into_iter().zip(turns).collect();
        Ok(run_ids
            .iter()
            .map(|id| of.get(id).cloned().flatten())
            .collect())
    }

    async fn load_history(&self, run_id: Uuid, after: i64) -> StoreResult<Option<History>> {
        self.database.load_history(run_id, after).await
    }

    async fn commit_turns(
        &self,
        turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        check::turns(&turns)?;
        if turns.is_empty() {
            return Ok(Vec::new());
        }
        // One set per shard and commit is the unit; with one shard, that is the whole call.
        if self.shards().count() == 1 {
            return self
                .database
                .write(Concern::Events, CommitTurns { turns, now })
                .await;
        }
        let mut places = BTreeMap::<i32, Vec<usize>>::new();
        for (place, turn) in turns.iter().enumerate() {
            places
                .entry(self.shards().of_run(turn.run_id))
                .or_default()
                .push(place);
        }
        let mut turns: Vec<Option<TurnCommit>> = turns.into_iter().map(Some).collect();
        let mut outcomes: Vec<Option<TurnOutcome>> = vec![None; turns.len()];
        for places in places.into_values() {
            let set = places
                .iter()
                .filter_map(|place| turns[*place].take())
                .collect();
            let answers = self
                .database
                .write(Concern::Events, CommitTurns { turns: set, now })
                .await?;
            for (place, answer) in places.into_iter().zip(answers) {
                outcomes[place] = Some(answer);
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    async fn block_runs(
        &self,
        blocks: Vec<BlockRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::blocks(&blocks)?;
        self.database
            .write(Concern::Events, BlockRuns { blocks, now })
            .await
    }

    async fn renew_runs(
        &self,
        worker_id: &str,
        run_ids: &[Uuid],
        lease: Duration,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::lease(lease)?;
        limits::check_batch("the number of runs", run_ids.len())?;
        let (worker_id, run_ids) = (worker_id.to_owned(), run_ids.to_vec());
        let intent = RenewRuns {
            worker_id,
            run_ids,
            lease: Some(lease),
            now,
        };
        self.database.write(Concern::Events, intent).await
    }

    async fn release_runs(&self, worker_id: &str, run_ids: &[Uuid]) -> StoreResult<()> {
        limits::check_batch("the number of runs", run_ids.len())?;
        let (worker_id, run_ids) = (worker_id.to_owned(), run_ids.to_vec());
        let intent = RenewRuns {
            worker_id,
            run_ids,
            lease: None,
            now: None,
        };
        self.database.write(Concern::Events, intent).await.map(drop)
    }

    async fn claim_tasks(&self, claim: ClaimTasks) -> StoreResult<Vec<ClaimedTask>> {
        check::claim_tasks(&claim)?;
        let mut tasks = Vec::new();
        for shard in self.shards().from(claim.first_shard) {
            let max = claim.max - tasks.len();
            if max == 0 || claim.activity_types.is_empty() {
                break;
            }
            let intent = ClaimTasksOf {
                shard,
                claim: claim.clone(),
                max,
            };
            if !keep(
                &mut tasks,
                self.database.write(Concern::Tasks, intent).await,
            )? {
                break;
            }
        }
        Ok(tasks)
    }

    async fn finish_tasks(
        &self,
        results: Vec<TaskResult>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        check::results(&results)?;
        if results.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Results, FinishTasks { results, now })
            .await
    }

    async fn extend_leases(
        &self,
        extensions: Vec<LeaseExtension>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<LeaseState>> {
        check::extensions(&extensions)?;
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Results, ExtendLeases { extensions, now })
            .await
    }

    async fn release_tasks(
        &self,
        releases: Vec<TaskRelease>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::releases(&releases)?;
        if releases.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Results, ReleaseTasks { releases, now })
            .await
    }
}

#[async_trait]
impl<D: Database> WorkflowEventStore for SqlStore<D> {
    fn shards(&self) -> Shards {
        self.database.shards()
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.database.bell()
    }

    async fn clock(&self, now: Option<Timestamp>) -> StoreResult<Timestamp> {
        self.database.clock(now).await
    }

    async fn start_runs(
        &self,
        starts: Vec<StartRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<StartOutcome>> {
        check::starts(&starts)?;
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Events, StartRuns { starts, now })
            .await
    }

    async fn send_signals(
        &self,
        signals: Vec<SendSignal>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<SendOutcome>> {
        check::signals(&signals)?;
        if signals.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Events, SendSignals { signals, now })
            .await
    }

    async fn send_updates(
        &self,
        updates: Vec<SendUpdate>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<SendOutcome>> {
        check::updates(&updates)?;
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Events, SendUpdates { updates, now })
            .await
    }

    async fn get_update(&self, run_id: Uuid, update_id: &str) -> StoreResult<Option<UpdateRecord>> {
        if !(is_storable(update_id)) {
            return Ok(None);
        }
        self.database.get_update(run_id, update_id.to_owned()).await
    }

    async fn terminate_runs(
        &self,
        runs: Vec<TerminateRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TerminateOutcome>> {
        check::terminations(&runs)?;
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Events, TerminateRuns { runs, now })
            .await
    }

    async fn fire_due(&self, due: FireDue) -> StoreResult<Fired> {
        let mut fired = Fired::default();
        let mut ready = BTreeSet::new();
        for shard in self.shards().from(due.first_shard) {
            let intent = FireShard {
                shard,
                max: due.max,
                jitter: due.jitter,
                now: due.now,
            };
            let of_shard = self.database.write(Concern::Events, intent).await?;
            fired.timers += of_shard.timers;
            fired.tasks_ready += of_shard.tasks_ready;
            fired.tasks_timed_out += of_shard.tasks_timed_out;
            fired.runs_timed_out += of_shard.runs_timed_out;
            ready.extend(of_shard.ready_runs);
        }
        fired.ready_runs = ready.into_iter().collect();
        fired.next_due = self.database.write(Concern::Registry, NextDue).await?;
        Ok(fired)
    }

    async fn reap_leases(&self, reap: ReapLeases) -> StoreResult<Vec<ReapedTask>> {
        let mut reaped = Vec::new();
        for shard in self.shards().from(reap.first_shard) {
            let max = reap.max - reaped.len();
            if max == 0 {
                break;
            }
            let intent = ReapShard {
                shard,
                max,
                now: reap.now,
            };
            if !keep(
                &mut reaped,
                self.database.write(Concern::Events, intent).await,
            )? {
                break;
            }
        }
        Ok(reaped)
    }

    async fn relay_messages(&self, relay: RelayMessages) -> StoreResult<Relayed> {
        let mut relayed = Relayed::default();
        let (mut told, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for shard in self.shards().from(relay.first_shard) {
            let intent = RelayShard {
                shard,
                max: relay.max,
                now: relay.now,
            };
            let of_shard = self.database.write(Concern::Events, intent).await?;
            relayed.delivered += of_shard.delivered;
            relayed.dropped += of_shard.dropped;
            told.extend(of_shard.told);
            ended.extend(of_shard.ended);
        }
        relayed.ready_runs = told.difference(&ended).copied().collect();
        Ok(relayed)
    }

    async fn put_schedule(&self, schedule: ScheduleRecord) -> StoreResult<()> {
        check::schedule(&schedule)?;
        self.database.put_schedule(cut_schedule(schedule)).await
    }

    async fn get_schedule(&self, id: &str) -> StoreResult<Option<ScheduleRecord>> {
        if !(is_storable(id)) {
            return Ok(None);
        }
        self.database.get_schedule(id.to_owned()).await
    }

    async fn list_schedules(&self, page: Page) -> StoreResult<Vec<ScheduleRecord>> {
        self.database.list_schedules(page).await
    }

    async fn delete_schedule(&self, id: &str) -> StoreResult<bool> {
        if !(is_storable(id)) {
            return Ok(false);
        }
        self.database.delete_schedule(id.to_owned()).await
    }

    async fn due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        self.database.due_schedules(max, now).await
    }

    async fn fire_schedules(
        &self,
        fires: Vec<ScheduleFire>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleOutcome>> {
        check::fires(&fires)?;
        if fires.is_empty() {
            return Ok(Vec::new());
        }
        let fires = fires.into_iter().map(cut_fire).collect();
        self.database
            .write(Concern::Events, FireSchedules { fires, now })
            .await
    }

    async fn register_worker(&self, worker: WorkerInfo, now: Option<Timestamp>) -> StoreResult<()> {
        check::worker(&worker)?;
        self.database.register_worker(worker, now).await
    }

    async fn worker_heartbeat(
        &self,
        beat: WorkerBeat,
        now: Option<Timestamp>,
    ) -> StoreResult<Option<WorkerStatus>> {
        if !(is_storable(&beat.worker_id)) {
            return Ok(None);
        }
        check::beat(&beat)?;
        self.database.worker_heartbeat(beat, now).await
    }

    async fn list_workers(&self, filter: WorkerFilter) -> StoreResult<Vec<WorkerInfo>> {
        if !(is_storable_option(filter.worker_group.as_deref())) {
            return Ok(Vec::new());
        }
        self.database.list_workers(filter).await
    }

    async fn set_worker_status(&self, worker_id: &str, status: WorkerStatus) -> StoreResult<bool> {
        if !(is_storable(worker_id)) {
            return Ok(false);
        }
        self.database
            .set_worker_status(worker_id.to_owned(), status)
            .await
    }

    async fn deregister_worker(&self, worker_id: &str) -> StoreResult<bool> {
        if !(is_storable(worker_id)) {
            return Ok(false);
        }
        self.database.deregister_worker(worker_id.to_owned()).await
    }

    async fn stop_silent_workers(&self, silent_since: Timestamp) -> StoreResult<Vec<String>> {
        self.database.stop_silent_workers(cut(silent_since)).await
    }

    async fn list_dlq(&self, filter: DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>> {
        if !(is_storable_option(filter.activity_type.as_deref())) {
            return Ok(Vec::new());
        }
        self.database.list_dlq(filter, page).await
    }

    async fn decide_dead_letter(
        &self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
        now: Option<Timestamp>,
    ) -> StoreResult<DecisionOutcome> {
        check::decision(&decision)?;
        let intent = DecideDeadLetter {
            run_id,
            id,
            decision,
            now,
        };
        self.database.write(Concern::Events, intent).await
    }

    async fn purge_dlq(&self, filter: DlqFilter, max: usize) -> StoreResult<u64> {
        if !(is_storable_option(filter.activity_type.as_deref())) {
            return Ok(0);
        }
        self.database.purge_dlq(filter, max).await
    }

    async fn get_breaker(&self, key: &str) -> StoreResult<Option<BreakerRecord>> {
        if !(is_storable(key)) {
            return Ok(None);
        }
        self.database.get_breaker(key.to_owned()).await
    }

    async fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        check::breaker(&breaker)?;
        let breaker = BreakerRecord {
            opened_at: breaker.opened_at.map(cut),
            ..breaker
        };
        self.database.save_breaker(breaker, now).await
    }

    async fn list_breakers(&self) -> StoreResult<Vec<BreakerRecord>> {
        self.database.list_breakers().await
    }

    async fn reset_breaker(&self, key: &str) -> StoreResult<bool> {
        if !(is_storable(key)) {
            return Ok(false);
        }
        self.database.reset_breaker(key.to_owned()).await
    }

    async fn get_once(&self, key: &str) -> StoreResult<Option<Payload>> {
        if !(is_storable(key)) {
            return Ok(None);
        }
        self.database.get_once(key.to_owned()).await
    }

    async fn put_once(
        &self,
        key: &str,
        result: Payload,
        now: Option<Timestamp>,
    ) -> StoreResult<Payload> {
        limits::check_id("dedup key", key)?;
        limits::check_payload("result", &result)?;
        self.database.put_once(key.to_owned(), result, now).await
    }

    async fn claim_outbox(&self, claim: ClaimOutbox) -> StoreResult<Vec<OutboxRecord>> {
        check::lease(claim.lease)?;
        let mut events = Vec::new();
        for shard in self.shards().from(claim.first_shard) {
            let max = claim.max - events.len();
            if max == 0 {
                break;
            }
            let intent = ClaimOutboxOf {
                shard,
                claim: claim.clone(),
                max,
            };
            if !keep(
                &mut events,
                self.database.write(Concern::Registry, intent).await,
            )? {
                break;
            }
        }
        Ok(events)
    }

    async fn finish_outbox(
        &self,
        reports: Vec<OutboxReport>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::reports(&reports)?;
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .write(Concern::Events, FinishOutbox { reports, now })
            .await
    }

    async fn get_run(&self, run_id: Uuid) -> StoreResult<Option<RunRecord>> {
        self.database.get_run(run_id).await
    }

    async fn list_runs(&self, filter: RunFilter, page: Page) -> StoreResult<Vec<RunRecord>> {
        if !(is_storable_filter(&filter)) {
            return Ok(Vec::new());
        }
        self.database.list_runs(filter, page).await
    }

    async fn count_runs(&self, filter: RunFilter) -> StoreResult<u64> {
        if !(is_storable_filter(&filter)) {
            return Ok(0);
        }
        self.database.count_runs(filter).await
    }

    async fn get_attributes(&self, run_id: Uuid) -> StoreResult<Attributes> {
        self.database.get_attributes(run_id).await
    }

    async fn list_tasks(&self, filter: TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
        if !(is_storable_option(filter.activity_type.as_deref())) {
            return Ok(Vec::new());
        }
        self.database.list_tasks(filter, page).await
    }

    async fn list_step_logs(&self, run_id: Uuid, page: Page) -> StoreResult<Vec<StepLogRecord>> {
        self.database.list_step_logs(run_id, page).await
    }

    async fn counts(&self) -> StoreResult<StoreCounts> {
        self.database.counts().await
    }

    async fn rollups(&self, from: Timestamp) -> StoreResult<Vec<RollupRecord>> {
        self.database.rollups(from).await
    }

    async fn purge_runs(&self, purge: PurgeRuns) -> StoreResult<u64> {
        let mut purged = 0;
        for shard in self.shards().from(purge.first_shard) {
            let max = purge.max - usize::try_from(purged).unwrap_or(usize::MAX);
            if max == 0 {
                break;
            }
            let PurgeRuns {
                finished_before,
                now,
                ..
            } = purge;
            let intent = PurgeShard {
                shard,
                finished_before,
                max,
                now,
            };
            purged += self.database.write(Concern::Registry, intent).await?;
        }
        let tombstones = PurgeTombstones {
            max: limits::BATCH_ITEMS_MAX,
            now: purge.now,
        };
        self.database.write(Concern::Registry, tombstones).await?;
        Ok(purged)
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.database.dump().await
    }
}

/// Instants that a caller brings, as stores keep them.
fn cut_schedule(schedule: ScheduleRecord) -> ScheduleRecord {
    ScheduleRecord {
        next_fire_at: schedule.next_fire_at.map(cut),
        last_fire_at: schedule.last_fire_at.map(cut),
        created_at: cut(schedule.created_at),
        updated_at: cut(schedule.updated_at),
        ..schedule
    }
}

fn cut_fire(fire: ScheduleFire) -> ScheduleFire {
    ScheduleFire {
        nominal: cut(fire.nominal),
        next_fire_at: fire.next_fire_at.map(cut),
        ..fire
    }
}

/// Whether a text can be stored at all: PostgreSQL's cannot hold a NUL. What cannot be stored is not found.
fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

fn is_storable_option(text: Option<&str>) -> bool {
    text.is_none_or(is_storable)
}

fn is_storable_filter(filter: &RunFilter) -> bool {
    let attributes = filter.attributes.iter().all(|(name, value)| {
        is_storable(name) && !matches!(value, AttributeValue::Text(text) if !is_storable(text))
    });
    attributes
        && is_storable_option(filter.workflow_type.as_deref())
        && is_storable_option(filter.business_id.as_deref())
}

/// Adds what one shard gave. An error after other shards have given something does not take that back: it would be leased to nobody
/// until its time is up. False: stop here, the next call will meet the error again.
fn keep<T>(so_far: &mut Vec<T>, of_shard: StoreResult<Vec<T>>) -> StoreResult<bool> {
    match of_shard {
        Ok(more) => {
            so_far.extend(more);
            Ok(true)
        }
        Err(_) if !so_far.is_empty() => Ok(false),
        Err(error) => Err(error),
    }
}
