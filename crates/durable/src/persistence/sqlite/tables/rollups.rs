//! Totals by hour.

use durable_core::Timestamp;
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::{RollupKind, RollupOutcome, RollupRecord};
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::rollups as sql;
use crate::persistence::sqlite::value::{At, Until};

pub(crate) fn add(db: Db<'_>, rollup: &RollupRecord) -> StoreResult<()> {
    db.run(
        sql::ADD,
        params![
            At(rollup.hour),
            rollup.kind.as_str(),
            rollup.name,
            rollup.outcome.as_str(),
            rollup.duration_exp,
            rollup.count,
            rollup.total_ms,
            rollup.wait_ms,
        ],
    )?;
    Ok(())
}

/// Totals since then, in order, the earliest up to so many.
pub(crate) fn since(db: Db<'_>, from: Timestamp, max: usize) -> StoreResult<Vec<RollupRecord>> {
    let mut totals = db.all(
        sql::SINCE,
        params![Until(from), i64::try_from(max).unwrap_or(i64::MAX)],
        |row| {
            Ok(RollupRecord {
                hour: row.at()?,
                kind: row.name(RollupKind::parse)?,
                name: row.text()?,
                outcome: row.name(RollupOutcome::parse)?,
                duration_exp: row.int()?,
                count: row.int()?,
                total_ms: row.int()?,
                wait_ms: row.int()?,
            })
        },
    )?;
    // The order of outcomes is not that of their names.
    totals.sort_unstable();
    Ok(totals)
}
