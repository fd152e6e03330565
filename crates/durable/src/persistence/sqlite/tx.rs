//! One write, as the rules see it. Every answer is there at once: no future here ever waits.

use durable_core::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::clock::Clock;
use super::db::Db;
use super::load::load;
use super::registry;
use super::tables::{keys, messages, outbox, runs, task_claims, tasks, timers, turn_claims};
use crate::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTurn, MessageRecord, OutboxRecord, TaskRecord,
};
use crate::persistence::sql::rows::{Load, Loaded, RegistryWrite, Touched};
use crate::persistence::sql::tx::Tx;
use crate::persistence::{Shards, StoreResult};

/// A write within the writer's transaction.
pub(super) struct SqliteTx<'c> {
    /// Not shared although nothing needs it to be ours alone: a shared connection could not be sent.
    conn: &'c mut Connection,
    shards: Shards,
    now: Timestamp,
}

impl<'c> SqliteTx<'c> {
    pub(super) fn new(
        conn: &'c mut Connection,
        shards: Shards,
        clock: &Clock,
        at: Option<Timestamp>,
    ) -> Self {
        Self {
            conn,
            shards,
            now: clock.resolve(at),
        }
    }

    pub(super) fn db(&self) -> Db<'_> {
        Db {
            conn: self.conn,
            shards: self.shards,
        }
    }

    /// The first of what every shard has next.
    fn first_due(
        &self,
        next: fn(Db<'_>, i32) -> StoreResult<Option<Timestamp>>,
    ) -> StoreResult<Option<Timestamp>> {
        let mut first: Option<Timestamp> = None;
        for shard in self.shards.from(0) {
            let found = next(self.db(), shard)?;
            first = [first, found].into_iter().flatten().min();
        }
        Ok(first)
    }
}

impl Tx for SqliteTx<'_> {
    fn shards(&self) -> Shards {
        self.shards
    }

    async fn now(&mut self) -> StoreResult<Timestamp> {
        Ok(self.now)
    }

    async fn load(&mut self, wanted: Load) -> StoreResult<Loaded> {
        load(self.db(), wanted)
    }

    async fn claim_tasks(
        &mut self,
        shard: i32,
        claim: &ClaimTasks,
        max: usize,
    ) -> StoreResult<Vec<TaskRecord>> {
        task_claims::claim(self.db(), shard, claim, max, self.now)
    }

    async fn claim_turns(
        &mut self,
        shard: i32,
        claim: &ClaimTurns,
        max: usize,
    ) -> StoreResult<Vec<ClaimedTurn>> {
        turn_claims::claim(self.db(), shard, claim, max, self.now)
    }

    async fn claim_outbox(
        &mut self,
        shard: i32,
        claim: &ClaimOutbox,
        max: usize,
    ) -> StoreResult<Vec<OutboxRecord>> {
        outbox::claim(self.db(), shard, claim, max, self.now)
    }

    async fn write_registry(&mut self, write: &RegistryWrite) -> StoreResult<Touched> {
        registry::write(self.db(), write)
    }

    async fn due_runs(&mut self, shard: i32, max: usize) -> StoreResult<Vec<Uuid>> {
        runs::due(self.db(), shard, self.now, max)
    }

    async fn due_timers(&mut self, shard: i32, max: usize) -> StoreResult<Vec<(Uuid, String)>> {
        timers::due(self.db(), shard, self.now, max)
    }

    async fn due_tasks(&mut self, shard: i32, max: usize) -> StoreResult<Vec<(Uuid, Uuid)>> {
        tasks::due(self.db(), shard, self.now, max)
    }

    async fn expired_leases(&mut self, shard: i32, max: usize) -> StoreResult<Vec<(Uuid, Uuid)>> {
        tasks::expired(self.db(), shard, self.now, max)
    }

    async fn next_due(&mut self) -> StoreResult<Option<Timestamp>> {
        let next = [
            self.first_due(runs::next_due)?,
            self.first_due(timers::next_due)?,
            self.first_due(tasks::next_due)?,
        ];
        Ok(next.into_iter().flatten().min())
    }

    async fn pick_messages(&mut self, shard: i32, max: usize) -> StoreResult<Vec<MessageRecord>> {
        messages::pick(self.db(), shard, max)
    }

    async fn open_children(&mut self, parent: Uuid) -> StoreResult<Vec<Uuid>> {
        runs::open_children(self.db(), parent)
    }

    async fn purgeable_runs(
        &mut self,
        shard: i32,
        finished_before: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<Uuid>> {
        runs::purgeable(self.db(), shard, finished_before, max)
    }

    async fn old_tombstones(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<(String, Uuid)>> {
        keys::old_tombstones(self.db(), before, max)
    }

    async fn old_slots(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<(String, Uuid)>> {
        let now = self.now().await?;
        keys::old_slots(self.db(), before, now, max)
    }
}
