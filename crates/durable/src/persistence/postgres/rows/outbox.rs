//! Outbox events.

use crate::persistence::StoreResult;
use crate::persistence::model::{OutboxRecord, OutboxState};
use crate::persistence::postgres::bind::{
    Call, at, column, int, maybe_at, nullable, payload, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::outbox;

/// New events of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a OutboxRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.run_id),
        column(rows, |r| r.event_type.as_str()),
        nullable(rows, |r| payload(&r.payload)),
        nullable(rows, |r| r.idempotency_key.as_deref()),
        column(rows, |r| r.state.as_str()),
        column(rows, |r| int(r.attempts)),
        column(rows, |r| at(r.available_at)),
        nullable(rows, |r| r.token),
        nullable(rows, |r| r.last_error.as_deref()),
        column(rows, |r| at(r.created_at)),
        nullable(rows, |r| maybe_at(r.published_at)),
    ];
    Call::new(&outbox::INSERT_OUTBOX, params)
}

/// Changed events of a shard.
pub(in crate::persistence::postgres) fn update<'a>(
    shard: i32,
    rows: &[&'a OutboxRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.run_id),
        column(rows, |r| r.state.as_str()),
        column(rows, |r| int(r.attempts)),
        column(rows, |r| at(r.available_at)),
        nullable(rows, |r| r.token),
        nullable(rows, |r| r.last_error.as_deref()),
        nullable(rows, |r| maybe_at(r.published_at)),
    ];
    Call::new(&outbox::UPDATE_OUTBOX, params)
}

/// An event; the order is that of `outbox_columns`.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<OutboxRecord> {
    Ok(OutboxRecord {
        id: row.next()?,
        run_id: row.next()?,
        event_type: row.next()?,
        payload: row.payload()?,
        idempotency_key: row.next()?,
        state: row.name(OutboxState::parse)?,
        attempts: row.u32()?,
        available_at: row.at()?,
        token: row.next()?,
        last_error: row.next()?,
        created_at: row.at()?,
        published_at: row.maybe_at()?,
    })
}
