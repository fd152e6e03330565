//! Updates.

use durable_core::{Failure, Timestamp};
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{UpdateRecord, UpdateState};
use crate::persistence::postgres::bind::{
    Call, at, column, json, maybe_at, nullable, payload, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::updates;
use crate::persistence::sql::rows::UpdateAnswerRow;

/// New updates of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a UpdateRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.run_id),
        column(rows, |r| r.update_id.as_str()),
        column(rows, |r| r.name.as_str()),
        nullable(rows, |r| payload(&r.input)),
        column(rows, |r| r.arrival),
        column(rows, |r| state_name(&r.state)),
        column(rows, |r| result(&r.state)),
        column(rows, |r| error(&r.state)),
        column(rows, |r| at(r.created_at)),
        nullable(rows, |r| maybe_at(r.completed_at)),
    ];
    Call::new(&updates::INSERT_UPDATES, params)
}

/// Answers of a shard.
pub(in crate::persistence::postgres) fn answer<'a>(
    shard: i32,
    now: Timestamp,
    rows: &[&'a UpdateAnswerRow],
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(at(now)),
        column(rows, |r| r.run_id),
        column(rows, |r| r.update_id.as_str()),
        column(rows, |r| state_name(&r.state)),
        column(rows, |r| result(&r.state)),
        column(rows, |r| error(&r.state)),
    ];
    Call::new(&updates::ANSWER_UPDATES, params)
}

/// Open updates of runs of a shard that ended.
pub(in crate::persistence::postgres) fn fail_open<'a>(
    shard: i32,
    now: Timestamp,
    rows: &[&'a (Uuid, Failure)],
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(at(now)),
        column(rows, |(run_id, _)| *run_id),
        column(rows, |(_, failure)| json(failure)),
    ];
    Call::new(&updates::FAIL_OPEN_UPDATES, params)
}

/// An update.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<UpdateRecord> {
    Ok(UpdateRecord {
        run_id: row.next()?,
        update_id: row.next()?,
        name: row.next()?,
        input: row.payload()?,
        arrival: row.next()?,
        state: state(row)?,
        created_at: row.at()?,
        completed_at: row.maybe_at()?,
    })
}

fn state(row: &mut Reader<'_>) -> StoreResult<UpdateState> {
    let name: String = row.next()?;
    let result = row.payload()?;
    let error = row.maybe_json::<Failure>()?;
    Ok(match (name.as_str(), error) {
        ("completed", _) => UpdateState::Completed(result),
        ("failed", Some(failure)) => UpdateState::Failed(failure),
        _ => UpdateState::Pending,
    })
}

fn state_name(state: &UpdateState) -> &'static str {
    match state {
        UpdateState::Pending => "pending",
        UpdateState::Completed(_) => "completed",
        UpdateState::Failed(_) => "failed",
    }
}

fn result(state: &UpdateState) -> Option<&[u8]> {
    match state {
        UpdateState::Completed(result) => payload(result),
        UpdateState::Pending | UpdateState::Failed(_) => None,
    }
}

fn error(state: &UpdateState) -> Option<Vec<u8>> {
    match state {
        UpdateState::Failed(failure) => Some(json(failure)),
        UpdateState::Pending | UpdateState::Completed(_) => None,
    }
}
