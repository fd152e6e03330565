//! Facts.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use uuid::Uuid;

use super::events::event;
use crate::persistence::StoreResult;
use crate::persistence::limits::{TURN_FACTS_BYTES_MAX, TURN_FACTS_MAX};
use crate::persistence::model::Fact;
use crate::persistence::postgres::bind::{
    Call, at, column, json, json_list, limit, nullable, payload, value,
};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::sql::inbox;
use crate::persistence::sql::rows::UnreadSlice;

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

/// Reads the first facts that wait for runs of a shard, within these bytes.
pub(in crate::persistence::postgres) fn read<'a>(
    shard: i32,
    run_ids: Vec<Uuid>,
    set_bytes: usize,
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(run_ids),
        value(limit(TURN_FACTS_MAX)),
        value(limit(TURN_FACTS_BYTES_MAX)),
        value(limit(set_bytes)),
    ];
    Call::new(&inbox::READ_FACTS, params)
}

/// What waits for a run, as far as a turn takes it.
#[derive(Debug, Default)]
pub(in crate::persistence::postgres) struct Waiting {
    pub(in crate::persistence::postgres) facts: Vec<Fact>,
    pub(in crate::persistence::postgres) last: Option<i64>,
}

/// What waits for each run that has facts.
pub(in crate::persistence::postgres) fn by_run(
    rows: &[Row],
) -> StoreResult<BTreeMap<Uuid, Waiting>> {
    let mut waiting = BTreeMap::<Uuid, Waiting>::new();
    for (run_id, last, fact) in read_all(rows, first)? {
        let of_run = waiting.entry(run_id).or_default();
        of_run.last = of_run.last.max(Some(last));
        of_run.facts.extend(fact);
    }
    Ok(waiting)
}

/// A run, the number of the last fact that waits for it, and a fact of it.
fn first(row: &mut Reader<'_>) -> StoreResult<(Uuid, i64, Option<Fact>)> {
    let (run_id, last) = (row.next()?, row.next()?);
    let taken: bool = row.next()?;
    let fact = taken.then(|| fact(row)).transpose()?;
    Ok((run_id, last, fact))
}

/// A fact and its run.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<(Uuid, Fact)> {
    Ok((row.next()?, fact(row)?))
}

fn fact(row: &mut Reader<'_>) -> StoreResult<Fact> {
    Ok(Fact {
        arrival: row.next()?,
        event: event(row)?,
        attempts: row.json_list()?,
        last_attempt: row.maybe_json()?,
        arrived_at: row.at()?,
    })
}

/// A slice of the signals that wait for a run.
pub(in crate::persistence::postgres) fn slice(
    row: &mut Reader<'_>,
) -> StoreResult<(Uuid, UnreadSlice)> {
    let run_id = row.next()?;
    let slice = UnreadSlice {
        first: row.next()?,
        last: row.next()?,
        signals: row.next()?,
        bytes: row.next()?,
    };
    Ok((run_id, slice))
}
