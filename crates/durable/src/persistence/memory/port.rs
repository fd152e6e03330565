//! The worker's port of the memory store: the edge, the lock, the call.

use std::time::Duration;

use async_trait::async_trait;
use durable_core::Timestamp;
use uuid::Uuid;

use super::MemoryStore;
use super::state::State;
use crate::persistence::limits::check_batch;
use crate::persistence::model::{
    BlockRun, ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, FinishOutcome, History,
    LeaseExtension, LeaseState, TaskRelease, TaskResult, TurnCommit, TurnOutcome, WaitingTypes,
};
use crate::persistence::prefix::Prefix;
use crate::persistence::{StoreResult, WorkerPort, audit, check};

#[async_trait]
impl WorkerPort for MemoryStore {
    async fn claim_turns(&self, claim: ClaimTurns) -> StoreResult<Vec<ClaimedTurn>> {
        check::claim_turns(&claim)?;
        Ok(self.write_at(claim.now, |state, now| state.claim_turns(&claim, now)))
    }

    async fn load_turns(&self, run_ids: &[Uuid]) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        check_batch("the number of runs", run_ids.len())?;
        let mut prefix = Prefix::default();
        Ok(self.read(|state| {
            let turns = run_ids.iter().map(|id| state.find(*id));
            turns
                .map(|run| run.map(|run| run.to_turn(&mut prefix)))
                .collect()
        }))
    }

    async fn load_history(&self, run_id: Uuid, after: i64) -> StoreResult<Option<History>> {
        Ok(self.read(|state| state.history_page(run_id, after)))
    }

    async fn commit_turns(
        &self,
        turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        check::turns(&turns)?;
        Ok(
            self.note_each(turns, now, State::commit_turn, |turn, outcome, _| {
                audit::committed(turn, outcome)
            }),
        )
    }

    async fn block_runs(
        &self,
        blocks: Vec<BlockRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::blocks(&blocks)?;
        Ok(self.write_each(blocks, now, State::block_run))
    }

    async fn renew_runs(
        &self,
        worker_id: &str,
        run_ids: &[Uuid],
        lease: Duration,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check_batch("the number of runs", run_ids.len())?;
        check::lease(lease)?;
        Ok(
            self.write_each(run_ids.to_vec(), now, |state, run_id, now| {
                state.renew_run(worker_id, run_id, lease, now)
            }),
        )
    }

    async fn release_runs(&self, worker_id: &str, run_ids: &[Uuid]) -> StoreResult<()> {
        check_batch("the number of runs", run_ids.len())?;
        self.write(|state| {
            for run_id in run_ids {
                state.release_run(worker_id, *run_id);
            }
        });
        Ok(())
    }

    async fn waiting_types(&self) -> StoreResult<WaitingTypes> {
        Ok(self.write(|state| state.waiting_types()))
    }

    async fn claim_tasks(&self, claim: ClaimTasks) -> StoreResult<Vec<ClaimedTask>> {
        check::claim_tasks(&claim)?;
        Ok(self.write_at(claim.now, |state, now| state.claim_tasks(&claim, now)))
    }

    async fn finish_tasks(
        &self,
        results: Vec<TaskResult>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        check::results(&results)?;
        Ok(self.write_each(results, now, |state, result, now| {
            state.finish_task(result, now)
        }))
    }

    async fn extend_leases(
        &self,
        extensions: Vec<LeaseExtension>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<LeaseState>> {
        check::extensions(&extensions)?;
        Ok(self.write_each(extensions, now, |state, extension, now| {
            state.extend_lease(extension, now)
        }))
    }

    async fn release_tasks(
        &self,
        releases: Vec<TaskRelease>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        check::releases(&releases)?;
        Ok(self.write_each(releases, now, |state, release, now| {
            state.release_task(&release, now)
        }))
    }
}
