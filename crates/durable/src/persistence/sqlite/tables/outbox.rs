//! The outbox.

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::limits::fitting;
use crate::persistence::model::{ClaimOutbox, OutboxRecord, OutboxState, after};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::outbox as sql;
use crate::persistence::sqlite::value::{At, Body, Id, rows};

/// Writes an event, unless its id exists.
pub(crate) fn insert(db: Db<'_>, event: &OutboxRecord) -> StoreResult<()> {
    db.run(
        sql::INSERT,
        params![
            Id(event.id),
            Id(event.run_id),
            event.event_type,
            Body(&event.payload),
            event.idempotency_key,
            event.state.as_str(),
            event.attempts,
            At(event.available_at),
            event.token.map(Id),
            event.last_error,
            At(event.created_at),
            event.published_at.map(At),
            db.shard(event.run_id),
        ],
    )?;
    Ok(())
}

pub(crate) fn update(db: Db<'_>, event: &OutboxRecord) -> StoreResult<()> {
    db.run(
        sql::UPDATE,
        params![
            db.shard(event.run_id),
            Id(event.run_id),
            Id(event.id),
            event.state.as_str(),
            event.attempts,
            At(event.available_at),
            event.token.map(Id),
            event.last_error,
            event.published_at.map(At),
        ],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, run_id: Uuid, id: Uuid) -> StoreResult<Option<OutboxRecord>> {
    db.first(
        sql::GET,
        params![db.shard(run_id), Id(run_id), Id(id)],
        record,
    )
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<OutboxRecord>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

pub(crate) fn claim(
    db: Db<'_>,
    shard: i32,
    claim: &ClaimOutbox,
    max: usize,
    now: Timestamp,
) -> StoreResult<Vec<OutboxRecord>> {
    let due = db.all(sql::DUE, params![shard, At(now), rows(max)], |row| {
        Ok((row.id()?, row.id()?, row.int_opt::<u64>()?.unwrap_or(0)))
    })?;
    let fit = fitting(due.iter().map(|(.., bytes)| *bytes));
    let mut claimed = Vec::with_capacity(fit);
    for (run_id, id, _) in due.into_iter().take(fit) {
        let Some(mut event) = get(db, run_id, id)? else {
            continue;
        };
        event.state = OutboxState::InFlight;
        event.attempts += 1;
        event.token = Some(claim.token);
        event.available_at = after(now, claim.lease);
        update(db, &event)?;
        claimed.push(event);
    }
    Ok(claimed)
}

/// Ends all claims of a shard: its events may be published now.
pub(crate) fn void(db: Db<'_>, shard: i32, now: Timestamp) -> StoreResult<()> {
    db.run(sql::VOID, params![shard, At(now)])?;
    Ok(())
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<OutboxRecord> {
    Ok(OutboxRecord {
        id: row.id()?,
        run_id: row.id()?,
        event_type: row.text()?,
        payload: row.body()?,
        idempotency_key: row.text_opt()?,
        state: row.name(OutboxState::parse)?,
        attempts: row.int()?,
        available_at: row.at()?,
        token: row.id_opt()?,
        last_error: row.text_opt()?,
        created_at: row.at()?,
        published_at: row.at_opt()?,
    })
}
