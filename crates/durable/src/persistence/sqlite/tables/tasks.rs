//! The task queue.

use std::cmp::Reverse;

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{Page, TaskFilter, TaskRecord, TaskStatus, last_in_short};
use crate::persistence::sql::rows::{StandingTask, TaskFound, TaskUpdate};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::{Db, Filtered};
use crate::persistence::sqlite::sql::tasks as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Json, hex_list, rows};

pub(crate) fn insert(db: Db<'_>, task: &TaskRecord) -> StoreResult<()> {
    let trace = task.trace.as_ref();
    db.run(
        sql::INSERT,
        params![
            Id(task.id),
            Id(task.run_id),
            task.activity_id,
            task.activity_type,
            Body(&task.input),
            Json(&task.options),
            task.status.as_str(),
            task.line,
            task.epoch,
            At(task.scheduled_at),
            At(task.visible_at),
            task.attempt,
            task.deliveries,
            task.claimed_by,
            task.claimed_at.map(At),
            task.token.map(Id),
            task.lease_expires_at.map(At),
            task.heartbeat_at.map(At),
            Body(&task.heartbeat_details),
            task.close_deadline.map(At),
            Json(&task.attempts),
            task.requeue_count,
            trace.map(|trace| &trace.trace_id),
            trace.map(|trace| &trace.span_id),
            trace.map(|trace| trace.trace_flags),
            db.shard(task.run_id),
            task.options.priority,
            task.options.sequential,
            task.timeout_at().map(At),
        ],
    )?;
    Ok(())
}

/// Writes a changed task.
pub(crate) fn update(db: Db<'_>, update: &TaskUpdate) -> StoreResult<()> {
    write(db, &update.task, update.heartbeat, update.attempts)
}

/// Writes a changed task whose details of heartbeats and failed attempts stay as stored.
pub(crate) fn restate(db: Db<'_>, task: &TaskRecord) -> StoreResult<()> {
    write(db, task, false, false)
}

fn write(db: Db<'_>, task: &TaskRecord, heartbeat: bool, attempts: bool) -> StoreResult<()> {
    db.run(
        sql::UPDATE,
        params![
            db.shard(task.run_id),
            Id(task.run_id),
            Id(task.id),
            task.status.as_str(),
            At(task.visible_at),
            task.attempt,
            task.deliveries,
            task.claimed_by,
            task.claimed_at.map(At),
            task.token.map(Id),
            task.lease_expires_at.map(At),
            task.heartbeat_at.map(At),
            heartbeat.then_some(Body(&task.heartbeat_details)),
            task.close_deadline.map(At),
            attempts.then_some(Json(&task.attempts)),
            task.requeue_count,
            task.timeout_at().map(At),
            heartbeat,
            attempts,
        ],
    )?;
    Ok(())
}

/// A whole task.
pub(crate) fn get(db: Db<'_>, run_id: Uuid, id: Uuid) -> StoreResult<Option<TaskRecord>> {
    one(db, sql::GET, run_id, id)
}

/// A task as the rules see it.
pub(crate) fn ruled(db: Db<'_>, run_id: Uuid, id: Uuid) -> StoreResult<Option<TaskRecord>> {
    one(db, sql::RULED, run_id, id)
}

/// A task for a renewal.
pub(crate) fn leased(db: Db<'_>, run_id: Uuid, id: Uuid) -> StoreResult<Option<TaskRecord>> {
    one(db, sql::LEASED, run_id, id)
}

fn one(db: Db<'_>, statement: &str, run_id: Uuid, id: Uuid) -> StoreResult<Option<TaskRecord>> {
    let params = params![db.shard(run_id), Id(run_id), Id(id)];
    db.first(statement, params, record)
}

/// All queued tasks of a run, whole: for the dump.
pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<TaskRecord>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], record)
}

/// Ids and activities of all queued tasks of a run.
pub(crate) fn queued_of(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<(Uuid, String)>> {
    let params = params![db.shard(run_id), Id(run_id)];
    db.all(sql::QUEUED_OF_RUN, params, |row| {
        Ok((row.id()?, row.text()?))
    })
}

/// Where a task stands.
pub(crate) fn standing(
    db: Db<'_>,
    run_id: Uuid,
    id: Uuid,
    activity_id: String,
) -> StoreResult<Option<StandingTask>> {
    let params = params![db.shard(run_id), Id(run_id), Id(id)];
    let found = db.first(sql::STANDING, params, |row| {
        Ok((row.name(TaskStatus::parse)?, row.flag()?))
    })?;
    Ok(found.map(|(status, sequential)| StandingTask {
        activity_id,
        status,
        sequential,
    }))
}

/// The first place in a run's line.
pub(crate) fn first_in_line(db: Db<'_>, run_id: Uuid) -> StoreResult<Option<i64>> {
    let params = params![db.shard(run_id), Id(run_id)];
    db.first(sql::FIRST_IN_LINE, params, |row| row.int())
}

pub(crate) fn delete(db: Db<'_>, run_id: Uuid, id: Uuid) -> StoreResult<()> {
    db.run(sql::DELETE, params![db.shard(run_id), Id(run_id), Id(id)])?;
    Ok(())
}

pub(crate) fn delete_of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DELETE_OF_RUN, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}

/// Moves a run's line up: its head, if it was in line, waits for its time or for a claim.
pub(crate) fn release_line(db: Db<'_>, run_id: Uuid, now: Timestamp) -> StoreResult<()> {
    let head = db.first(
        sql::LINE_HEAD,
        params![db.shard(run_id), Id(run_id)],
        record,
    )?;
    let Some(mut head) = head.filter(|task| task.status == TaskStatus::InLine) else {
        return Ok(());
    };
    if head.visible_at > now {
        head.status = TaskStatus::Delayed;
    } else {
        head.status = TaskStatus::Pending;
        head.visible_at = now;
    }
    restate(db, &head)
}

pub(crate) fn due(
    db: Db<'_>,
    shard: i32,
    now: Timestamp,
    max: usize,
    except: &[Uuid],
) -> StoreResult<Vec<TaskFound>> {
    let params = params![shard, At(now), rows(max), hex_list(except)];
    db.all(sql::DUE, params, found)
}

pub(crate) fn next_due(db: Db<'_>, shard: i32, except: &[Uuid]) -> StoreResult<Option<Timestamp>> {
    db.first(sql::NEXT_DUE, params![shard, hex_list(except)], |row| {
        row.at()
    })
}

pub(crate) fn expired(
    db: Db<'_>,
    shard: i32,
    now: Timestamp,
    max: usize,
    except: &[Uuid],
) -> StoreResult<Vec<TaskFound>> {
    let params = params![shard, At(now), rows(max), hex_list(except)];
    db.all(sql::EXPIRED, params, found)
}

/// All leased tasks of a shard, without values that may be large.
pub(crate) fn claimed(db: Db<'_>, shard: i32) -> StoreResult<Vec<TaskRecord>> {
    db.all(sql::CLAIMED, [shard], record)
}

pub(crate) fn list(db: Db<'_>, filter: &TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
    if filter.status == Some(TaskStatus::Pending) && filter.run_id.is_none() {
        return pending(db, filter, page);
    }
    let mut query = Filtered::new(sql::LIST);
    if let Some(run_id) = filter.run_id {
        query.text(sql::OF_RUN_ID);
        query.bind(db.shard(run_id));
        query.bind(Id(run_id));
    }
    query.and(sql::OF_TYPE, filter.activity_type.as_ref());
    query.and(sql::IN_STATUS, filter.status.map(TaskStatus::as_str));
    behind(&mut query, filter);
    query.text(sql::PAGE);
    query.bind(rows(page.rows()));
    query.bind(rows(page.offset));
    listed(db, &query)
}

/// Goes on behind a filter's place.
fn behind(query: &mut Filtered<'_>, filter: &TaskFilter) {
    if let Some(after) = filter.after {
        query.text(sql::AFTER);
        query.bind(after.priority);
        query.bind(after.priority);
        query.bind(At(after.visible_at));
        query.bind(Id(after.id));
        query.bind(Id(after.run_id));
    }
}

fn listed(db: Db<'_>, query: &Filtered<'_>) -> StoreResult<Vec<TaskRecord>> {
    let mut tasks = query.all(db, record)?;
    for task in &mut tasks {
        task.attempts = last_in_short(std::mem::take(&mut task.attempts));
    }
    Ok(tasks)
}

/// Pending tasks: the first of each shard and type in the order of index `pending`, merged.
fn pending(db: Db<'_>, filter: &TaskFilter, page: Page) -> StoreResult<Vec<TaskRecord>> {
    let reach = page.rows().saturating_add(page.offset);
    let mut places = Vec::new();
    for shard in db.shards.from(0) {
        let types = match &filter.activity_type {
            Some(activity_type) => vec![activity_type.clone()],
            None => db.all(sql::PENDING_TYPES, [shard], |row| row.text())?,
        };
        for activity_type in types {
            let mut query = Filtered::new(sql::PENDING_PLACES);
            query.bind(shard);
            query.bind(activity_type);
            behind(&mut query, filter);
            query.text(sql::PAGE);
            query.bind(rows(reach));
            query.bind(rows(0));
            places.extend(query.all(db, |row| {
                Ok((Reverse(row.int::<i32>()?), row.at()?, row.id()?, row.id()?))
            })?);
            places.sort_unstable();
            places.truncate(reach);
        }
    }
    let mut tasks = Vec::new();
    for (.., id, run_id) in places.into_iter().skip(page.offset) {
        let mut query = Filtered::new(sql::LIST);
        query.text(sql::OF_RUN_ID);
        query.bind(db.shard(run_id));
        query.bind(Id(run_id));
        query.text(sql::OF_ID);
        query.bind(Id(id));
        tasks.append(&mut listed(db, &query)?);
    }
    Ok(tasks)
}

fn found(row: &mut Cells<'_, '_>) -> StoreResult<TaskFound> {
    Ok(TaskFound {
        run_id: row.id()?,
        task_id: row.id()?,
        bytes: row.int()?,
    })
}

/// Reads the columns of `task_columns!`.
fn record(row: &mut Cells<'_, '_>) -> StoreResult<TaskRecord> {
    Ok(TaskRecord {
        id: row.id()?,
        run_id: row.id()?,
        activity_id: row.text()?,
        activity_type: row.text()?,
        input: row.body()?,
        options: row.json()?,
        status: row.name(TaskStatus::parse)?,
        line: row.int()?,
        epoch: row.int()?,
        scheduled_at: row.at()?,
        visible_at: row.at()?,
        attempt: row.int()?,
        deliveries: row.int()?,
        claimed_by: row.text_opt()?,
        claimed_at: row.at_opt()?,
        token: row.id_opt()?,
        lease_expires_at: row.at_opt()?,
        heartbeat_at: row.at_opt()?,
        heartbeat_details: row.body()?,
        close_deadline: row.at_opt()?,
        attempts: row.json()?,
        requeue_count: row.int()?,
        trace: row.trace()?,
    })
}
