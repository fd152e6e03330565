//! Circuit breakers.

use durable_core::{CircuitState, Timestamp};
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::BreakerRecord;
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::breakers as sql;
use crate::persistence::sqlite::value::{At, Body, Until};

/// Saves a breaker as its next version, if nobody else has since it was read.
pub(crate) fn save(db: Db<'_>, breaker: &BreakerRecord, now: Timestamp) -> StoreResult<bool> {
    let state = name(breaker.state);
    let opened_at = breaker.opened_at.map(At);
    let data = Body(&breaker.data);
    let next = breaker.version + 1;
    let (key, failures, successes) = (&breaker.key, breaker.failure_count, breaker.success_count);
    let now = At(now);
    let saved = if breaker.version == 0 {
        db.run(
            sql::INSERT,
            params![key, state, failures, successes, opened_at, data, next, now],
        )?
    } else {
        let read = breaker.version;
        db.run(
            sql::UPDATE,
            params![
                key, state, failures, successes, opened_at, data, next, now, read
            ],
        )?
    };
    Ok(saved > 0)
}

pub(crate) fn get(db: Db<'_>, key: &str) -> StoreResult<Option<BreakerRecord>> {
    db.first(sql::GET, [key], record)
}

pub(crate) fn list(db: Db<'_>) -> StoreResult<Vec<BreakerRecord>> {
    db.all(sql::LIST, [], record)
}

pub(crate) fn delete(db: Db<'_>, key: &str) -> StoreResult<bool> {
    Ok(db.run(sql::DELETE, [key])? > 0)
}

pub(crate) fn forget_limiters(db: Db<'_>, before: Timestamp) -> StoreResult<()> {
    db.run(sql::FORGET_LIMITERS, [Until(before)]).map(drop)
}

/// The stored name.
const fn name(state: CircuitState) -> &'static str {
    match state {
        CircuitState::Closed => "closed",
        CircuitState::Open => "open",
        CircuitState::HalfOpen => "half_open",
    }
}

fn parse(text: &str) -> Option<CircuitState> {
    let all = [
        CircuitState::Closed,
        CircuitState::Open,
        CircuitState::HalfOpen,
    ];
    all.into_iter().find(|state| name(*state) == text)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<BreakerRecord> {
    Ok(BreakerRecord {
        key: row.text()?,
        state: row.name(parse)?,
        failure_count: row.int()?,
        success_count: row.int()?,
        opened_at: row.at_opt()?,
        data: row.body()?,
        version: row.int()?,
        updated_at: row.at()?,
    })
}
