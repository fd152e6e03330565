//! Deletions in slices.

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use super::rollups;
use crate::persistence::StoreResult;
use crate::persistence::limits::ROLLUP_DAYS;
use crate::persistence::model::{RollupKind, RollupOutcome, RollupRecord};
use crate::persistence::sql::intents::retention::days_before;
use crate::persistence::sql::rows::{
    EndedAt, OldRows, PostponedPurge, PurgeRecord, Purgeable, Slice, SliceLimit,
};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::purges::{self as sql, BELONGINGS, Belonging};
use crate::persistence::sqlite::value::{At, Id, Until, rows};

pub(crate) fn purgeable(
    db: Db<'_>,
    shard: i32,
    finished_before: Timestamp,
    behind: Option<EndedAt>,
    max: usize,
) -> StoreResult<Purgeable> {
    let behind_at = behind.map_or(i64::MIN, |(at, _)| at.as_microsecond());
    let behind_id = behind.map_or(Uuid::nil(), |(_, id)| id);
    let found = db.all(
        sql::PURGEABLE,
        params![
            shard,
            Until(finished_before),
            behind_at,
            Id(behind_id),
            rows(max)
        ],
        |row| {
            let ended: EndedAt = (row.at()?, row.id()?);
            Ok((ended, row.int::<i64>()?, row.flag()?))
        },
    )?;
    let next = found
        .last()
        .filter(|_| found.len() >= max)
        .map(|(ended, _, _)| *ended);
    let free = found.into_iter().filter(|(_, _, free)| *free);
    Ok(Purgeable {
        runs: free.map(|(ended, bytes, _)| (ended, bytes)).collect(),
        next,
    })
}

pub(crate) fn is_on_its_way(db: Db<'_>, run_id: Uuid) -> StoreResult<bool> {
    db.one(
        sql::ON_ITS_WAY,
        params![db.shard(run_id), Id(run_id)],
        |row| row.flag(),
    )
}

/// Deletes a run and notes that its rows are still to be deleted.
pub(crate) fn insert(db: Db<'_>, purge: &PurgeRecord, now: Timestamp) -> StoreResult<()> {
    let PurgeRecord {
        run_id,
        idempotency_key,
        business_id,
        ..
    } = purge;
    db.run(
        sql::INSERT,
        params![
            db.shard(*run_id),
            Id(*run_id),
            idempotency_key,
            business_id,
            At(now)
        ],
    )?;
    Ok(())
}

pub(crate) fn postpone(db: Db<'_>, purge: &PostponedPurge) -> StoreResult<()> {
    db.run(
        sql::POSTPONE,
        params![
            db.shard(purge.run_id),
            Id(purge.run_id),
            purge.failures,
            At(purge.retry_at),
            purge.error
        ],
    )?;
    Ok(())
}

pub(crate) fn delete(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DELETE, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<PurgeRecord> {
    Ok(PurgeRecord {
        run_id: row.id()?,
        idempotency_key: row.text_opt()?,
        business_id: row.text_opt()?,
        failures: row.int()?,
        events_through: 0,
    })
}

pub(crate) fn due(
    db: Db<'_>,
    shard: i32,
    now: Timestamp,
    max: usize,
) -> StoreResult<Vec<PurgeRecord>> {
    db.all(sql::DUE, params![shard, At(now), rows(max)], record)
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Option<PurgeRecord>> {
    db.first(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

pub(crate) fn stuck(db: Db<'_>, shard: i32, max: usize) -> StoreResult<u64> {
    db.one(sql::STUCK, params![shard, rows(max)], |row| row.int())
}

/// Deletes the first rows that belong to deleted runs. The limit is for all of them together: all
/// writes wait for this one.
pub(crate) fn delete_belongings(
    db: Db<'_>,
    shard: i32,
    runs: &[Uuid],
    limit: SliceLimit,
) -> StoreResult<Slice> {
    let mut left = limit;
    let mut gone = 0;
    for run_id in runs {
        for Belonging { size, delete } in BELONGINGS {
            let (count, bytes) = db.one(
                size,
                params![shard, Id(*run_id), rows(left.rows), left.bytes],
                |row| Ok((row.int::<usize>()?, row.int::<i64>()?)),
            )?;
            if count == 0 {
                continue;
            }
            db.run(delete, params![shard, Id(*run_id), rows(count - 1)])?;
            gone += count as u64;
            left.rows -= count.min(left.rows);
            left.bytes -= bytes;
            if left.rows == 0 || left.bytes <= 0 {
                return Ok(Slice {
                    rows: gone,
                    more: true,
                });
            }
        }
    }
    Ok(Slice {
        rows: gone,
        more: false,
    })
}

/// Deletes rows that are old.
pub(crate) fn delete_old(
    db: Db<'_>,
    old: OldRows,
    shard: i32,
    now: Timestamp,
    before: Timestamp,
    limit: SliceLimit,
) -> StoreResult<Slice> {
    let Belonging { size, delete } = match old {
        OldRows::Signals => sql::SIGNALS,
        OldRows::Updates => sql::UPDATES,
        OldRows::Logs => sql::LOGS,
        OldRows::Outbox => sql::OUTBOX,
        OldRows::Letters => sql::LETTERS,
        OldRows::Results => sql::RESULTS,
        OldRows::Workers => sql::WORKERS,
        // The totals of all shards stand together.
        OldRows::Rollups if shard == 0 => return fold_rollups(db, now, before, limit),
        OldRows::Rollups => return Ok(Slice::default()),
    };
    let (count, bytes) = db.one(
        size,
        params![shard, Until(before), rows(limit.rows), limit.bytes],
        |row| Ok((row.int::<usize>()?, row.int::<i64>()?)),
    )?;
    if count > 0 {
        db.run(delete, params![shard, Until(before), rows(count)])?;
    }
    Ok(Slice {
        rows: count as u64,
        more: count >= limit.rows || bytes >= limit.bytes,
    })
}

/// Adds totals of old hours to those of their day, and those of very old days to one row.
fn fold_rollups(
    db: Db<'_>,
    now: Timestamp,
    before: Timestamp,
    limit: SliceLimit,
) -> StoreResult<Slice> {
    let long_before = days_before(now, ROLLUP_DAYS);
    let old = db.all(
        sql::OLD_ROLLUPS,
        params![Until(before), Until(long_before), rows(limit.rows)],
        |row| {
            let record = RollupRecord {
                hour: row.at()?,
                kind: row.name(RollupKind::parse)?,
                name: row.text()?,
                outcome: row.name(RollupOutcome::parse)?,
                duration_exp: row.int()?,
                count: row.int()?,
                total_ms: row.int()?,
                wait_ms: row.int()?,
            };
            Ok((record, row.at()?))
        },
    )?;
    let count = old.len();
    for (mut record, day) in old {
        db.run(
            sql::DELETE_ROLLUP,
            params![
                At(record.hour),
                record.kind.as_str(),
                record.name,
                record.outcome.as_str(),
                record.duration_exp
            ],
        )?;
        record.hour = day;
        rollups::add(db, &record)?;
    }
    Ok(Slice {
        rows: count as u64,
        more: count >= limit.rows,
    })
}

/// Deletes events of earlier iterations.
pub(crate) fn delete_past(
    db: Db<'_>,
    shard: i32,
    before: Timestamp,
    behind: Option<Uuid>,
    runs: usize,
    limit: SliceLimit,
) -> StoreResult<(Slice, Option<Uuid>)> {
    let behind = behind.unwrap_or(Uuid::nil());
    let found = db.all(
        sql::PAST_RUNS,
        params![shard, Id(behind), rows(runs)],
        |row| Ok((row.id()?, row.int::<i64>()?, row.int::<i64>()?)),
    )?;
    let next = found
        .last()
        .filter(|_| found.len() >= runs)
        .map(|(id, _, _)| *id);
    let mut left = limit;
    let mut gone = 0;
    for (run_id, history_start, purged_through) in found {
        let (count, bytes, last) = db.one(
            sql::PAST_SIZE,
            params![
                shard,
                Id(run_id),
                purged_through,
                history_start,
                Until(before),
                rows(left.rows),
                left.bytes
            ],
            |row| Ok((row.int::<usize>()?, row.int::<i64>()?, row.int::<i64>()?)),
        )?;
        if count == 0 {
            continue;
        }
        db.run(sql::DELETE_PAST, params![shard, Id(run_id), last])?;
        db.run(sql::MARK_PAST, params![shard, Id(run_id), last])?;
        gone += count as u64;
        left.rows -= count.min(left.rows);
        left.bytes -= bytes;
        if left.rows == 0 || left.bytes <= 0 {
            let slice = Slice {
                rows: gone,
                more: true,
            };
            return Ok((slice, next));
        }
    }
    let slice = Slice {
        rows: gone,
        more: false,
    };
    Ok((slice, next))
}
