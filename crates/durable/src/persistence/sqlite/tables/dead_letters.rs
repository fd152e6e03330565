//! Dead letters.

use durable_core::Payload;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{DeadLetter, DeadLetterState, DlqFilter, Page, brief_failure};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::{Db, Filtered};
use crate::persistence::sqlite::sql::dead_letters as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Json, Until, rows};

/// A changed letter.
pub(crate) fn put(db: Db<'_>, letter: &DeadLetter) -> StoreResult<()> {
    write(db, sql::PUT, letter)
}

/// The letter of a task that is still in the queue, which has its input.
pub(crate) fn bury(db: Db<'_>, letter: &DeadLetter) -> StoreResult<()> {
    write(db, sql::BURY, letter)
}

fn write(db: Db<'_>, statement: &str, letter: &DeadLetter) -> StoreResult<()> {
    db.run(
        statement,
        params![
            Id(letter.id),
            Id(letter.run_id),
            letter.activity_id,
            letter.activity_type,
            Body(&letter.input),
            Json(&letter.options),
            letter.epoch,
            letter.attempts,
            Json(&letter.last_error),
            Json(&letter.error_history),
            letter.parked,
            letter.state.as_str(),
            At(letter.dead_at),
            letter.requeued_at.map(At),
            letter.requeue_count,
            db.shard(letter.run_id),
        ],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, run_id: Uuid, id: Uuid) -> StoreResult<Option<DeadLetter>> {
    db.first(
        sql::GET,
        params![db.shard(run_id), Id(run_id), Id(id)],
        record,
    )
}

pub(crate) fn list(db: Db<'_>, filter: &DlqFilter, page: Page) -> StoreResult<Vec<DeadLetter>> {
    filtered(db, sql::LIST, filter, page.rows(), page.offset).all(db, listed)
}

/// A letter by its id alone.
pub(crate) fn by_id(db: Db<'_>, id: Uuid) -> StoreResult<Option<DeadLetter>> {
    db.first(sql::BY_ID, [Id(id)], record)
}

/// Deletes letters for which no run waits, newest first; answers how many.
pub(crate) fn purge(db: Db<'_>, filter: &DlqFilter, max: usize) -> StoreResult<u64> {
    let gone =
        filtered(db, sql::PURGEABLE, filter, max, 0).all(db, |row| Ok((row.id()?, row.id()?)))?;
    for (run_id, id) in &gone {
        db.run(
            sql::DELETE,
            params![db.shard(*run_id), Id(*run_id), Id(*id)],
        )?;
    }
    Ok(gone.len() as u64)
}

/// All letters of a run, by id.
pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<DeadLetter>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

/// All letters, by id.
pub(crate) fn dump(db: Db<'_>) -> StoreResult<Vec<DeadLetter>> {
    db.all(sql::DUMP, [], record)
}

fn filtered<'a>(
    db: Db<'_>,
    select: &'static str,
    filter: &'a DlqFilter,
    limit: usize,
    offset: usize,
) -> Filtered<'a> {
    let mut query = Filtered::new(select);
    query.and(sql::OF_ID, filter.id.map(Id));
    if let Some(run_id) = filter.run_id {
        query.text(sql::OF_RUN_ID);
        query.bind(db.shard(run_id));
        query.bind(Id(run_id));
    }
    query.and(sql::OF_TYPE, filter.activity_type.as_ref());
    query.and(sql::IN_STATE, filter.state.map(DeadLetterState::as_str));
    query.and(sql::DEAD_BEFORE, filter.dead_before.map(Until));
    if let Some(after) = filter.after {
        query.text(sql::AFTER);
        query.bind(At(after.dead_at));
        query.bind(At(after.dead_at));
        query.bind(Id(after.id));
        query.bind(Id(after.run_id));
    }
    query.text(sql::PAGE);
    query.bind(rows(limit));
    query.bind(rows(offset));
    query
}

/// Reads the columns of `LIST`.
fn listed(row: &mut Cells<'_, '_>) -> StoreResult<DeadLetter> {
    Ok(DeadLetter {
        id: row.id()?,
        run_id: row.id()?,
        activity_id: row.text()?,
        activity_type: row.text()?,
        input: Payload::ABSENT,
        options: row.json()?,
        epoch: row.int()?,
        attempts: row.int()?,
        last_error: brief_failure(row.str()?.as_bytes()),
        error_history: Vec::new(),
        parked: row.flag()?,
        state: row.name(DeadLetterState::parse)?,
        dead_at: row.at()?,
        requeued_at: row.at_opt()?,
        requeue_count: row.int()?,
    })
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<DeadLetter> {
    Ok(DeadLetter {
        id: row.id()?,
        run_id: row.id()?,
        activity_id: row.text()?,
        activity_type: row.text()?,
        input: row.body()?,
        options: row.json()?,
        epoch: row.int()?,
        attempts: row.int()?,
        last_error: row.json()?,
        error_history: row.json()?,
        parked: row.flag()?,
        state: row.name(DeadLetterState::parse)?,
        dead_at: row.at()?,
        requeued_at: row.at_opt()?,
        requeue_count: row.int()?,
    })
}
