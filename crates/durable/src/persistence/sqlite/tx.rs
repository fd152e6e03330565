//! One write, as the rules see it. Every answer is there at once: no future here ever waits.

use durable_core::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::db::Db;
use super::load::load;
use super::registry;
use super::tables::{
    audit, keys, messages, outbox, purges, runs, task_claims, tasks, timers, turn_claims,
};
use crate::persistence::clock::StoreClock;
use crate::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTurn, OutboxRecord, TaskRecord,
};
use crate::persistence::sql::rows::{
    EndedAt, Load, Loaded, OldRows, Picked, PurgeRecord, Purgeable, RegistryWrite, Slice,
    SliceLimit, TaskFound, Touched,
};
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
        clock: &StoreClock,
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
        next: fn(Db<'_>, i32, &[Uuid]) -> StoreResult<Option<Timestamp>>,
        except: &[Uuid],
    ) -> StoreResult<Option<Timestamp>> {
        let mut first: Option<Timestamp> = None;
        for shard in self.shards.from(0) {
            let found = next(self.db(), shard, except)?;
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

    async fn due_runs(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<Uuid>> {
        runs::due(self.db(), shard, self.now, max, except)
    }

    async fn due_timers(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<(Uuid, String)>> {
        timers::due(self.db(), shard, self.now, max, except)
    }

    async fn due_tasks(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<TaskFound>> {
        tasks::due(self.db(), shard, self.now, max, except)
    }

    async fn expired_leases(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<TaskFound>> {
        tasks::expired(self.db(), shard, self.now, max, except)
    }

    async fn next_due(&mut self, except: &[Uuid]) -> StoreResult<Option<Timestamp>> {
        let next = [
            self.first_due(runs::next_due, except)?,
            self.first_due(timers::next_due, except)?,
            self.first_due(tasks::next_due, except)?,
        ];
        Ok(next.into_iter().flatten().min())
    }

    async fn pick_messages(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Picked> {
        messages::pick(self.db(), shard, max, except)
    }

    async fn open_children(&mut self, parent: Uuid, max: usize) -> StoreResult<Vec<Uuid>> {
        runs::open_children(self.db(), parent, max)
    }

    async fn purgeable_runs(
        &mut self,
        shard: i32,
        finished_before: Timestamp,
        behind: Option<EndedAt>,
        max: usize,
    ) -> StoreResult<Purgeable> {
        purges::purgeable(self.db(), shard, finished_before, behind, max)
    }

    async fn is_on_its_way(&mut self, run_id: Uuid) -> StoreResult<bool> {
        purges::is_on_its_way(self.db(), run_id)
    }

    async fn due_purges(&mut self, shard: i32, max: usize) -> StoreResult<Vec<PurgeRecord>> {
        purges::due(self.db(), shard, self.now, max)
    }

    async fn purge_of(&mut self, run_id: Uuid) -> StoreResult<Option<PurgeRecord>> {
        purges::of_run(self.db(), run_id)
    }

    async fn stuck_purges(&mut self, shard: i32, max: usize) -> StoreResult<u64> {
        purges::stuck(self.db(), shard, max)
    }

    async fn delete_belongings(
        &mut self,
        shard: i32,
        purges: &[PurgeRecord],
        limit: SliceLimit,
    ) -> StoreResult<(Slice, Vec<(Uuid, i64)>)> {
        let runs: Vec<Uuid> = purges.iter().map(|purge| purge.run_id).collect();
        let slice = purges::delete_belongings(self.db(), shard, &runs, limit)?;
        // What is deleted is gone from SQLite's tree at once.
        Ok((slice, Vec::new()))
    }

    async fn forget_audit(&mut self, before: Timestamp, max: usize) -> StoreResult<u64> {
        audit::forget(self.db(), before, max)
    }

    async fn delete_old(
        &mut self,
        rows: OldRows,
        shard: i32,
        before: Timestamp,
        limit: SliceLimit,
    ) -> StoreResult<Slice> {
        purges::delete_old(self.db(), rows, shard, self.now, before, limit)
    }

    async fn delete_past(
        &mut self,
        shard: i32,
        before: Timestamp,
        behind: Option<Uuid>,
        runs: usize,
        limit: SliceLimit,
    ) -> StoreResult<(Slice, Option<Uuid>)> {
        purges::delete_past(self.db(), shard, before, behind, runs, limit)
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
