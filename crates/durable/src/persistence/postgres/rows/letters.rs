//! Dead letters.

use durable_core::Payload;

use crate::persistence::StoreResult;
use crate::persistence::model::{DeadLetter, DeadLetterState, brief_failure};
use crate::persistence::postgres::bind::{
    Call, at, column, int, json, maybe_at, nullable, payload, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::letters;

/// Changed letters of a shard.
pub(in crate::persistence::postgres) fn put<'a>(shard: i32, rows: &[&'a DeadLetter]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.run_id),
        column(rows, |r| r.activity_id.as_str()),
        column(rows, |r| r.activity_type.as_str()),
        nullable(rows, |r| payload(&r.input)),
        column(rows, |r| json(&r.options)),
        column(rows, |r| int(r.epoch)),
        column(rows, |r| int(r.attempts)),
        column(rows, |r| json(&r.last_error)),
        column(rows, |r| json(&r.error_history)),
        column(rows, |r| r.parked),
        column(rows, |r| r.state.as_str()),
        column(rows, |r| at(r.dead_at)),
        nullable(rows, |r| maybe_at(r.requeued_at)),
        column(rows, |r| int(r.requeue_count)),
    ];
    Call::new(&letters::PUT_LETTERS, params)
}

/// Letters of tasks of a shard that are still in the queue, which has their inputs.
pub(in crate::persistence::postgres) fn bury<'a>(shard: i32, rows: &[&'a DeadLetter]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.run_id),
        column(rows, |r| r.activity_id.as_str()),
        column(rows, |r| r.activity_type.as_str()),
        column(rows, |r| json(&r.options)),
        column(rows, |r| int(r.epoch)),
        column(rows, |r| int(r.attempts)),
        column(rows, |r| json(&r.last_error)),
        column(rows, |r| json(&r.error_history)),
        column(rows, |r| r.parked),
        column(rows, |r| r.state.as_str()),
        column(rows, |r| at(r.dead_at)),
        nullable(rows, |r| maybe_at(r.requeued_at)),
        column(rows, |r| int(r.requeue_count)),
    ];
    Call::new(&letters::BURY_TASKS, params)
}

/// A letter; the order is that of `letter_columns`.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<DeadLetter> {
    Ok(DeadLetter {
        id: row.next()?,
        run_id: row.next()?,
        activity_id: row.next()?,
        activity_type: row.next()?,
        input: row.payload()?,
        options: row.json()?,
        epoch: row.u32()?,
        attempts: row.u32()?,
        last_error: row.json()?,
        error_history: row.json()?,
        parked: row.next()?,
        state: row.name(DeadLetterState::parse)?,
        dead_at: row.at()?,
        requeued_at: row.maybe_at()?,
        requeue_count: row.u32()?,
    })
}

/// A letter as lists show it; the order is that of `listed_letter_columns`.
pub(in crate::persistence::postgres) fn listed(row: &mut Reader<'_>) -> StoreResult<DeadLetter> {
    Ok(DeadLetter {
        id: row.next()?,
        run_id: row.next()?,
        activity_id: row.next()?,
        activity_type: row.next()?,
        input: Payload::ABSENT,
        options: row.json()?,
        epoch: row.u32()?,
        attempts: row.u32()?,
        last_error: brief_failure(row.next()?),
        error_history: Vec::new(),
        parked: row.next()?,
        state: row.name(DeadLetterState::parse)?,
        dead_at: row.at()?,
        requeued_at: row.maybe_at()?,
        requeue_count: row.u32()?,
    })
}
