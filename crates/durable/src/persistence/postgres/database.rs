//! The seam's other side: what [`crate::persistence::sql`] asks of a database.

use std::collections::BTreeMap;
use std::sync::Arc;

use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::Postgres;
use crate::persistence::model::{
    Attributes, AuditFilter, AuditRecord, BreakerRecord, ClaimedTurn, CountLimit, DeadLetter,
    DlqFilter, Dump, Glance, History, Page, RollupRecord, RunCount, RunFilter, RunMark, RunPage,
    RunRecord, RunSummary, ScheduleFilter, ScheduleRecord, StepLogFilter, StepLogPage, StoreCounts,
    TaskFilter, TaskRecord, UpdateRecord, WaitingTypes, WorkerBeat, WorkerFilter, WorkerInfo,
    WorkerStatus, cut,
};
use crate::persistence::sql::tx::{Concern, Database, Intent};
use crate::persistence::{Bell, Shards, StoreResult, Transactions};

impl Database for Postgres {
    fn shards(&self) -> Shards {
        self.shards
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.belfry.bell()
    }

    fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        Some(self.activity_transactions())
    }

    async fn write<I: Intent>(&self, concern: Concern, intent: I) -> StoreResult<I::Answer> {
        let _turn = match concern {
            Concern::Tasks => Some(self.pools.turn_to_claim().await?),
            Concern::Events | Concern::Results | Concern::Registry | Concern::Operators => None,
        };
        self.carry_out(concern, &intent).await
    }

    async fn load_turns(&self, run_ids: Vec<Uuid>) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        self.read_turns(&run_ids).await
    }

    async fn load_history(&self, run_id: Uuid, after: i64) -> StoreResult<Option<History>> {
        self.read_history(run_id, after).await
    }

    async fn list_events(
        &self,
        run_id: Uuid,
        after: i64,
        limit: usize,
    ) -> StoreResult<Option<History>> {
        self.read_event_page(run_id, after, limit).await
    }

    async fn get_update(
        &self,
        run_id: Uuid,
        update_id: String,
    ) -> StoreResult<Option<UpdateRecord>> {
        self.read_update(run_id, &update_id).await
    }

    async fn get_run(&self, run_id: Uuid) -> StoreResult<Option<RunRecord>> {
        self.read_run(run_id).await
    }

    async fn summarize_runs(&self, run_ids: Vec<Uuid>) -> StoreResult<Vec<RunSummary>> {
        self.read_summaries(&run_ids).await
    }

    async fn list_runs(&self, filter: RunFilter, page: Page) -> StoreResult<RunPage> {
        self.query_runs(&filter, page).await
    }

    async fn count_runs(&self, filter: RunFilter, limit: CountLimit) -> StoreResult<RunCount> {
        self.query_run_count(&filter, limit).await
    }

    async fn get_attributes(&self, run_id: Uuid) -> StoreResult<Attributes> {
        self.read_attributes(run_id).await
    }

    async fn list_tasks(&self, filter: TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
        self.query_tasks(&filter, page).await
    }

    async fn list_step_logs(&self, filter: StepLogFilter, page: Page) -> StoreResult<StepLogPage> {
        self.read_step_logs(filter, page).await
    }

    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
        self.query_audit(&filter, page).await
    }

    async fn glance(&self, now: Option<Timestamp>) -> StoreResult<Glance> {
        self.read_glance(now).await
    }

    async fn waiting_types(&self) -> StoreResult<WaitingTypes> {
        self.read_waiting_types().await
    }

    async fn counts(&self) -> StoreResult<StoreCounts> {
        self.read_counts().await
    }

    async fn run_marks(&self, run_ids: Vec<Uuid>) -> StoreResult<BTreeMap<Uuid, RunMark>> {
        self.read_marks(&run_ids).await
    }

    async fn count_waiting(&self, at_most: u64) -> StoreResult<u64> {
        self.read_waiting_count(at_most).await
    }

    async fn rollups(&self, from: Timestamp) -> StoreResult<Vec<RollupRecord>> {
        self.read_rollups(from).await
    }

    async fn get_dead_letter(&self, id: Uuid) -> StoreResult<Option<DeadLetter>> {
        self.read_letter(id).await
    }

    async fn list_dlq(&self, filter: DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>> {
        self.query_dlq(&filter, page).await
    }

    async fn get_schedule(&self, id: String) -> StoreResult<Option<ScheduleRecord>> {
        self.read_schedule(&id).await
    }

    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        self.read_schedules(&filter, page).await
    }

    async fn clock(&self, now: Option<Timestamp>) -> StoreResult<Timestamp> {
        match now {
            Some(now) => Ok(cut(now)),
            None => self.read_clock().await,
        }
    }

    async fn due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        self.read_due_schedules(max, now).await
    }

    async fn register_worker(&self, worker: WorkerInfo, now: Option<Timestamp>) -> StoreResult<()> {
        self.put_worker(&worker, now).await
    }

    async fn worker_heartbeats(
        &self,
        beats: Vec<WorkerBeat>,
        now: Option<Timestamp>,
    ) -> StoreResult<BTreeMap<String, WorkerStatus>> {
        self.beat_workers(&beats, now).await
    }

    async fn list_workers(&self, filter: WorkerFilter) -> StoreResult<Vec<WorkerInfo>> {
        self.read_workers(&filter).await
    }

    async fn stop_silent_workers(&self, silent_since: Timestamp) -> StoreResult<Vec<String>> {
        self.stop_workers(silent_since).await
    }

    async fn get_breaker(&self, key: String) -> StoreResult<Option<BreakerRecord>> {
        self.read_breaker(&key).await
    }

    async fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        self.put_breaker(&breaker, now).await
    }

    async fn list_breakers(&self) -> StoreResult<Vec<BreakerRecord>> {
        self.read_breakers().await
    }

    async fn get_once(&self, key: String) -> StoreResult<Option<Payload>> {
        self.read_once(&key).await
    }

    async fn put_once(
        &self,
        key: String,
        result: Payload,
        now: Option<Timestamp>,
    ) -> StoreResult<Payload> {
        self.record_once(&key, &result, now).await
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.read_dump().await
    }
}
