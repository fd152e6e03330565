//! Facts.

use uuid::Uuid;

use super::events::event;
use crate::persistence::StoreResult;
use crate::persistence::model::Fact;
use crate::persistence::postgres::bind::{
    Call, at, column, json, json_list, nullable, payload, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::inbox;

/// New facts of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a (Uuid, Fact)],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |(run_id, _)| *run_id),
        column(rows, |(_, f)| f.arrival),
        column(rows, |(_, f)| f.event.event_type()),
        column(rows, |(_, f)| Vec::from(f.event.encode().data)),
        nullable(rows, |(_, f)| f.event.payload().and_then(payload)),
        nullable(rows, |(_, f)| json_list(&f.attempts)),
        nullable(rows, |(_, f)| f.last_attempt.as_ref().map(json)),
        column(rows, |(_, f)| at(f.arrived_at)),
    ];
    Call::new(&inbox::INSERT_FACTS, params)
}

/// A fact and its run.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<(Uuid, Fact)> {
    let run_id = row.next()?;
    let fact = Fact {
        arrival: row.next()?,
        event: event(row)?,
        attempts: row.json_list()?,
        last_attempt: row.maybe_json()?,
        arrived_at: row.at()?,
    };
    Ok((run_id, fact))
}
