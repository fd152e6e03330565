//! Signals.

use crate::persistence::StoreResult;
use crate::persistence::model::SignalRecord;
use crate::persistence::postgres::bind::{Call, at, column, maybe_at, nullable, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::signals;

/// Signals of a shard, new or carried over.
pub(in crate::persistence::postgres) fn put<'a>(shard: i32, rows: &[&'a SignalRecord]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.run_id),
        column(rows, |r| r.signal_id),
        column(rows, |r| r.signal_type.as_str()),
        nullable(rows, |r| payload(&r.payload)),
        column(rows, |r| r.arrival),
        column(rows, |r| at(r.sent_at)),
        nullable(rows, |r| maybe_at(r.processed_at)),
    ];
    Call::new(&signals::PUT_SIGNALS, params)
}

/// A signal.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<SignalRecord> {
    Ok(SignalRecord {
        run_id: row.next()?,
        signal_id: row.next()?,
        signal_type: row.next()?,
        payload: row.payload()?,
        arrival: row.next()?,
        sent_at: row.at()?,
        processed_at: row.maybe_at()?,
    })
}
