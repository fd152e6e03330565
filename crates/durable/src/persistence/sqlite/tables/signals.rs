//! The ledger of signals.

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::SignalRecord;
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::signals as sql;
use crate::persistence::sqlite::value::{At, Body, Id};

pub(crate) fn put(db: Db<'_>, signal: &SignalRecord) -> StoreResult<()> {
    db.run(
        sql::PUT,
        params![
            Id(signal.run_id),
            Id(signal.signal_id),
            signal.signal_type,
            Body(&signal.payload),
            signal.arrival,
            At(signal.sent_at),
            signal.processed_at.map(At),
            db.shard(signal.run_id),
        ],
    )?;
    Ok(())
}

/// Notes that a turn has taken those that arrived up to there.
pub(super) fn mark(db: Db<'_>, run_id: Uuid, through: i64, now: Timestamp) -> StoreResult<()> {
    db.run(
        sql::MARK,
        params![db.shard(run_id), Id(run_id), through, At(now)],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, run_id: Uuid, signal_id: Uuid) -> StoreResult<Option<SignalRecord>> {
    db.first(
        sql::GET,
        params![db.shard(run_id), Id(run_id), Id(signal_id)],
        record,
    )
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<SignalRecord>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<SignalRecord> {
    Ok(SignalRecord {
        run_id: row.id()?,
        signal_id: row.id()?,
        signal_type: row.text()?,
        payload: row.body()?,
        arrival: row.int()?,
        sent_at: row.at()?,
        processed_at: row.at_opt()?,
    })
}
