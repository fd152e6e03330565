//! The rest of the memory store: the edge, the lock, the call.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::MemoryStore;
use super::admin::page as cut_page;
use super::state::State;
use crate::persistence::audit;
use crate::persistence::limits::{PAGE_ROWS_MAX, ROLLUP_ROWS_MAX};
use crate::persistence::limits::{check_batch, check_id, check_page, check_payload};
use crate::persistence::model::cut;
use crate::persistence::model::{
    Attributes, AuditFilter, AuditNotes, AuditRecord, BreakerRecord, ClaimOutbox, CountLimit,
    DeadLetter, DeadLetterDecision, DecisionOutcome, DeleteOutcome, DlqFilter, Dump, FireDue,
    Fired, Glance, History, OutboxRecord, OutboxReport, Page, PurgeOld, PurgeRuns, PurgedOld,
    ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount, RunFilter, RunMark,
    RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire, ScheduleOutcome, ScheduleRecord,
    SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun, StepLogFilter, StepLogPage,
    StoreCounts, TaskFilter, TaskRecord, TerminateOutcome, TerminateRun, UpdateRecord, WorkerBeat,
    WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::persistence::trays::LocalBell;
use crate::persistence::{Bell, Shards, StoreResult, WorkflowEventStore, check};

#[async_trait]
impl WorkflowEventStore for MemoryStore {
    fn shards(&self) -> Shards {
        self.shards
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        Some(LocalBell::join(&self.listeners))
    }

    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        Ok(Some(Arc::new(self.audited_view(notes)?)))
    }

    // ---- starts, signals, updates -------------------------------------------------------------

    async fn clock(&self, now: Option<Timestamp>) -> StoreResult<Timestamp> {
        Ok(self.write_at(now, |_, now| now))
    }

    async fn start_runs(
        &self,
        starts: Vec<StartRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<StartOutcome>> {
        check::starts(&starts)?;
        let start = |state: &mut State, start, now| state.start_run(start, None, now);
        Ok(self.note_each(starts, now, start, audit::started))
    }

    async fn send_signals(
        &self,
        signals: Vec<SendSignal>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<SendOutcome>> {
        check::signals(&signals)?;
        Ok(
            self.note_each(signals, now, State::send_signal, |send, outcome, _| {
                audit::signalled(send, outcome)
            }),
        )
    }

    async fn send_updates(
        &self,
        updates: Vec<SendUpdate>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<SendOutcome>> {
        check::updates(&updates)?;
        Ok(
            self.note_each(updates, now, State::send_update, |send, outcome, _| {
                audit::updated(send, outcome)
            }),
        )
    }

    async fn get_update(&self, run_id: Uuid, update_id: &str) -> StoreResult<Option<UpdateRecord>> {
        Ok(self.read(|state| state.find(run_id)?.updates.get(update_id).cloned()))
    }

    async fn terminate_runs(
        &self,
        runs: Vec<TerminateRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TerminateOutcome>> {
        check::terminations(&runs)?;
        let end = |state: &mut State, run, now| state.terminate_run(&run, now);
        Ok(self.note_each(runs, now, end, |run, outcome, _| {
            audit::terminated(run, outcome)
        }))
    }

    // ---- what becomes due ---------------------------------------------------------------------

    async fn fire_due(&self, due: FireDue) -> StoreResult<Fired> {
        Ok(self.write_at(due.now, |state, now| state.fire_due(&due, now)))
    }

    async fn reap_leases(&self, reap: ReapLeases) -> StoreResult<Vec<ReapedTask>> {
        Ok(self.write_at(reap.now, |state, now| state.reap_leases(&reap, now)))
    }

    async fn relay_messages(&self, relay: RelayMessages) -> StoreResult<Relayed> {
        Ok(self.write_at(relay.now, |state, now| state.relay_messages(&relay, now)))
    }

    // ---- schedules ----------------------------------------------------------------------------

    async fn put_schedule(&self, schedule: ScheduleRecord) -> StoreResult<()> {
        check::schedule(&schedule)?;
        let change = audit::schedule_put(&schedule);
        self.note_at(
            None,
            |state, _| state.put_schedule(schedule),
            |()| Some(change),
        );
        Ok(())
    }

    async fn swap_schedule(
        &self,
        seen: Option<ScheduleRecord>,
        schedule: ScheduleRecord,
    ) -> StoreResult<bool> {
        check::swap(seen.as_ref(), &schedule)?;
        let change = audit::schedule_put(&schedule);
        Ok(self.note_at(
            None,
            |state, _| state.swap_schedule(seen.as_ref(), schedule),
            |swapped| swapped.then_some(change),
        ))
    }

    async fn get_schedule(&self, id: &str) -> StoreResult<Option<ScheduleRecord>> {
        Ok(self.read(|state| state.schedules.get(id).cloned()))
    }

    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        check_page(page)?;
        let after = filter.after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.read(|state| {
            let behind = state.schedules.range((after.clone(), Bound::Unbounded));
            let schedules = cut_page(behind.map(|(_, schedule)| schedule), page);
            schedules.into_iter().map(ScheduleRecord::listed).collect()
        }))
    }

    async fn delete_schedule(&self, id: &str) -> StoreResult<bool> {
        Ok(self.note_at(
            None,
            |state, _| state.schedules.remove(id).is_some(),
            |deleted| deleted.then(|| audit::schedule_deleted(id)),
        ))
    }

    async fn due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        Ok(self.write_at(now, |state, now| state.due_schedules(max, now)))
    }

    async fn fire_schedules(
        &self,
        fires: Vec<ScheduleFire>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleOutcome>> {
        check::fires(&fires)?;
        Ok(self.write_each(fires, now, |state, fire, now| {
            state.fire_schedule(fire, now)
        }))
    }

    // ---- workers ------------------------------------------------------------------------------

    async fn register_worker(&self, worker: WorkerInfo, now: Option<Timestamp>) -> StoreResult<()> {
        check::worker(&worker)?;
        self.write_at(now, |state, now| state.register_worker(worker, now));
        Ok(())
    }

    async fn worker_heartbeats(
        &self,
        beats: Vec<WorkerBeat>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<Option<WorkerStatus>>> {
        check::beats(&beats)?;
        Ok(self.write_at(now, |state, now| {
            let beats = beats.into_iter();
            beats
                .map(|beat| state.worker_heartbeat(beat, now))
                .collect()
        }))
    }

    async fn list_workers(&self, filter: WorkerFilter) -> StoreResult<Vec<WorkerInfo>> {
        Ok(self.read(|state| state.list_workers(&filter)))
    }

    async fn set_worker_status(&self, worker_id: &str, status: WorkerStatus) -> StoreResult<bool> {
        let former = self.note_at(
            None,
            |state, _| state.set_worker_status(worker_id, status),
            |former| {
                let changed = former.is_some_and(|former| former != status);
                changed.then(|| audit::worker_status(worker_id, status))
            },
        );
        Ok(former.is_some())
    }

    async fn deregister_worker(&self, worker_id: &str) -> StoreResult<bool> {
        Ok(self.note_at(
            None,
            |state, _| state.workers.remove(worker_id).is_some(),
            |known| known.then(|| audit::worker_forgotten(worker_id)),
        ))
    }

    async fn stop_silent_workers(&self, silent_since: Timestamp) -> StoreResult<Vec<String>> {
        Ok(self.write(|state| state.stop_silent_workers(cut(silent_since))))
    }

    // ---- dead letters -------------------------------------------------------------------------

    async fn get_dead_letter(&self, id: Uuid) -> StoreResult<Option<DeadLetter>> {
        let filter = DlqFilter {
            id: Some(id),
            ..DlqFilter::default()
        };
        Ok(self.read(|state| state.list_dlq(&filter).first().copied().cloned()))
    }

    async fn list_dlq(&self, filter: DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>> {
        check_page(page)?;
        Ok(self.read(|state| {
            let letters = cut_page(state.list_dlq(&filter), page);
            letters.into_iter().map(DeadLetter::listed).collect()
        }))
    }

    async fn decide_dead_letter(
        &self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
        now: Option<Timestamp>,
    ) -> StoreResult<DecisionOutcome> {
        check::decision(&decision)?;
        let asked = decision.clone();
        Ok(self.note_at(
            now,
            |state, now| state.decide_dead_letter(run_id, id, decision, now),
            |outcome| audit::decided(run_id, id, &asked, outcome),
        ))
    }

    async fn purge_dlq(&self, filter: DlqFilter, max: usize) -> StoreResult<u64> {
        Ok(self.note_at(
            None,
            |state, _| state.purge_dlq(&filter, max),
            |count| audit::letters_purged(&filter, *count),
        ))
    }

    // ---- breakers, dedup, outbox --------------------------------------------------------------

    async fn get_breaker(&self, key: &str) -> StoreResult<Option<BreakerRecord>> {
        Ok(self.read(|state| state.breakers.get(key).cloned()))
    }

    async fn save_breaker(
        &self,
        breaker: BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        check::breaker(&breaker)?;
        Ok(self.write_at(now, |state, now| state.save_breaker(breaker, now)))
    }

    async fn list_breakers(&self) -> StoreResult<Vec<BreakerRecord>> {
        Ok(self.read(|state| state.breakers.values().cloned().collect()))
    }

    async fn reset_breaker(&self, key: &str) -> StoreResult<bool> {
        Ok(self.note_at(
            None,
            |state, _| state.breakers.remove(key).is_some(),
            |known| known.then(|| audit::breaker_reset(key)),
        ))
    }

    async fn get_once(&self, key: &str) -> StoreResult<Option<Payload>> {
        Ok(self.read(|state| state.dedup.get(key).map(|record| record.result.clone())))
    }

    async fn put_once(
        &self,
        key: &str,
        result: Payload,
        now: Option<Timestamp>,
    ) -> StoreResult<Payload> {
        check_id("dedup key", key)?;
        check_payload("result", &result)?;
        Ok(self.write_at(now, |state, now| state.put_once(key, result, now)))
    }

    async fn claim_outbox(&self, claim: ClaimOutbox) -> StoreResult<Vec<OutboxRecord>> {
        check::lease(claim.lease)?;
        Ok(self.write_at(claim.now, |state, now| state.claim_outbox(&claim, now)))
    }

    async fn finish_outbox(
        &self,
        reports: Vec<OutboxReport>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::reports(&reports)?;
        Ok(self.write_each(reports, now, |state, report, now| {
            state.finish_outbox(report, now)
        }))
    }

    // ---- reads for operators ------------------------------------------------------------------

    async fn get_run(&self, run_id: Uuid) -> StoreResult<Option<RunRecord>> {
        Ok(self.read(|state| state.find(run_id).map(|run| run.run().clone())))
    }

    async fn summarize_runs(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<RunSummary>>> {
        check_batch("the number of runs", run_ids.len())?;
        let summary = |state: &State, id: &Uuid| state.find(*id).map(|run| run.run().into());
        Ok(self.read(|state| run_ids.iter().map(|id| summary(state, id)).collect()))
    }

    async fn list_runs(&self, filter: RunFilter, page: Page) -> StoreResult<RunPage> {
        check_page(page)?;
        Ok(self.read(|state| state.page_of_runs(&filter, page)))
    }

    async fn count_runs(&self, filter: RunFilter, limit: CountLimit) -> StoreResult<RunCount> {
        Ok(self.read(|state| state.count_runs(&filter, limit)))
    }

    async fn get_attributes(&self, run_id: Uuid) -> StoreResult<Attributes> {
        Ok(self.read(|state| {
            let run = state.find(run_id);
            run.map(|run| run.attributes.clone()).unwrap_or_default()
        }))
    }

    async fn list_tasks(&self, filter: TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
        check_page(page)?;
        Ok(self.read(|state| {
            let tasks = cut_page(state.filter_tasks(&filter), page);
            tasks.into_iter().map(TaskRecord::listed).collect()
        }))
    }

    async fn list_events(
        &self,
        run_id: Uuid,
        after: i64,
        limit: usize,
    ) -> StoreResult<Option<History>> {
        let limit = limit.min(PAGE_ROWS_MAX);
        Ok(self.read(|state| state.page_of_events(run_id, after, limit)))
    }

    async fn list_step_logs(&self, filter: StepLogFilter, page: Page) -> StoreResult<StepLogPage> {
        check_page(page)?;
        Ok(self.read(|state| state.page_of_logs(filter, page)))
    }

    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
        check_page(page)?;
        Ok(self.read(|state| cut_page(state.filter_audit(&filter), page)))
    }

    async fn glance(&self, now: Option<Timestamp>) -> StoreResult<Glance> {
        Ok(self.write_at(now, |state, now| state.glance(now)))
    }

    async fn counts(&self) -> StoreResult<StoreCounts> {
        Ok(self.read(State::counts))
    }

    async fn run_marks(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<RunMark>>> {
        check_batch("the number of runs", run_ids.len())?;
        let mark = |run: &RunRecord| RunMark {
            status: run.status,
            sequence: run.sequence,
        };
        Ok(self.read(|state| {
            let found = run_ids.iter().map(|id| state.find(*id));
            found
                .map(|found| found.map(|run| mark(run.run())))
                .collect()
        }))
    }

    async fn count_waiting(&self, at_most: u64) -> StoreResult<u64> {
        Ok(self.read(|state| state.count_waiting(at_most)))
    }

    async fn rollups(&self, from: Timestamp) -> StoreResult<Vec<RollupRecord>> {
        Ok(self.read(|state| state.rollups.since(from).take(ROLLUP_ROWS_MAX).collect()))
    }

    // ---- retention and proof ------------------------------------------------------------------

    async fn purge_runs(&self, purge: PurgeRuns) -> StoreResult<u64> {
        Ok(self.write_at(purge.now, |state, now| state.purge_runs(&purge, now)))
    }

    async fn purge_old(&self, purge: PurgeOld) -> StoreResult<PurgedOld> {
        Ok(self.write_at(purge.now, |state, now| state.purge_old(&purge, now)))
    }

    async fn delete_run(&self, run_id: Uuid, now: Option<Timestamp>) -> StoreResult<DeleteOutcome> {
        Ok(self.note_at(
            now,
            |state, now| state.delete_run(run_id, now),
            |outcome| audit::run_deleted(run_id, *outcome == DeleteOutcome::Deleted),
        ))
    }

    async fn dump(&self) -> StoreResult<Dump> {
        Ok(self.read(State::dump))
    }
}
