//! Slices of deletions: rows that nothing reads any more.

use durable_core::Timestamp;
use uuid::Uuid;

use super::PgTx;
use crate::persistence::StoreResult;
use crate::persistence::limits::ROLLUP_DAYS;
use crate::persistence::postgres::bind::{Call, at, limit, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::sql::purge;
use crate::persistence::postgres::statement::Statement;
use crate::persistence::sql::intents::retention::days_before;
use crate::persistence::sql::rows::{EndedAt, OldRows, PurgeRecord, Purgeable, Slice, SliceLimit};

/// What belongs to a run beside its events. Dead letters first: they are listed without their run.
const BELONGINGS: [&Statement; 10] = [
    &purge::PURGE_LETTERS,
    &purge::PURGE_ATTRIBUTES,
    &purge::PURGE_FACTS,
    &purge::PURGE_SIGNALS,
    &purge::PURGE_UPDATES,
    &purge::PURGE_OUTBOX,
    &purge::PURGE_LOGS,
    &purge::PURGE_HUMAN_TASKS,
    &purge::PURGE_TASKS,
    &purge::PURGE_TIMERS,
];

/// A run whose rows are to be deleted.
fn purge_record(row: &mut Reader<'_>) -> StoreResult<PurgeRecord> {
    Ok(PurgeRecord {
        run_id: row.next()?,
        idempotency_key: row.next()?,
        business_id: row.next()?,
        failures: row.next()?,
        events_through: row.next()?,
    })
}

/// Rows and bytes that a statement deleted.
fn deleted(rows: &[tokio_postgres::Row], limit: SliceLimit) -> StoreResult<Slice> {
    let counts = read_all(rows, |row| Ok((row.next::<i64>()?, row.next::<i64>()?)))?;
    let (rows, bytes) = counts.first().copied().unwrap_or_default();
    let rows = u64::try_from(rows).unwrap_or(0);
    Ok(Slice {
        rows,
        more: rows >= limit.rows as u64 || bytes >= limit.bytes,
    })
}

impl PgTx<'_> {
    pub(super) async fn find_purgeable(
        &mut self,
        shard: i32,
        finished_before: Timestamp,
        behind: Option<EndedAt>,
        max: usize,
    ) -> StoreResult<Purgeable> {
        let (ended_at, id) = behind.unwrap_or((first_instant(), Uuid::nil()));
        let params = vec![
            value(shard),
            value(at(finished_before)),
            value(at(ended_at)),
            value(id),
            value(limit(max)),
        ];
        let rows = self.call(Call::new(&purge::PURGEABLE_RUNS, params)).await?;
        let found = read_all(&rows, |row| {
            let ended: EndedAt = (row.at()?, row.next()?);
            Ok((ended, row.next::<i64>()?, row.next::<bool>()?))
        })?;
        let next = found
            .last()
            .filter(|_| found.len() >= max)
            .map(|(ended, _, _)| *ended);
        let free: Vec<_> = found.into_iter().filter(|(_, _, free)| *free).collect();
        if free.is_empty() {
            return Ok(Purgeable {
                runs: Vec::new(),
                next,
            });
        }
        let ids: Vec<Uuid> = free.iter().map(|((_, id), _, _)| *id).collect();
        let params = vec![value(shard), value(ids)];
        let rows = self.call(Call::new(&purge::LOCK_PURGEABLE, params)).await?;
        let mut locked = read_all(&rows, Reader::next::<Uuid>)?;
        locked.sort_unstable();
        let runs = free
            .into_iter()
            .filter(|((_, id), _, _)| locked.binary_search(id).is_ok())
            .map(|(ended, bytes, _)| (ended, bytes))
            .collect();
        Ok(Purgeable { runs, next })
    }

    pub(super) async fn find_on_its_way(&mut self, run_id: Uuid) -> StoreResult<bool> {
        let params = vec![value(self.shards.of_run(run_id)), value(run_id)];
        let rows = self.call(Call::new(&purge::ON_ITS_WAY, params)).await?;
        let found = read_all(&rows, Reader::next::<bool>)?;
        Ok(found.first().copied().unwrap_or_default())
    }

    pub(super) async fn find_due_purges(
        &mut self,
        shard: i32,
        now: Timestamp,
        max: usize,
    ) -> StoreResult<Vec<PurgeRecord>> {
        let params = vec![value(shard), value(at(now)), value(limit(max))];
        let rows = self.call(Call::new(&purge::DUE_PURGES, params)).await?;
        read_all(&rows, purge_record)
    }

    pub(super) async fn find_purge(&mut self, run_id: Uuid) -> StoreResult<Option<PurgeRecord>> {
        let params = vec![value(self.shards.of_run(run_id)), value(run_id)];
        let rows = self.call(Call::new(&purge::PURGE_OF, params)).await?;
        Ok(read_all(&rows, purge_record)?.pop())
    }

    pub(super) async fn count_stuck(&mut self, shard: i32, max: usize) -> StoreResult<u64> {
        let params = vec![value(shard), value(limit(max))];
        let rows = self.call(Call::new(&purge::STUCK_PURGES, params)).await?;
        let found = read_all(&rows, Reader::next::<i64>)?;
        let stuck = found.first().copied().unwrap_or_default();
        Ok(u64::try_from(stuck).unwrap_or(0))
    }

    pub(super) async fn slice_belongings(
        &mut self,
        shard: i32,
        purges: &[PurgeRecord],
        max: SliceLimit,
    ) -> StoreResult<(Slice, Vec<(Uuid, i64)>)> {
        let runs: Vec<Uuid> = purges.iter().map(|purge| purge.run_id).collect();
        let behind: Vec<i64> = purges.iter().map(|purge| purge.events_through).collect();
        let mut calls: Vec<_> = BELONGINGS
            .into_iter()
            .map(|statement| {
                let params = vec![
                    value(shard),
                    value(runs.as_slice()),
                    value(limit(max.rows)),
                    value(max.bytes),
                ];
                Call::new(statement, params)
            })
            .collect();
        let params = vec![
            value(shard),
            value(runs.as_slice()),
            value(behind),
            value(limit(max.rows)),
            value(max.bytes),
        ];
        calls.push(Call::new(&purge::PURGE_EVENTS, params));
        let mut answers = self.flight(&calls).await?;
        let events = answers.pop().unwrap_or_default();
        let mut all = Slice::default();
        for rows in answers {
            let slice = deleted(&rows, max)?;
            all.rows += slice.rows;
            all.more |= slice.more;
        }
        let (mut rows, mut bytes) = (0_u64, 0_i64);
        let through = read_all(&events, |row| {
            let through: (Uuid, i64) = (row.next()?, row.next()?);
            Ok((through, row.next::<i64>()?, row.next::<i64>()?))
        })?;
        for (_, count, size) in &through {
            rows += u64::try_from(*count).unwrap_or(0);
            bytes += size;
        }
        all.rows += rows;
        all.more |= rows >= max.rows as u64 || bytes >= max.bytes;
        let through = through.into_iter().map(|(through, _, _)| through).collect();
        Ok((all, through))
    }

    pub(super) async fn slice_old(
        &mut self,
        rows: OldRows,
        shard: i32,
        now: Timestamp,
        before: Timestamp,
        max: SliceLimit,
    ) -> StoreResult<Slice> {
        let statement = match rows {
            OldRows::Signals => &purge::OLD_SIGNALS,
            OldRows::Updates => &purge::OLD_UPDATES,
            OldRows::Logs => &purge::OLD_LOGS,
            OldRows::Outbox => &purge::OLD_OUTBOX,
            OldRows::Letters => &purge::OLD_LETTERS,
            OldRows::Results => &purge::OLD_RESULTS,
            OldRows::Workers => &purge::OLD_WORKERS,
            OldRows::Rollups => return self.fold_rollups(shard, now, before, max).await,
        };
        let params = vec![
            value(shard),
            value(at(before)),
            value(limit(max.rows)),
            value(max.bytes),
        ];
        let found = self.call(Call::new(statement, params)).await?;
        deleted(&found, max)
    }

    async fn fold_rollups(
        &mut self,
        shard: i32,
        now: Timestamp,
        before: Timestamp,
        max: SliceLimit,
    ) -> StoreResult<Slice> {
        let params = vec![
            value(shard),
            value(at(before)),
            value(at(days_before(now, ROLLUP_DAYS))),
            value(limit(max.rows)),
        ];
        let rows = self.call(Call::new(&purge::OLD_ROLLUPS, params)).await?;
        let counts = read_all(&rows, |row| Ok((row.next::<i64>()?, row.next::<i64>()?)))?;
        let (read, folded) = counts.first().copied().unwrap_or_default();
        Ok(Slice {
            rows: u64::try_from(folded).unwrap_or(0),
            more: u64::try_from(read).unwrap_or(0) >= max.rows as u64,
        })
    }

    pub(super) async fn slice_past(
        &mut self,
        shard: i32,
        before: Timestamp,
        behind: Option<Uuid>,
        runs: usize,
        max: SliceLimit,
    ) -> StoreResult<(Slice, Option<Uuid>)> {
        let behind = behind.unwrap_or(Uuid::nil());
        let params = vec![value(shard), value(behind), value(limit(runs))];
        let rows = self.call(Call::new(&purge::PAST_RUNS, params)).await?;
        let found = read_all(&rows, |row| {
            Ok((row.next::<Uuid>()?, row.next::<i64>()?, row.next::<i64>()?))
        })?;
        let Some((last, _, _)) = found.last() else {
            return Ok((Slice::default(), None));
        };
        let next = (found.len() >= runs).then_some(*last);
        let ids: Vec<Uuid> = found.iter().map(|(id, _, _)| *id).collect();
        let starts: Vec<i64> = found.iter().map(|(_, start, _)| *start).collect();
        let purged: Vec<i64> = found.iter().map(|(_, _, purged)| *purged).collect();
        let delete = Call::new(
            &purge::DELETE_PAST,
            vec![
                value(shard),
                value(ids.clone()),
                value(purged),
                value(starts),
                value(at(before)),
                value(limit(max.rows)),
                value(max.bytes),
            ],
        );
        let mark = Call::new(&purge::MARK_PAST, vec![value(shard), value(ids)]);
        let answers = self.flight(&[delete, mark]).await?;
        let slice = deleted(answers.first().map_or(&[], Vec::as_slice), max)?;
        Ok((slice, next))
    }
}

/// Before every instant that is stored.
fn first_instant() -> Timestamp {
    Timestamp::from_second(-62_135_596_800).unwrap_or(Timestamp::UNIX_EPOCH)
}
