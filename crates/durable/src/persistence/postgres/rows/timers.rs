//! Timers.

use crate::persistence::StoreResult;
use crate::persistence::model::TimerRecord;
use crate::persistence::postgres::bind::{Call, at, column, int, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::timers;

/// New timers of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a TimerRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.run_id),
        column(rows, |r| r.timer_id.as_str()),
        column(rows, |r| at(r.fire_at)),
        column(rows, |r| int(r.epoch)),
    ];
    Call::new(&timers::INSERT_TIMERS, params)
}

/// A timer.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<TimerRecord> {
    Ok(TimerRecord {
        run_id: row.next()?,
        timer_id: row.next()?,
        fire_at: row.at()?,
        epoch: row.u32()?,
    })
}
