//! Histories.

use durable_core::{Timestamp, WorkflowEvent};
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::HistoryEvent;
use crate::persistence::sql::rows::EventRow;
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::events as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Utf8, rows};

pub(crate) fn insert(db: Db<'_>, row: &EventRow, now: Timestamp) -> StoreResult<()> {
    db.run(
        sql::INSERT,
        params![
            db.shard(row.run_id),
            Id(row.run_id),
            row.sequence_num,
            row.event.event_type,
            Utf8(&row.event.data),
            Body(&row.event.payload),
            At(now),
        ],
    )?;
    Ok(())
}

/// Events after a place, at most so many.
pub(crate) fn after(
    db: Db<'_>,
    run_id: Uuid,
    after: i64,
    limit: usize,
) -> StoreResult<Vec<HistoryEvent>> {
    db.all(
        sql::AFTER,
        params![db.shard(run_id), Id(run_id), after, rows(limit)],
        |row| {
            Ok(HistoryEvent {
                sequence_num: row.int()?,
                event: event(row)?,
                created_at: row.at()?,
            })
        },
    )
}

/// `event_type`, `event_data`, `payload`.
pub(super) fn event(row: &mut Cells<'_, '_>) -> StoreResult<WorkflowEvent> {
    let (event_type, data, payload) = (row.str()?, row.str()?, row.body()?);
    Ok(WorkflowEvent::decode(event_type, data.as_bytes(), payload)?)
}
