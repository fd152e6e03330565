//! Timers.

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::TimerRecord;
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::timers as sql;
use crate::persistence::sqlite::value::{At, Id, hex_list, rows};

pub(crate) fn insert(db: Db<'_>, timer: &TimerRecord) -> StoreResult<()> {
    db.run(
        sql::INSERT,
        params![
            Id(timer.run_id),
            timer.timer_id,
            At(timer.fire_at),
            timer.epoch,
            db.shard(timer.run_id),
        ],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, run_id: Uuid, timer_id: &str) -> StoreResult<Option<TimerRecord>> {
    db.first(
        sql::GET,
        params![db.shard(run_id), Id(run_id), timer_id],
        record,
    )
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<TimerRecord>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

pub(crate) fn delete(db: Db<'_>, run_id: Uuid, timer_id: &str) -> StoreResult<()> {
    db.run(sql::DELETE, params![db.shard(run_id), Id(run_id), timer_id])?;
    Ok(())
}

pub(crate) fn delete_of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DELETE_OF_RUN, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}

pub(crate) fn due(
    db: Db<'_>,
    shard: i32,
    now: Timestamp,
    max: usize,
    except: &[Uuid],
) -> StoreResult<Vec<(Uuid, String)>> {
    let params = params![shard, At(now), rows(max), hex_list(except)];
    db.all(sql::DUE, params, |row| Ok((row.id()?, row.text()?)))
}

pub(crate) fn next_due(db: Db<'_>, shard: i32, except: &[Uuid]) -> StoreResult<Option<Timestamp>> {
    db.first(sql::NEXT_DUE, params![shard, hex_list(except)], |row| {
        row.at()
    })
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<TimerRecord> {
    Ok(TimerRecord {
        run_id: row.id()?,
        timer_id: row.text()?,
        fire_at: row.at()?,
        epoch: row.int()?,
    })
}
