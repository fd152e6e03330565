//! Log lines of attempts.

use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::{LogLevel, StepLogFilter, StepLogRecord};
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::step_logs as sql;
use crate::persistence::sqlite::value::{At, Body, Id, rows};

/// Writes a line, unless its id exists.
pub(crate) fn insert(db: Db<'_>, log: &StepLogRecord) -> StoreResult<()> {
    db.run(
        sql::INSERT,
        params![
            Id(log.id),
            Id(log.run_id),
            log.activity_id,
            log.attempt,
            log.level.as_str(),
            log.message,
            Body(&log.meta),
            At(log.created_at),
            db.shard(log.run_id),
        ],
    )?;
    Ok(())
}

pub(crate) fn list(
    db: Db<'_>,
    filter: StepLogFilter,
    limit: usize,
    offset: usize,
) -> StoreResult<Vec<StepLogRecord>> {
    let StepLogFilter { run_id, after } = filter;
    db.all(
        sql::LIST,
        params![
            db.shard(run_id),
            Id(run_id),
            after.map(Id),
            rows(limit),
            rows(offset),
        ],
        |row| {
            Ok(StepLogRecord {
                id: row.id()?,
                run_id: row.id()?,
                activity_id: row.text()?,
                attempt: row.int()?,
                level: row.name(LogLevel::parse)?,
                message: row.text()?,
                meta: row.body()?,
                created_at: row.at()?,
            })
        },
    )
}
