//! The inbox.

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use super::{events, signals};
use crate::persistence::StoreResult;
use crate::persistence::model::Fact;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::facts as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Json, Utf8};

pub(crate) fn insert(db: Db<'_>, run_id: Uuid, fact: &Fact) -> StoreResult<()> {
    let event = fact.event.encode();
    db.run(
        sql::INSERT,
        params![
            db.shard(run_id),
            Id(run_id),
            fact.arrival,
            event.event_type,
            Utf8(&event.data),
            Body(&event.payload),
            Json(&fact.attempts),
            fact.last_attempt.as_ref().map(Json),
            At(fact.arrived_at),
        ],
    )?;
    Ok(())
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<Fact>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], |row| {
        Ok(Fact {
            arrival: row.int()?,
            event: events::event(row)?,
            attempts: row.json()?,
            last_attempt: row.json_opt()?,
            arrived_at: row.at()?,
        })
    })
}

/// A turn takes what arrived up to there; signals among it are marked.
pub(crate) fn consume(db: Db<'_>, run_id: Uuid, through: i64, now: Timestamp) -> StoreResult<()> {
    db.run(sql::CONSUME, params![db.shard(run_id), Id(run_id), through])?;
    signals::mark(db, run_id, through, now)
}

/// A reset drops what its dropped tasks and timers had sent.
pub(crate) fn drop_stale(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DROP_STALE, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}
