//! Schedules.

use crate::persistence::StoreResult;
use crate::persistence::model::{OverlapPolicy, ScheduleRecord};
use crate::persistence::postgres::bind::{Call, at, column, maybe_at, nullable, payload};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::statement::Statement;

/// Schedules to write, by one of the two statements that do.
pub(in crate::persistence::postgres) fn put<'a>(
    statement: &'static Statement,
    rows: &[&'a ScheduleRecord],
) -> Call<'a> {
    let params = vec![
        column(rows, |r| r.id.as_str()),
        column(rows, |r| r.workflow_type.as_str()),
        column(rows, |r| r.version.as_str()),
        nullable(rows, |r| payload(&r.input)),
        column(rows, |r| r.cron.as_str()),
        column(rows, |r| r.time_zone.as_str()),
        column(rows, |r| r.overlap.as_str()),
        column(rows, |r| r.catchup_window_ms),
        column(rows, |r| r.paused),
        nullable(rows, |r| maybe_at(r.next_fire_at)),
        nullable(rows, |r| maybe_at(r.last_fire_at)),
        column(rows, |r| r.last_run),
        column(rows, |r| at(r.created_at)),
        column(rows, |r| at(r.updated_at)),
    ];
    Call::new(statement, params)
}

/// A schedule; the order is that of `schedule_columns`.
pub(in crate::persistence::postgres) fn record(
    row: &mut Reader<'_>,
) -> StoreResult<ScheduleRecord> {
    Ok(ScheduleRecord {
        id: row.next()?,
        workflow_type: row.next()?,
        version: row.next()?,
        input: row.payload()?,
        cron: row.next()?,
        time_zone: row.next()?,
        overlap: row.name(OverlapPolicy::parse)?,
        catchup_window_ms: row.next()?,
        paused: row.next()?,
        next_fire_at: row.maybe_at()?,
        last_fire_at: row.maybe_at()?,
        last_run: row.next()?,
        created_at: row.at()?,
        updated_at: row.at()?,
    })
}
