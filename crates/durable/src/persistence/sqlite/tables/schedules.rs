//! Schedules.

use durable_core::Timestamp;
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::{OverlapPolicy, Page, ScheduleFilter, ScheduleRecord};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::schedules as sql;
use crate::persistence::sqlite::value::{At, Body, Id, rows};

/// Creates or replaces a schedule; the past of one that exists is kept.
pub(crate) fn put(db: Db<'_>, schedule: &ScheduleRecord) -> StoreResult<()> {
    write(db, sql::PUT, schedule).map(drop)
}

/// Creates a schedule. False: there is one.
pub(crate) fn create(db: Db<'_>, schedule: &ScheduleRecord) -> StoreResult<bool> {
    Ok(write(db, sql::CREATE, schedule)? > 0)
}

/// Writes a schedule that fired, its past included.
pub(crate) fn put_fired(db: Db<'_>, schedule: &ScheduleRecord) -> StoreResult<()> {
    write(db, sql::PUT_FIRED, schedule).map(drop)
}

/// Answers how many rows it wrote.
fn write(db: Db<'_>, put: &'static str, schedule: &ScheduleRecord) -> StoreResult<usize> {
    db.run(
        put,
        params![
            schedule.id,
            schedule.workflow_type,
            schedule.version,
            Body(&schedule.input),
            schedule.cron,
            schedule.time_zone,
            schedule.overlap.as_str(),
            schedule.catchup_window_ms,
            schedule.paused,
            schedule.next_fire_at.map(At),
            schedule.last_fire_at.map(At),
            schedule.last_run.map(Id),
            At(schedule.created_at),
            At(schedule.updated_at),
        ],
    )
}

pub(crate) fn get(db: Db<'_>, id: &str) -> StoreResult<Option<ScheduleRecord>> {
    db.first(sql::GET, [id], record)
}

pub(crate) fn list(
    db: Db<'_>,
    filter: &ScheduleFilter,
    page: Page,
) -> StoreResult<Vec<ScheduleRecord>> {
    db.all(
        sql::LIST,
        params![filter.after, rows(page.rows()), rows(page.offset)],
        record,
    )
}

/// All schedules, by id.
pub(crate) fn dump(db: Db<'_>) -> StoreResult<Vec<ScheduleRecord>> {
    db.all(sql::DUMP, [], record)
}

pub(crate) fn due(db: Db<'_>, now: Timestamp, max: usize) -> StoreResult<Vec<ScheduleRecord>> {
    db.all(sql::DUE, params![At(now), rows(max)], record)
}

pub(crate) fn delete(db: Db<'_>, id: &str) -> StoreResult<bool> {
    Ok(db.run(sql::DELETE, [id])? > 0)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<ScheduleRecord> {
    Ok(ScheduleRecord {
        id: row.text()?,
        workflow_type: row.text()?,
        version: row.text()?,
        input: row.body()?,
        cron: row.text()?,
        time_zone: row.text()?,
        overlap: row.name(OverlapPolicy::parse)?,
        catchup_window_ms: row.int()?,
        paused: row.flag()?,
        next_fire_at: row.at_opt()?,
        last_fire_at: row.at_opt()?,
        last_run: row.id_opt()?,
        created_at: row.at()?,
        updated_at: row.at()?,
    })
}
