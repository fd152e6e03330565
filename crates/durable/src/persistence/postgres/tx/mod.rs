//! One transaction: flights of statements, each one round trip.

mod apply;
mod claim;
mod load;
mod registry;

pub(super) use claim::facts_by_run;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use durable_core::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::bind::{Call, at, limit, value};
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
use crate::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTurn, MessageRecord, OutboxRecord, TaskRecord, cut,
};
use crate::persistence::sql::rows::{Changes, Load, Loaded, MessageKey, RegistryWrite, Touched};
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
            missing_tombstones: BTreeSet::new(),
        }
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
    ) -> StoreResult<Vec<Row>> {
        let now = self.now().await?;
        let params = vec![value(shard), value(at(now)), value(limit(max))];
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

    async fn due_runs(&mut self, shard: i32, max: usize) -> StoreResult<Vec<Uuid>> {
        let rows = self.due(&due::DUE_RUNS, shard, max).await?;
        read_all(&rows, Reader::next)
    }

    async fn due_timers(&mut self, shard: i32, max: usize) -> StoreResult<Vec<(Uuid, String)>> {
        let rows = self.due(&due::DUE_TIMERS, shard, max).await?;
        read_all(&rows, |row| Ok((row.next()?, row.next()?)))
    }

    async fn due_tasks(&mut self, shard: i32, max: usize) -> StoreResult<Vec<(Uuid, Uuid)>> {
        let rows = self.due(&due::DUE_TASKS, shard, max).await?;
        read_all(&rows, |row| Ok((row.next()?, row.next()?)))
    }

    async fn expired_leases(&mut self, shard: i32, max: usize) -> StoreResult<Vec<(Uuid, Uuid)>> {
        let rows = self.due(&due::EXPIRED_LEASES, shard, max).await?;
        read_all(&rows, |row| Ok((row.next()?, row.next()?)))
    }

    async fn next_due(&mut self) -> StoreResult<Option<Timestamp>> {
        let rows = self
            .on_all_shards(|shard| Call::new(&due::NEXT_DUE, vec![value(shard)]))
            .await?;
        let instants = read_all(&rows, Reader::maybe_at)?;
        Ok(instants.into_iter().flatten().min())
    }

    async fn pick_messages(&mut self, shard: i32, max: usize) -> StoreResult<Vec<MessageRecord>> {
        let params = vec![value(shard), value(limit(max))];
        let rows = self
            .call(Call::new(&messages::PICK_MESSAGES, params))
            .await?;
        let picked = read_all(&rows, rows::messages::record)?;
        if picked.is_empty() {
            return Ok(picked);
        }
        // Another relay may have a sender's earlier messages; its deletions do not show here until it has committed.
        let senders: BTreeSet<Uuid> = picked.iter().map(|message| message.sender).collect();
        let senders: Vec<Uuid> = senders.into_iter().collect();
        let params = vec![value(shard), value(senders)];
        let rows = self.call(Call::new(&messages::MESSAGES_OF, params)).await?;
        let there = read_all(&rows, |reader| {
            Ok((
                reader.next::<Uuid>()?,
                reader.next::<i64>()?,
                reader.next::<i32>()?,
            ))
        })?;
        Ok(without_gaps(picked, &there))
    }

    async fn open_children(&mut self, parent: Uuid) -> StoreResult<Vec<Uuid>> {
        let rows = self
            .on_all_shards(|shard| {
                Call::new(&runs::OPEN_CHILDREN, vec![value(shard), value(parent)])
            })
            .await?;
        let mut children = read_all(&rows, Reader::next::<Uuid>)?;
        children.sort_unstable();
        Ok(children)
    }

    async fn purgeable_runs(
        &mut self,
        shard: i32,
        finished_before: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<Uuid>> {
        let params = vec![value(shard), value(at(finished_before)), value(limit(max))];
        let rows = self.call(Call::new(&runs::PURGEABLE_RUNS, params)).await?;
        read_all(&rows, Reader::next)
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
