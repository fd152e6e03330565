//! Events.

use durable_core::{Timestamp, WorkflowEvent};

use crate::persistence::StoreResult;
use crate::persistence::model::HistoryEvent;
use crate::persistence::postgres::bind::{Call, at, column, nullable, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::events;
use crate::persistence::sql::rows::{EventRow, KeepUnread};

/// New events of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    now: Timestamp,
    rows: &[&'a EventRow],
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(at(now)),
        column(rows, |r| r.run_id),
        column(rows, |r| r.sequence_num),
        column(rows, |r| r.event.event_type),
        column(rows, |r| r.event.data.as_ref()),
        nullable(rows, |r| payload(&r.event.payload)),
    ];
    Call::new(&events::INSERT_EVENTS, params)
}

/// Waiting signals of a shard that become unread events.
pub(in crate::persistence::postgres) fn keep_unread<'a>(
    shard: i32,
    now: Timestamp,
    rows: &[&'a KeepUnread],
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(at(now)),
        column(rows, |r| r.run_id),
        column(rows, |r| r.slice.first),
        column(rows, |r| r.slice.last),
        column(rows, |r| r.sequence),
    ];
    Call::new(&events::KEEP_UNREAD, params)
}

/// An event in its place.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<HistoryEvent> {
    Ok(HistoryEvent {
        sequence_num: row.next()?,
        event: event(row)?,
        created_at: row.at()?,
    })
}

/// An event's three columns.
pub(in crate::persistence::postgres) fn event(row: &mut Reader<'_>) -> StoreResult<WorkflowEvent> {
    let event_type: &str = row.next()?;
    let data: &[u8] = row.next()?;
    let payload = row.payload()?;
    Ok(WorkflowEvent::decode(event_type, data, payload)?)
}
