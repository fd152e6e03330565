//! Updates and their answers.

use durable_core::{Failure, Payload, Timestamp};
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::model::{UpdateRecord, UpdateState};
use crate::persistence::sql::rows::UpdateAnswerRow;
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::updates as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Json};
use crate::persistence::{StoreError, StoreResult};

pub(crate) fn insert(db: Db<'_>, update: &UpdateRecord) -> StoreResult<()> {
    let (state, result, error) = stored(&update.state);
    db.run(
        sql::INSERT,
        params![
            Id(update.run_id),
            update.update_id,
            update.name,
            Body(&update.input),
            update.arrival,
            state,
            result.map(Body),
            error.map(Json),
            At(update.created_at),
            update.completed_at.map(At),
            db.shard(update.run_id),
        ],
    )?;
    Ok(())
}

pub(crate) fn answer(db: Db<'_>, answer: &UpdateAnswerRow, now: Timestamp) -> StoreResult<()> {
    let (state, result, error) = stored(&answer.state);
    db.run(
        sql::ANSWER,
        params![
            db.shard(answer.run_id),
            Id(answer.run_id),
            answer.update_id,
            state,
            result.map(Body),
            error.map(Json),
            At(now),
        ],
    )?;
    Ok(())
}

/// The run ended before they were answered.
pub(crate) fn fail_open(
    db: Db<'_>,
    run_id: Uuid,
    failure: &Failure,
    now: Timestamp,
) -> StoreResult<()> {
    db.run(
        sql::FAIL_OPEN,
        params![db.shard(run_id), Id(run_id), Json(failure), At(now)],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, run_id: Uuid, update_id: &str) -> StoreResult<Option<UpdateRecord>> {
    db.first(
        sql::GET,
        params![db.shard(run_id), Id(run_id), update_id],
        record,
    )
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<UpdateRecord>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

/// State, result and error as they are stored.
fn stored(state: &UpdateState) -> (&'static str, Option<&Payload>, Option<&Failure>) {
    match state {
        UpdateState::Pending => ("pending", None, None),
        UpdateState::Completed(result) => ("completed", Some(result), None),
        UpdateState::Failed(failure) => ("failed", None, Some(failure)),
    }
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<UpdateRecord> {
    Ok(UpdateRecord {
        run_id: row.id()?,
        update_id: row.text()?,
        name: row.text()?,
        input: row.body()?,
        arrival: row.int()?,
        created_at: row.at()?,
        completed_at: row.at_opt()?,
        state: state(row)?,
    })
}

/// `state`, `result`, `error`.
fn state(row: &mut Cells<'_, '_>) -> StoreResult<UpdateState> {
    let (state, result, error) = (row.str()?, row.body()?, row.json_opt()?);
    match state {
        "pending" => Ok(UpdateState::Pending),
        "completed" => Ok(UpdateState::Completed(result)),
        "failed" => Ok(UpdateState::Failed(row.present(error)?)),
        other => Err(StoreError::Corrupt {
            message: format!("{other:?} is not a state of updates"),
            source: None,
        }),
    }
}
