//! Histories.

use std::ops::ControlFlow;

use durable_core::{Timestamp, WorkflowEvent};
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::limits::{HISTORY_PAGE_BYTES_MAX, HISTORY_PAGE_EVENTS_MAX};
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

/// A waiting signal becomes an unread event; its payload stays in the database.
pub(super) fn keep_unread(
    db: Db<'_>,
    run_id: Uuid,
    arrival: i64,
    sequence_num: i64,
    now: Timestamp,
) -> StoreResult<()> {
    let params = params![db.shard(run_id), Id(run_id), arrival, sequence_num, At(now)];
    db.run(sql::KEEP_UNREAD, params)?;
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

/// A page of them, bounded in rows and bytes.
pub(crate) fn page(
    db: Db<'_>,
    run_id: Uuid,
    after: i64,
    limit: usize,
) -> StoreResult<Vec<HistoryEvent>> {
    let binds = params![db.shard(run_id), Id(run_id), after, rows(limit)];
    let (events, _) = db.page(sql::AFTER, binds, limit, |row| {
        let sequence_num = row.int()?;
        let (event_type, data, payload) = (row.str()?, row.str()?, row.body()?);
        let bytes = data.len() + payload.len();
        let event = HistoryEvent {
            sequence_num,
            event: WorkflowEvent::decode(event_type, data.as_bytes(), payload)?,
            created_at: row.at()?,
        };
        Ok((event, bytes))
    })?;
    Ok(events)
}

/// The first page of the events after a place. Row by row: what is behind the page is not read.
pub(crate) fn history_page(db: Db<'_>, run_id: Uuid, after: i64) -> StoreResult<Vec<HistoryEvent>> {
    let (mut events, mut bytes) = (Vec::new(), 0);
    let params = params![
        db.shard(run_id),
        Id(run_id),
        after,
        rows(HISTORY_PAGE_EVENTS_MAX)
    ];
    db.each(sql::AFTER, params, |row| {
        if bytes >= HISTORY_PAGE_BYTES_MAX {
            return Ok(ControlFlow::Break(()));
        }
        let sequence_num = row.int()?;
        let (event_type, data, payload) = (row.str()?, row.str()?, row.body()?);
        bytes += data.len() + payload.len();
        events.push(HistoryEvent {
            sequence_num,
            event: WorkflowEvent::decode(event_type, data.as_bytes(), payload)?,
            created_at: row.at()?,
        });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

/// `event_type`, `event_data`, `payload`.
pub(super) fn event(row: &mut Cells<'_, '_>) -> StoreResult<WorkflowEvent> {
    let (event_type, data, payload) = (row.str()?, row.str()?, row.body()?);
    Ok(WorkflowEvent::decode(event_type, data.as_bytes(), payload)?)
}
