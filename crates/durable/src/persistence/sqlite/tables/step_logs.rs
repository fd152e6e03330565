//! Log lines of attempts.

use rusqlite::params;
use rusqlite::types::Null;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{LogLevel, Page, StepLogFilter, StepLogPage, StepLogRecord};
use crate::persistence::sqlite::cells::Cells;
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

pub(crate) fn list(db: Db<'_>, filter: StepLogFilter, page: Page) -> StoreResult<StepLogPage> {
    let StepLogFilter { run_id, after } = filter;
    // One more than the page says whether it is the last.
    let binds = params![
        db.shard(run_id),
        Id(run_id),
        after.map(Id),
        rows(page.rows() + 1),
        rows(page.offset),
    ];
    let most = page.rows();
    let (lines, more) = db.page(sql::LIST, binds, most, |row| {
        let line = record(row)?;
        let bytes = line.message.len() + line.meta.len();
        Ok((line, bytes))
    })?;
    Ok(StepLogPage { lines, more })
}

/// All lines of a run.
pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<StepLogRecord>> {
    let binds = params![db.shard(run_id), Id(run_id), Null, i64::MAX, 0];
    db.all(sql::LIST, binds, record)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<StepLogRecord> {
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
}
