//! One transaction: flights of statements, each one round trip.

mod apply;
mod claim;
mod load;
mod registry;
mod retention;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use durable_core::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::bind::{Call, at, limit, value};
use super::locks::Locks;
use super::pools::STATEMENT_TIMEOUT;
use super::reader::{Reader, read_all};
use super::reads::filter::Query;
use super::rows;
use super::rows::keys::Name;
use super::slots::Slots;
use super::sql::{clock, due, keys, messages, meta, runs};
use super::sqlstate::{Verdict, store_error, verdict};
use super::statement::Statement;
use super::wire::Wire;
use crate::persistence::limits::fitting;
use crate::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTurn, MessageRecord, OutboxRecord, TaskRecord, cut,
};
use crate::persistence::sql::rows::{
    Changes, EndedAt, Load, Loaded, MessageKey, OldRows, Picked, PurgeRecord, Purgeable,
    RegistryWrite, Slice, SliceLimit, TaskFound, Touched,
};
use crate::persistence::sql::tx::Tx;
use crate::persistence::{Shards, StoreError, StoreResult};

/// A transaction, or a part of somebody else's. `BEGIN` travels with its first statements, `COMMIT` with its last ones.
///
/// Dropped before its end (an error, a cancelled caller) it is rolled back before the connection's next user says anything.
pub(super) struct PgTx<'a> {
    wire: Wire<'a>,
    words: Words,
    shards: Shards,
    /// The instant, once it is known.
    now: Option<Timestamp>,
    stage: Stage,
    /// What to do about the error that ended it.
    failed: Option<Verdict>,
    /// Keys that this transaction made and that have no run yet.
    reserved: BTreeSet<Name>,
    /// Runs that were to be locked by the load that failed.
    wanted: Vec<Uuid>,
    /// What is known to be locked, where it is not waited for.
    locks: Option<&'a Locks>,
    /// Tombstones that were asked for and not there, to be looked for again when their runs have been looked at.
    missing_tombstones: BTreeSet<Name>,
}

/// How a transaction begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) begin: Cow<'static, str>,
    pub(super) commit: &'static str,
    pub(super) rollback: &'static str,
}

impl Words {
    /// One of our own.
    pub(super) fn own(begin: &str) -> Self {
        Self {
            begin: Cow::Owned(begin.to_owned()),
            commit: "COMMIT",
            rollback: "ROLLBACK",
        }
    }

    /// A part of one that somebody else ends: all or nothing in itself, so that an error leaves theirs as it was.
    pub(super) const fn part() -> Self {
        Self {
            begin: Cow::Borrowed("SAVEPOINT durable_part"),
            commit: "RELEASE SAVEPOINT durable_part",
            rollback: "ROLLBACK TO SAVEPOINT durable_part; RELEASE SAVEPOINT durable_part",
        }
    }

    /// The last part of one that is open already, and its end.
    pub(super) fn last_part() -> Self {
        Self {
            // The savepoint does nothing but fail where there is no transaction any more.
            begin: Cow::Owned(format!(
                "SAVEPOINT durable_part; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'"
            )),
            commit: "COMMIT",
            rollback: "ROLLBACK",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Open,
    Done,
}

impl<'a> PgTx<'a> {
    pub(super) fn new(wire: Wire<'a>, shards: Shards, at: Option<Timestamp>) -> Self {
        let words = Words::own(&wire.shared().begin);
        Self::saying(words, wire, shards, at)
    }

    /// One that begins and ends as it is told.
    pub(super) fn saying(
        words: Words,
        wire: Wire<'a>,
        shards: Shards,
        at: Option<Timestamp>,
    ) -> Self {
        Self {
            wire,
            words,
            shards,
            now: at.map(cut),
            stage: Stage::Idle,
            failed: None,
            reserved: BTreeSet::new(),
            wanted: Vec::new(),
            locks: None,
            missing_tombstones: BTreeSet::new(),
        }
    }

    /// Lets it not wait for runs that are known to be locked.
    pub(super) const fn know(&mut self, locks: &'a Locks) {
        self.locks = Some(locks);
    }

    /// The runs that were to be locked by the load that failed.
    pub(super) fn wanted(&mut self) -> Vec<Uuid> {
        std::mem::take(&mut self.wanted)
    }

    /// Fails where one of these runs is known to be locked: whoever holds it for so long is not
    /// waited for with a connection.
    fn meets_known_locks(&mut self, runs: &[Uuid]) -> Option<StoreError> {
        if !self.locks?.knows_any(runs) {
            return None;
        }
        self.wanted = runs.to_vec();
        self.failed = Some(Verdict::Locked);
        Some(StoreError::Busy { runs: Vec::new() })
    }

    /// Reads how many shards the database has; for one on which no store was opened.
    pub(super) async fn read_shards(&mut self) -> StoreResult<()> {
        let rows = self.call(Call::new(&meta::SHARDS, Vec::new())).await?;
        let count = read_all(&rows, Reader::next::<String>)?;
        let count = count.first().and_then(|count| count.parse().ok());
        self.shards = count.map(Shards::new).ok_or_else(|| {
            StoreError::Schema("the database does not say how many shards it has".to_owned())
        })?;
        Ok(())
    }

    /// What to do about the error that ended it, if one of the database's did.
    pub(super) fn failed(&self) -> Option<Verdict> {
        self.failed
    }

    /// Writes the changes and commits, in one flight; an error of any statement rolls all of it back.
    pub(super) async fn commit(&mut self, changes: &Changes, slots: &Slots) -> StoreResult<()> {
        let slot = slots.take();
        self.commit_with(changes, slot.number(), None).await
    }

    /// [`PgTx::commit`] with totals in a slot of the caller's choice, and a last word.
    pub(super) async fn commit_with(
        &mut self,
        changes: &Changes,
        slot: i32,
        last: Option<Call<'_>>,
    ) -> StoreResult<()> {
        let totals = rows::rollups::merged(&changes.add_rollups);
        let reserved = std::mem::take(&mut self.reserved);
        let mut calls = apply::calls(self.shards, changes, &totals, slot, &reserved);
        calls.extend(last);
        if self.stage == Stage::Idle && calls.is_empty() {
            return Ok(());
        }
        let commit = self.words.commit;
        self.send(&calls, Some(commit)).await?;
        self.stage = Stage::Done;
        Ok(())
    }

    /// One flight within the transaction.
    async fn flight(&mut self, calls: &[Call<'_>]) -> StoreResult<Vec<Vec<Row>>> {
        self.send(calls, None).await
    }

    async fn send(&mut self, calls: &[Call<'_>], end: Option<&str>) -> StoreResult<Vec<Vec<Row>>> {
        let begin = (self.stage == Stage::Idle).then(|| self.words.begin.clone());
        // Before the await: whoever drops this future has a transaction to roll back.
        self.stage = Stage::Open;
        let answer = self.wire.flight(begin.as_deref(), calls, end).await;
        answer.map_err(|error| {
            self.failed = Some(verdict(&error));
            store_error(error)
        })
    }

    /// One statement within the transaction.
    async fn call(&mut self, call: Call<'_>) -> StoreResult<Vec<Row>> {
        let mut answers = self.flight(&[call]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// A statement made on the spot, within the transaction.
    async fn made_query(&mut self, query: &Query<'_>) -> StoreResult<Vec<Row>> {
        if self.stage == Stage::Idle {
            self.flight(&[]).await?;
        }
        let answer = query.send(&self.wire).await;
        answer.map_err(|error| {
            self.failed = Some(verdict(&error));
            store_error(error)
        })
    }

    /// What of a shard is due by now.
    async fn due(
        &mut self,
        statement: &'static Statement,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<Row>> {
        let now = self.now().await?;
        let params = vec![
            value(shard),
            value(at(now)),
            value(limit(max)),
            value(except.to_vec()),
        ];
        self.call(Call::new(statement, params)).await
    }

    /// The same statement on every shard, in one flight.
    async fn on_all_shards(
        &mut self,
        call: impl Fn(i32) -> Call<'static>,
    ) -> StoreResult<Vec<Row>> {
        let calls: Vec<_> = self.shards.from(0).map(call).collect();
        Ok(self.flight(&calls).await?.into_iter().flatten().collect())
    }
}

impl Drop for PgTx<'_> {
    fn drop(&mut self) {
        if self.stage == Stage::Open {
            self.wire.send_and_forget(self.words.rollback);
        }
    }
}

impl Tx for PgTx<'_> {
    fn shards(&self) -> Shards {
        self.shards
    }

    async fn now(&mut self) -> StoreResult<Timestamp> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let rows = self.call(Call::new(&clock::CLOCK, Vec::new())).await?;
        let now = read_all(&rows, Reader::at)?[0];
        Ok(*self.now.insert(now))
    }

    async fn load(&mut self, load: Load) -> StoreResult<Loaded> {
        self.load_all(&load).await
    }

    async fn claim_tasks(
        &mut self,
        shard: i32,
        claim: &ClaimTasks,
        max: usize,
    ) -> StoreResult<Vec<TaskRecord>> {
        claim::tasks(self, shard, claim, max).await
    }

    async fn claim_turns(
        &mut self,
        shard: i32,
        claim: &ClaimTurns,
        max: usize,
    ) -> StoreResult<Vec<ClaimedTurn>> {
        claim::turns(self, shard, claim, max).await
    }

    async fn claim_outbox(
        &mut self,
        shard: i32,
        claim: &ClaimOutbox,
        max: usize,
    ) -> StoreResult<Vec<OutboxRecord>> {
        claim::outbox(self, shard, claim, max).await
    }

    async fn write_registry(&mut self, write: &RegistryWrite) -> StoreResult<Touched> {
        registry::write(self, write).await
    }

    async fn due_runs(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<Uuid>> {
        let rows = self.due(&due::DUE_RUNS, shard, max, except).await?;
        read_all(&rows, Reader::next)
    }

    async fn due_timers(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<(Uuid, String)>> {
        let rows = self.due(&due::DUE_TIMERS, shard, max, except).await?;
        read_all(&rows, |row| Ok((row.next()?, row.next()?)))
    }

    async fn due_tasks(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<TaskFound>> {
        let rows = self.due(&due::DUE_TASKS, shard, max, except).await?;
        read_all(&rows, task_found)
    }

    async fn expired_leases(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Vec<TaskFound>> {
        let rows = self.due(&due::EXPIRED_LEASES, shard, max, except).await?;
        read_all(&rows, task_found)
    }

    async fn next_due(&mut self, except: &[Uuid]) -> StoreResult<Option<Timestamp>> {
        let except = except.to_vec();
        let rows = self
            .on_all_shards(|shard| {
                let params = vec![value(shard), value(except.clone())];
                Call::new(&due::NEXT_DUE, params)
            })
            .await?;
        let instants = read_all(&rows, Reader::maybe_at)?;
        Ok(instants.into_iter().flatten().min())
    }

    async fn pick_messages(
        &mut self,
        shard: i32,
        max: usize,
        except: &[Uuid],
    ) -> StoreResult<Picked> {
        let params = vec![value(shard), value(limit(max)), value(except.to_vec())];
        let rows = self
            .call(Call::new(&messages::PICK_MESSAGES, params))
            .await?;
        let picked = read_all(&rows, |row| {
            let key: MessageKey = (row.next()?, row.next()?, row.next()?);
            Ok((key, size(row.next()?)))
        })?;
        let fit = fitting(picked.iter().map(|(_, bytes)| *bytes));
        let full = picked.len() == max || fit < picked.len();
        let keys: Vec<MessageKey> = picked.into_iter().take(fit).map(|(key, _)| key).collect();
        if keys.is_empty() {
            return Ok(Picked::default());
        }
        // Another relay may have a sender's earlier messages; its deletions do not show here until it has committed.
        let mut last = BTreeMap::<Uuid, MessageKey>::new();
        for key in &keys {
            last.insert(key.0, *key);
        }
        let last: Vec<MessageKey> = last.into_values().collect();
        let calls = [
            rows::messages::up_to(shard, &last),
            rows::messages::read(shard, &keys),
        ];
        let mut answers = self.flight(&calls).await?.into_iter();
        let there = answers.next().unwrap_or_default();
        let there = read_all(&there, |reader| {
            Ok((
                reader.next::<Uuid>()?,
                reader.next::<i64>()?,
                reader.next::<i32>()?,
            ))
        })?;
        let picked = answers.next().unwrap_or_default();
        let picked = read_all(&picked, rows::messages::record)?;
        let messages = without_gaps(picked, &there);
        Ok(Picked { messages, full })
    }

    async fn open_children(&mut self, parent: Uuid, max: usize) -> StoreResult<Vec<Uuid>> {
        let rows = self
            .on_all_shards(|shard| {
                let params = vec![value(shard), value(parent), value(limit(max))];
                Call::new(&runs::OPEN_CHILDREN, params)
            })
            .await?;
        let mut children = read_all(&rows, Reader::next::<Uuid>)?;
        children.sort_unstable();
        children.truncate(max);
        Ok(children)
    }

    async fn purgeable_runs(
        &mut self,
        shard: i32,
        finished_before: Timestamp,
        behind: Option<EndedAt>,
        max: usize,
    ) -> StoreResult<Purgeable> {
        self.find_purgeable(shard, finished_before, behind, max)
            .await
    }

    async fn is_on_its_way(&mut self, run_id: Uuid) -> StoreResult<bool> {
        self.find_on_its_way(run_id).await
    }

    async fn due_purges(&mut self, shard: i32, max: usize) -> StoreResult<Vec<PurgeRecord>> {
        let now = self.now().await?;
        self.find_due_purges(shard, now, max).await
    }

    async fn purge_of(&mut self, run_id: Uuid) -> StoreResult<Option<PurgeRecord>> {
        self.find_purge(run_id).await
    }

    async fn stuck_purges(&mut self, shard: i32, max: usize) -> StoreResult<u64> {
        self.count_stuck(shard, max).await
    }

    async fn delete_belongings(
        &mut self,
        shard: i32,
        purges: &[PurgeRecord],
        limit: SliceLimit,
    ) -> StoreResult<(Slice, Vec<(Uuid, i64)>)> {
        self.slice_belongings(shard, purges, limit).await
    }

    async fn delete_old(
        &mut self,
        rows: OldRows,
        shard: i32,
        before: Timestamp,
        limit: SliceLimit,
    ) -> StoreResult<Slice> {
        let now = self.now().await?;
        self.slice_old(rows, shard, now, before, limit).await
    }

    async fn delete_past(
        &mut self,
        shard: i32,
        before: Timestamp,
        behind: Option<Uuid>,
        runs: usize,
        limit: SliceLimit,
    ) -> StoreResult<(Slice, Option<Uuid>)> {
        self.slice_past(shard, before, behind, runs, limit).await
    }

    async fn old_tombstones(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<(String, Uuid)>> {
        let rows = self
            .on_all_shards(|shard| {
                let params = vec![value(shard), value(at(before)), value(limit(max))];
                Call::new(&keys::OLD_TOMBSTONES, params)
            })
            .await?;
        oldest(&rows, max)
    }

    async fn forget_audit(&mut self, before: Timestamp, max: usize) -> StoreResult<u64> {
        let rows = self.call(rows::audit::forget(before, max)).await?;
        let gone = read_all(&rows, Reader::next::<i64>)?;
        Ok(gone.first().map_or(0, |gone| gone.unsigned_abs()))
    }

    async fn old_slots(
        &mut self,
        before: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<(String, Uuid)>> {
        let now = self.now().await?;
        let rows = self
            .on_all_shards(|shard| {
                let before = value(at(before));
                let params = vec![value(shard), before, value(at(now)), value(limit(max))];
                Call::new(&keys::OLD_SLOTS, params)
            })
            .await?;
        oldest(&rows, max)
    }
}

/// A task that a list found.
fn task_found(row: &mut Reader<'_>) -> StoreResult<TaskFound> {
    Ok(TaskFound {
        run_id: row.next()?,
        task_id: row.next()?,
        bytes: size(row.next()?),
    })
}

/// A size as the database counts it.
fn size(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or_default()
}

/// The oldest keys of all shards.
fn oldest(rows: &[Row], max: usize) -> StoreResult<Vec<(String, Uuid)>> {
    let mut keys = read_all(rows, |row| {
        let (key, run_id): (String, Uuid) = (row.next()?, row.next()?);
        Ok((row.at()?, key, run_id))
    })?;
    keys.sort_unstable();
    keys.truncate(max);
    let named = keys.into_iter().map(|(_, key, run_id)| (key, run_id));
    Ok(named.collect())
}

/// Of each sender, only the messages before which there is none that was not picked: a later one must not overtake.
fn without_gaps(picked: Vec<MessageRecord>, there: &[MessageKey]) -> Vec<MessageRecord> {
    let mut next = BTreeMap::<Uuid, usize>::new();
    for (place, (sender, ..)) in there.iter().enumerate() {
        next.entry(*sender).or_insert(place);
    }
    let mut kept = Vec::with_capacity(picked.len());
    for message in picked {
        let Some(place) = next.get_mut(&message.sender) else {
            continue;
        };
        let key = (message.sender, message.sequence_num, message.idx);
        if there.get(*place) == Some(&key) {
            *place += 1;
            kept.push(message);
        } else {
            // A gap stays one for all that follow it.
            *place = there.len();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::model::Message;

    #[test]
    fn no_message_overtakes_one_that_another_relay_has() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let message = |sender, idx| MessageRecord {
            sender,
            sequence_num: 1,
            idx,
            message: Message::CloseChildren,
        };
        let picked = vec![message(a, 1), message(a, 2), message(b, 0), message(b, 2)];
        let there = [
            (a, 1, 0),
            (a, 1, 1),
            (a, 1, 2),
            (b, 1, 0),
            (b, 1, 1),
            (b, 1, 2),
        ];
        let kept: Vec<_> = without_gaps(picked, &there)
            .iter()
            .map(|m| (m.sender, m.idx))
            .collect();
        assert_eq!(kept, [(b, 0)]);
    }
}
