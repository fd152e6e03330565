//! Log lines.

use crate::persistence::StoreResult;
use crate::persistence::model::{LogLevel, StepLogRecord};
use crate::persistence::postgres::bind::{Call, at, column, int, nullable, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::logs;

/// New lines of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a StepLogRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.run_id),
        column(rows, |r| r.activity_id.as_str()),
        column(rows, |r| int(r.attempt)),
        column(rows, |r| r.level.as_str()),
        column(rows, |r| r.message.as_str()),
        nullable(rows, |r| payload(&r.meta)),
        column(rows, |r| at(r.created_at)),
    ];
    Call::new(&logs::INSERT_LOGS, params)
}

/// A line.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<StepLogRecord> {
    Ok(StepLogRecord {
        id: row.next()?,
        run_id: row.next()?,
        activity_id: row.next()?,
        attempt: row.u32()?,
        level: row.name(LogLevel::parse)?,
        message: row.next()?,
        meta: row.payload()?,
        created_at: row.at()?,
    })
}
