//! The seam to the rules: intents go to the writer, reads to the readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use durable_core::{Payload, Timestamp};
use futures_util::FutureExt as _;
use rusqlite::Connection;
use uuid::Uuid;

use super::apply::apply;
use super::db::Db;
use super::dump::dump;
use super::open::Sqlite;
use super::tables::{
    attributes, audit, breakers, counts, dead_letters, dedup, events, residents, rollups,
    run_lists, runs, schedules, step_logs, tasks, turn_claims, updates, workers,
};
use super::tx::SqliteTx;
use crate::persistence::limits::ROLLUP_ROWS_MAX;
use crate::persistence::model::{
    Attributes, AuditFilter, AuditRecord, BreakerRecord, ClaimedTurn, CountLimit, DeadLetter,
    DlqFilter, Dump, Glance, History, Page, RollupRecord, RunCount, RunFilter, RunMark, RunPage,
    RunRecord, RunSummary, ScheduleFilter, ScheduleRecord, StepLogFilter, StepLogPage, StoreCounts,
    TaskFilter, TaskRecord, UpdateRecord, WaitingTypes, WorkerBeat, WorkerFilter, WorkerInfo,
    WorkerStatus,
};
use crate::persistence::prefix::Prefix;
use crate::persistence::sql::tx::{Concern, Database, Intent};
use crate::persistence::trays::LocalBell;
use crate::persistence::{Bell, Shards, StoreResult};

impl Sqlite {
    /// Reads one snapshot.
    async fn read<A: Send + 'static>(
        &self,
        read: impl FnOnce(Db<'_>) -> StoreResult<A> + Send + 'static,
    ) -> StoreResult<A> {
        let shards = self.inner.shards;
        match &self.inner.readers {
            Some(readers) => readers.read(move |conn| read(Db { conn, shards })).await,
            None => self.change(read).await,
        }
    }

    /// Reads one snapshot for an operator: beside the engine's reads, within a time limit, and only
    /// as long as the caller waits for it.
    async fn look_up<A: Send + 'static>(
        &self,
        read: impl FnOnce(Db<'_>) -> StoreResult<A> + Send + 'static,
    ) -> StoreResult<A> {
        let shards = self.inner.shards;
        match &self.inner.operators {
            Some(readers) => readers.read(move |conn| read(Db { conn, shards })).await,
            None => self.change(read).await,
        }
    }

    /// Writes one of the small tables that have no rules.
    async fn change<A: Send + 'static>(
        &self,
        change: impl FnOnce(Db<'_>) -> StoreResult<A> + Send + 'static,
    ) -> StoreResult<A> {
        let shards = self.inner.shards;
        let work = move |conn: &mut Connection| change(Db { conn, shards });
        self.inner.writer.write(work).await
    }

    fn resolve(&self, now: Option<Timestamp>) -> Timestamp {
        self.inner.clock.resolve(now)
    }
}

impl Database for Sqlite {
    fn shards(&self) -> Shards {
        self.inner.shards
    }

    /// Among those of this process: no other one can open the file.
    fn bell(&self) -> Option<Arc<dyn Bell>> {
        Some(LocalBell::join(&self.inner.listeners))
    }

    async fn write<I: Intent>(&self, _concern: Concern, intent: I) -> StoreResult<I::Answer> {
        let shards = self.inner.shards;
        let clock = Arc::clone(&self.inner.clock);
        let work = move |conn: &mut Connection| {
            let mut tx = SqliteTx::new(conn, shards, &clock, intent.at());
            let planned = intent.plan(&mut tx).now_or_never();
            let (answer, changes) = planned.expect("SQLite answers at once")?;
            apply(tx.db(), &changes)?;
            Ok(answer)
        };
        self.inner.writer.write(work).await
    }

    async fn load_turns(&self, run_ids: Vec<Uuid>) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        self.read(move |db| {
            let mut prefix = Prefix::default();
            let turns = run_ids.iter();
            turns
                .map(|run_id| turn_claims::turn(db, *run_id, &mut prefix))
                .collect()
        })
        .await
    }

    async fn load_history(&self, run_id: Uuid, after: i64) -> StoreResult<Option<History>> {
        self.read(move |db| {
            let Some(run) = runs::get(db, run_id)? else {
                return Ok(None);
            };
            let events = events::history_page(db, run_id, after)?;
            Ok(Some(History { run, events }))
        })
        .await
    }

    async fn list_events(
        &self,
        run_id: Uuid,
        after: i64,
        limit: usize,
    ) -> StoreResult<Option<History>> {
        self.look_up(move |db| {
            let Some(run) = runs::get(db, run_id)? else {
                return Ok(None);
            };
            let events = events::page(db, run_id, after, limit)?;
            Ok(Some(History { run, events }))
        })
        .await
    }

    async fn get_update(
        &self,
        run_id: Uuid,
        update_id: String,
    ) -> StoreResult<Option<UpdateRecord>> {
        self.read(move |db| updates::get(db, run_id, &update_id))
            .await
    }

    async fn get_run(&self, run_id: Uuid) -> StoreResult<Option<RunRecord>> {
        self.read(move |db| runs::get(db, run_id)).await
    }

    async fn summarize_runs(&self, run_ids: Vec<Uuid>) -> StoreResult<Vec<RunSummary>> {
        self.read(move |db| run_lists::summaries(db, &run_ids))
            .await
    }

    async fn list_runs(&self, filter: RunFilter, page: Page) -> StoreResult<RunPage> {
        self.look_up(move |db| run_lists::list(db, &filter, page))
            .await
    }

    async fn count_runs(&self, filter: RunFilter, limit: CountLimit) -> StoreResult<RunCount> {
        self.look_up(move |db| run_lists::count(db, &filter, limit))
            .await
    }

    async fn get_attributes(&self, run_id: Uuid) -> StoreResult<Attributes> {
        self.read(move |db| attributes::of_run(db, run_id)).await
    }

    async fn list_tasks(&self, filter: TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
        self.look_up(move |db| tasks::list(db, &filter, page)).await
    }

    async fn list_step_logs(&self, filter: StepLogFilter, page: Page) -> StoreResult<StepLogPage> {
        self.look_up(move |db| step_logs::list(db, filter, page))
            .await
    }

    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
        self.look_up(move |db| audit::list(db, &filter, page)).await
    }

    async fn glance(&self, now: Option<Timestamp>) -> StoreResult<Glance> {
        let at = self.inner.clock.resolve(now);
        self.read(move |db| counts::glance(db, at)).await
    }

    async fn waiting_types(&self) -> StoreResult<WaitingTypes> {
        self.read(counts::waiting_types).await
    }

    async fn counts(&self) -> StoreResult<StoreCounts> {
        self.read(counts::all).await
    }

    async fn run_marks(&self, run_ids: Vec<Uuid>) -> StoreResult<BTreeMap<Uuid, RunMark>> {
        self.read(move |db| runs::marks(db, &run_ids)).await
    }

    async fn count_waiting(&self, at_most: u64) -> StoreResult<u64> {
        self.read(move |db| counts::waiting(db, at_most)).await
    }

    async fn rollups(&self, from: Timestamp) -> StoreResult<Vec<RollupRecord>> {
        self.read(move |db| rollups::since(db, from, ROLLUP_ROWS_MAX))
            .await
    }

    async fn get_dead_letter(&self, id: Uuid) -> StoreResult<Option<DeadLetter>> {
        self.look_up(move |db| dead_letters::by_id(db, id)).await
    }

    async fn list_dlq(&self, filter: DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>> {
        self.look_up(move |db| dead_letters::list(db, &filter, page))
            .await
    }

    async fn get_schedule(&self, id: String) -> StoreResult<Option<ScheduleRecord>> {
        self.read(move |db| schedules::get(db, &id)).await
    }

    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        self.look_up(move |db| schedules::list(db, &filter, page))
            .await
    }

    async fn clock(&self, now: Option<Timestamp>) -> StoreResult<Timestamp> {
        Ok(self.resolve(now))
    }

    async fn due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        let now = self.resolve(now);
        self.read(move |db| schedules::due(db, now, max)).await
    }

    async fn register_worker(&self, worker: WorkerInfo, now: Option<Timestamp>) -> StoreResult<()> {
        let now = self.resolve(now);
        self.change(move |db| workers::register(db, &worker, now))
            .await
    }

    async fn worker_heartbeats(
        &self,
        beats: Vec<WorkerBeat>,
        now: Option<Timestamp>,
    ) -> StoreResult<BTreeMap<String, WorkerStatus>> {
        let now = self.resolve(now);
        self.change(move |db| workers::heartbeats(db, beats, now))
            .await
    }

    async fn list_workers(&self, filter: WorkerFilter) -> StoreResult<Vec<WorkerInfo>> {
        self.read(move |db| workers::list(db, &filter)).await
    }

    async fn stop_silent_workers(&self, silent_since: Timestamp) -> StoreResult<Vec<String>> {
        self.change(move |db| workers::stop_silent(db, silent_since))
            .await
    }

    async fn get_breaker(&self, key: String) -> StoreResult<Option<BreakerRecord>> {
        self.read(move |db| breakers::get(db, &key)).await
    }

    async fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        let now = self.resolve(now);
        self.change(move |db| breakers::save(db, &breaker, now))
            .await
    }

    async fn list_breakers(&self) -> StoreResult<Vec<BreakerRecord>> {
        self.read(breakers::list).await
    }

    async fn get_once(&self, key: String) -> StoreResult<Option<Payload>> {
        self.read(move |db| dedup::get(db, &key)).await
    }

    async fn reside(&self, worker_id: String) -> StoreResult<()> {
        self.change(move |db| residents::add(db, &worker_id)).await
    }

    async fn put_once(
        &self,
        key: String,
        result: Payload,
        now: Option<Timestamp>,
    ) -> StoreResult<Payload> {
        let now = self.resolve(now);
        self.change(move |db| dedup::put(db, &key, &result, now))
            .await
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.read(dump).await
    }
}
