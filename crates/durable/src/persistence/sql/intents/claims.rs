//! Claims, one shard at a time.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, TaskLease, TaskRecord,
};
use crate::persistence::sql::rows::Changes;
use crate::persistence::sql::tx::{Intent, Tx};

/// Claims tasks of a shard.
#[derive(Debug)]
pub(crate) struct ClaimTasksOf {
    pub(crate) shard: i32,
    pub(crate) claim: ClaimTasks,
    pub(crate) max: usize,
}

impl Intent for ClaimTasksOf {
    type Answer = Vec<ClaimedTask>;

    fn at(&self) -> Option<Timestamp> {
        self.claim.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let tasks = tx.claim_tasks(self.shard, &self.claim, self.max).await?;
        Ok((tasks.into_iter().map(claimed).collect(), Changes::default()))
    }
}

/// Claims turns of a shard.
#[derive(Debug)]
pub(crate) struct ClaimTurnsOf {
    pub(crate) shard: i32,
    pub(crate) claim: ClaimTurns,
    pub(crate) max: usize,
}

impl Intent for ClaimTurnsOf {
    type Answer = Vec<ClaimedTurn>;

    fn at(&self) -> Option<Timestamp> {
        self.claim.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let turns = tx.claim_turns(self.shard, &self.claim, self.max).await?;
        Ok((turns, Changes::default()))
    }
}

/// A task as its claimer gets it.
fn claimed(task: TaskRecord) -> ClaimedTask {
    ClaimedTask {
        lease: TaskLease {
            run_id: task.run_id,
            task_id: task.id,
            attempt: task.attempt,
            token: task.token.unwrap_or_default(),
        },
        lease_expires_at: task.lease_expires_at.unwrap_or(task.visible_at),
        activity_id: task.activity_id,
        activity_type: task.activity_type,
        input: task.input,
        options: task.options,
        deliveries: task.deliveries,
        scheduled_at: task.scheduled_at,
        started_at: task.claimed_at.unwrap_or(task.visible_at),
        heartbeat_details: task.heartbeat_details,
        attempts: task.attempts,
        trace: task.trace,
    }
}
