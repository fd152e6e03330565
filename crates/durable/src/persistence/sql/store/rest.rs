//! The rest of the contract over any SQL database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use durable_core::{AttributeValue, Payload, Timestamp};
use uuid::Uuid;

use super::{SqlStore, keep};
use crate::persistence::audit::Noting;
use crate::persistence::limits::{COUNT_WAITING_MAX, PAGE_ROWS_MAX};
use crate::persistence::model::{
    Attributes, AuditFilter, AuditNotes, AuditRecord, BreakerRecord, ClaimOutbox, CountLimit,
    DeadLetter, DeadLetterDecision, DecisionOutcome, DeleteOutcome, DlqFilter, Dump, FireDue,
    Fired, Glance, History, OutboxRecord, OutboxReport, Page, PurgeOld, PurgeRuns, PurgedOld,
    ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount, RunFilter, RunMark,
    RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire, ScheduleOutcome, ScheduleRecord,
    SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun, StepLogFilter, StepLogPage,
    StoreCounts, TaskFilter, TaskRecord, TerminateOutcome, TerminateRun, UpdateRecord, WorkerBeat,
    WorkerFilter, WorkerInfo, WorkerStatus, cut,
};
use crate::persistence::sql::intents::dead_letters::DecideDeadLetter;
use crate::persistence::sql::intents::outbox::{ClaimOutboxOf, FinishOutbox};
use crate::persistence::sql::intents::registry::WriteRegistry;
use crate::persistence::sql::intents::schedules::{FireSchedules, SwapSchedule};
use crate::persistence::sql::intents::sends::{SendSignals, SendUpdates};
use crate::persistence::sql::intents::starts::StartRuns;
use crate::persistence::sql::intents::terminate::TerminateRuns;
use crate::persistence::sql::rows::RegistryWrite;
use crate::persistence::sql::tx::{Concern, Database};
use crate::persistence::{
    Asides, Bell, Shards, StoreResult, Transactions, WorkflowEventStore, check, limits,
};

#[async_trait]
impl<D: Database> WorkflowEventStore for SqlStore<D> {
    fn shards(&self) -> Shards {
        self.database.shards()
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.database.bell()
    }

    fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        self.database.transactions()
    }

    fn asides(&self) -> Option<Arc<Asides>> {
        Some(Arc::clone(&self.asides))
    }

    async fn reside(&self, worker_id: &str) -> StoreResult<()> {
        limits::check_id("worker id", worker_id)?;
        self.database.reside(worker_id.to_owned()).await
    }

    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        Ok(Some(Arc::new(self.view(Noting::new(notes)?))))
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
        self.write_noted(Concern::Events, StartRuns { starts, now })
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
        self.write_noted(Concern::Events, SendSignals { signals, now })
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
        self.write_noted(Concern::Events, SendUpdates { updates, now })
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
        self.write_noted(Concern::Events, TerminateRuns { runs, now })
            .await
    }

    async fn fire_due(&self, due: FireDue) -> StoreResult<Fired> {
        self.fire_all(due).await
    }

    async fn reap_leases(&self, reap: ReapLeases) -> StoreResult<Vec<ReapedTask>> {
        self.reap_all(reap).await
    }

    async fn relay_messages(&self, relay: RelayMessages) -> StoreResult<Relayed> {
        self.relay_all(relay).await
    }

    async fn put_schedule(&self, schedule: ScheduleRecord) -> StoreResult<()> {
        check::schedule(&schedule)?;
        let put = RegistryWrite::PutSchedule(cut_schedule(schedule));
        self.write_registry(put).await.map(drop)
    }

    async fn swap_schedule(
        &self,
        seen: Option<ScheduleRecord>,
        schedule: ScheduleRecord,
    ) -> StoreResult<bool> {
        check::swap(seen.as_ref(), &schedule)?;
        let schedule = cut_schedule(schedule);
        match seen {
            None => {
                let create = RegistryWrite::CreateSchedule(schedule);
                Ok(self.write_registry(create).await? > 0)
            }
            Some(seen) => {
                let intent = SwapSchedule { seen, schedule };
                self.write_noted(Concern::Registry, intent).await
            }
        }
    }

    async fn get_schedule(&self, id: &str) -> StoreResult<Option<ScheduleRecord>> {
        if !(is_storable(id)) {
            return Ok(None);
        }
        self.database.get_schedule(id.to_owned()).await
    }

    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        limits::check_page(page)?;
        self.database.list_schedules(filter, page).await
    }

    async fn delete_schedule(&self, id: &str) -> StoreResult<bool> {
        if !(is_storable(id)) {
            return Ok(false);
        }
        let delete = RegistryWrite::DeleteSchedule(id.to_owned());
        Ok(self.write_registry(delete).await? > 0)
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

    async fn worker_heartbeats(
        &self,
        beats: Vec<WorkerBeat>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<Option<WorkerStatus>>> {
        check::beats(&beats)?;
        let asked: Vec<String> = beats.iter().map(|beat| beat.worker_id.clone()).collect();
        let last: BTreeMap<String, WorkerBeat> = beats
            .into_iter()
            .filter(|beat| is_storable(&beat.worker_id))
            .map(|beat| (beat.worker_id.clone(), beat))
            .collect();
        if last.is_empty() {
            return Ok(vec![None; asked.len()]);
        }
        let beats = last.into_values().collect();
        let known = self.database.worker_heartbeats(beats, now).await?;
        Ok(asked.iter().map(|id| known.get(id).copied()).collect())
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
        let set = RegistryWrite::SetWorkerStatus(worker_id.to_owned(), status);
        Ok(self.write_registry(set).await? > 0)
    }

    async fn deregister_worker(&self, worker_id: &str) -> StoreResult<bool> {
        if !(is_storable(worker_id)) {
            return Ok(false);
        }
        let delete = RegistryWrite::DeleteWorker(worker_id.to_owned());
        Ok(self.write_registry(delete).await? > 0)
    }

    async fn stop_silent_workers(&self, silent_since: Timestamp) -> StoreResult<Vec<String>> {
        self.database.stop_silent_workers(cut(silent_since)).await
    }

    async fn get_dead_letter(&self, id: Uuid) -> StoreResult<Option<DeadLetter>> {
        self.database.get_dead_letter(id).await
    }

    async fn list_dlq(&self, filter: DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>> {
        limits::check_page(page)?;
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
        self.write_noted(Concern::Events, intent).await
    }

    async fn purge_dlq(&self, filter: DlqFilter, max: usize) -> StoreResult<u64> {
        if !(is_storable_option(filter.activity_type.as_deref())) {
            return Ok(0);
        }
        self.write_registry(RegistryWrite::PurgeLetters(filter, max))
            .await
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
        let delete = RegistryWrite::DeleteBreaker(key.to_owned());
        Ok(self.write_registry(delete).await? > 0)
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
            if max == 0 || OutboxRecord::are_enough(&events) {
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

    async fn summarize_runs(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<RunSummary>>> {
        limits::check_batch("the number of runs", run_ids.len())?;
        let unique: BTreeSet<Uuid> = run_ids.iter().copied().collect();
        let found = self.database.summarize_runs(unique.into_iter().collect());
        let found = found.await?.into_iter().map(|run| (run.id, run));
        let found: BTreeMap<Uuid, RunSummary> = found.collect();
        Ok(run_ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    async fn list_runs(&self, filter: RunFilter, page: Page) -> StoreResult<RunPage> {
        limits::check_page(page)?;
        if !(is_storable_filter(&filter)) {
            return Ok(RunPage::default());
        }
        self.database.list_runs(filter, page).await
    }

    async fn count_runs(&self, filter: RunFilter, limit: CountLimit) -> StoreResult<RunCount> {
        if !(is_storable_filter(&filter)) {
            return Ok(RunCount {
                count: 0,
                exact: true,
            });
        }
        self.database.count_runs(filter, limit).await
    }

    async fn get_attributes(&self, run_id: Uuid) -> StoreResult<Attributes> {
        self.database.get_attributes(run_id).await
    }

    async fn list_tasks(&self, filter: TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
        limits::check_page(page)?;
        if !(is_storable_option(filter.activity_type.as_deref())) {
            return Ok(Vec::new());
        }
        self.database.list_tasks(filter, page).await
    }

    async fn list_step_logs(&self, filter: StepLogFilter, page: Page) -> StoreResult<StepLogPage> {
        limits::check_page(page)?;
        self.database.list_step_logs(filter, page).await
    }

    async fn list_events(
        &self,
        run_id: Uuid,
        after: i64,
        limit: usize,
    ) -> StoreResult<Option<History>> {
        let limit = limit.min(PAGE_ROWS_MAX);
        self.database.list_events(run_id, after, limit).await
    }

    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
        limits::check_page(page)?;
        let texts = [&filter.actor, &filter.action, &filter.target_id];
        if !texts
            .into_iter()
            .all(|text| is_storable_option(text.as_deref()))
        {
            return Ok(Vec::new());
        }
        self.database.list_audit(filter, page).await
    }

    async fn glance(&self, now: Option<Timestamp>) -> StoreResult<Glance> {
        self.database.glance(now).await
    }

    async fn counts(&self) -> StoreResult<StoreCounts> {
        self.database.counts().await
    }

    async fn run_marks(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<RunMark>>> {
        limits::check_batch("the number of runs", run_ids.len())?;
        let unique: BTreeSet<Uuid> = run_ids.iter().copied().collect();
        if unique.is_empty() {
            return Ok(Vec::new());
        }
        let marks = self
            .database
            .run_marks(unique.into_iter().collect())
            .await?;
        Ok(run_ids.iter().map(|id| marks.get(id).copied()).collect())
    }

    async fn count_waiting(&self, at_most: u64) -> StoreResult<u64> {
        let at_most = at_most.clamp(1, COUNT_WAITING_MAX);
        self.database.count_waiting(at_most).await
    }

    async fn rollups(&self, from: Timestamp) -> StoreResult<Vec<RollupRecord>> {
        self.database.rollups(from).await
    }

    async fn purge_runs(&self, purge: PurgeRuns) -> StoreResult<u64> {
        self.purge_ended(purge).await
    }

    async fn purge_old(&self, purge: PurgeOld) -> StoreResult<PurgedOld> {
        self.purge_details(purge).await
    }

    async fn delete_run(&self, run_id: Uuid, now: Option<Timestamp>) -> StoreResult<DeleteOutcome> {
        self.delete_ended(run_id, now).await
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.database.dump().await
    }
}

impl<D: Database> SqlStore<D> {
    /// Answers how many rows it touched.
    async fn write_registry(&self, write: RegistryWrite) -> StoreResult<u64> {
        let touched = self
            .write_noted(Concern::Registry, WriteRegistry(write))
            .await?;
        Ok(touched.rows)
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
