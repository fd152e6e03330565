//! The worker's port over any SQL database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use durable_core::Timestamp;
use uuid::Uuid;

use super::{SqlStore, keep};
use crate::persistence::model::{
    BlockRun, ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, FinishOutcome, History,
    LeaseExtension, LeaseState, TaskRelease, TaskResult, TurnCommit, TurnOutcome, WaitingTypes,
};
use crate::persistence::sql::intents::claims::{ClaimTasksOf, ClaimTurnsOf};
use crate::persistence::sql::intents::commit_turns::CommitTurns;
use crate::persistence::sql::intents::finish_tasks::FinishTasks;
use crate::persistence::sql::intents::leases::{ExtendLeases, ReleaseTasks};
use crate::persistence::sql::intents::ownership::{BlockRuns, RenewRuns};
use crate::persistence::sql::tx::{Concern, Database};
use crate::persistence::{StoreResult, WorkerPort, WorkflowEventStore, check, limits};

#[async_trait]
impl<D: Database> WorkerPort for SqlStore<D> {
    async fn claim_turns(&self, claim: ClaimTurns) -> StoreResult<Vec<ClaimedTurn>> {
        check::claim_turns(&claim)?;
        let mut turns = Vec::new();
        for shard in self.shards().from(claim.first_shard) {
            let max = claim.max - turns.len();
            if max == 0 || ClaimedTurn::may_have_left_some(&turns) {
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
                .write_noted(Concern::Events, CommitTurns { turns, now })
                .await;
        }
        let mut places = BTreeMap::<i32, Vec<usize>>::new();
        for (place, turn) in turns.iter().enumerate() {
            places
                .entry(self.shards().of_run(turn.run_id))
                .or_default()
                .push(place);
        }
        let first = self.reserve(turns.len());
        let mut turns: Vec<Option<TurnCommit>> = turns.into_iter().map(Some).collect();
        let mut outcomes: Vec<Option<TurnOutcome>> = vec![None; turns.len()];
        for places in places.into_values() {
            let set = places
                .iter()
                .filter_map(|place| turns[*place].take())
                .collect();
            let set = CommitTurns { turns: set, now };
            let answers = self
                .write_part(Concern::Events, set, first, &places)
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

    async fn waiting_types(&self) -> StoreResult<WaitingTypes> {
        self.database.waiting_types().await
    }

    async fn claim_tasks(&self, claim: ClaimTasks) -> StoreResult<Vec<ClaimedTask>> {
        check::claim_tasks(&claim)?;
        let mut tasks = Vec::new();
        for shard in self.shards().from(claim.first_shard) {
            let max = claim.max - tasks.len();
            // Half of what fits is enough: a shard gives as much again.
            let full = max == 0 || ClaimedTask::may_have_left_some(&tasks);
            if full || claim.activity_types.is_empty() {
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
        let again = extensions.clone();
        let extend = ExtendLeases { extensions, now };
        let mut states = self.database.write(Concern::Results, extend).await?;
        // A second look at those that another transaction had: most are held for one short commit.
        let is_unknown = |state: &&mut LeaseState| **state == LeaseState::Unknown;
        if !states.contains(&LeaseState::Unknown) {
            return Ok(states);
        }
        let skipped = states.iter().zip(again);
        let skipped = skipped.filter(|(state, _)| **state == LeaseState::Unknown);
        let extensions = skipped.map(|(_, extension)| extension).collect();
        let extend = ExtendLeases { extensions, now };
        let second = self.database.write(Concern::Results, extend).await;
        // What the first look extended is extended, whatever becomes of the second.
        let second = second.unwrap_or_default();
        let unknown = states.iter_mut().filter(is_unknown);
        for (state, second) in unknown.zip(second) {
            *state = second;
        }
        Ok(states)
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
