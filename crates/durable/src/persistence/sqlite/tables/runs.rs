//! Runs, one by one and by what is due.

use std::collections::BTreeMap;

use durable_core::{Failure, Payload, Timestamp};
use rusqlite::params;
use uuid::Uuid;

use super::run_rows::{self, close_policy};
use crate::persistence::StoreResult;
use crate::persistence::model::{RunMark, RunRecord, WorkflowStatus};
use crate::persistence::sql::rows::{RunHead, RunInsert, RunUpdate};
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::{run_lists, runs as sql};
use crate::persistence::sqlite::value::{At, Body, Id, Json, hex_list, rows};

pub(crate) fn insert(db: Db<'_>, new: &RunInsert) -> StoreResult<()> {
    let run = &new.record;
    let trace = run.trace.as_ref();
    let parent = run.parent.as_ref();
    let owner = run.owner.as_ref();
    let blocked = run.blocked.as_ref();
    let deadline_at = (!run.status.is_terminal())
        .then(|| run.deadline())
        .flatten();
    let run_timeout_ms = run
        .run_timeout
        .map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
    db.run(
        sql::INSERT,
        params![
            Id(run.id),
            run.workflow_type,
            run.version,
            run.business_id,
            run.idempotency_key,
            run.fingerprint,
            run.status.as_str(),
            Body(&run.input),
            Body(&run.result),
            run.error.as_ref().map(Json),
            Body(&run.memo),
            trace.map(|trace| &trace.trace_id),
            trace.map(|trace| &trace.span_id),
            trace.map(|trace| trace.trace_flags),
            parent.map(|parent| Id(parent.run_id)),
            parent.map(|parent| &parent.child_id),
            parent.map(|parent| parent.epoch),
            parent.map(|parent| parent.iteration),
            parent.map(|parent| close_policy(parent.close_policy)),
            run.has_children,
            run.sequence,
            run.history_start,
            run.iteration,
            run.epoch,
            run.arrivals,
            run.consumed,
            run.last_turn.map(Id),
            run.ready_at.map(At),
            owner.map(|owner| &owner.worker_id),
            owner.map(|owner| At(owner.expires_at)),
            blocked.map(|blocked| &blocked.build),
            blocked.map(|blocked| &blocked.reason),
            run.execution_deadline.map(At),
            run.run_deadline.map(At),
            run_timeout_ms,
            At(run.created_at),
            At(run.updated_at),
            run.started_at.map(At),
            run.completed_at.map(At),
            deadline_at.map(At),
            db.shard(run.id),
            new.task_count,
            new.line_count,
        ],
    )?;
    Ok(())
}

pub(crate) fn update(db: Db<'_>, run: &RunUpdate) -> StoreResult<()> {
    update_head(db, &run.head)?;
    let id = run.head.id;
    if let Some(input) = &run.input {
        set_input(db, id, input)?;
    }
    if let Some((result, error)) = &run.outcome {
        set_outcome(db, id, result, error.as_ref())?;
    }
    Ok(())
}

/// What every turn moves; of the run's indexes it touches at most the one of runs with a turn due.
pub(crate) fn advance(db: Db<'_>, head: &RunHead) -> StoreResult<()> {
    db.run(
        sql::ADVANCE,
        params![
            db.shard(head.id),
            Id(head.id),
            head.sequence,
            head.arrivals,
            head.consumed,
            head.last_turn.map(Id),
            head.owner.as_ref().map(|owner| At(owner.expires_at)),
            At(head.updated_at),
            head.task_count,
            head.line_count,
        ],
    )?;
    Ok(())
}

fn update_head(db: Db<'_>, head: &RunHead) -> StoreResult<()> {
    let owner = head.owner.as_ref();
    let blocked = head.blocked.as_ref();
    db.run(
        sql::UPDATE_HEAD,
        params![
            db.shard(head.id),
            Id(head.id),
            head.status.as_str(),
            head.has_children,
            head.sequence,
            head.history_start,
            head.iteration,
            head.epoch,
            head.arrivals,
            head.consumed,
            head.last_turn.map(Id),
            head.ready_at.map(At),
            owner.map(|owner| &owner.worker_id),
            owner.map(|owner| At(owner.expires_at)),
            blocked.map(|blocked| &blocked.build),
            blocked.map(|blocked| &blocked.reason),
            head.execution_deadline.map(At),
            head.run_deadline.map(At),
            head.deadline_at().map(At),
            At(head.updated_at),
            head.started_at.map(At),
            head.completed_at.map(At),
            head.task_count,
            head.line_count,
        ],
    )?;
    Ok(())
}

fn set_input(db: Db<'_>, id: Uuid, input: &Payload) -> StoreResult<()> {
    db.run(sql::SET_INPUT, params![db.shard(id), Id(id), Body(input)])?;
    Ok(())
}

fn set_outcome(db: Db<'_>, id: Uuid, result: &Payload, error: Option<&Failure>) -> StoreResult<()> {
    db.run(
        sql::SET_OUTCOME,
        params![db.shard(id), Id(id), Body(result), error.map(Json)],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, run_id: Uuid) -> StoreResult<Option<RunRecord>> {
    db.first(
        sql::GET,
        params![db.shard(run_id), Id(run_id)],
        run_rows::record,
    )
}

pub(crate) fn head(db: Db<'_>, run_id: Uuid) -> StoreResult<Option<RunHead>> {
    db.first(
        sql::GET_HEAD,
        params![db.shard(run_id), Id(run_id)],
        run_rows::head,
    )
}

pub(crate) fn ids(db: Db<'_>) -> StoreResult<Vec<Uuid>> {
    db.all(run_lists::IDS, [], |row| row.id())
}

pub(crate) fn due(
    db: Db<'_>,
    shard: i32,
    now: Timestamp,
    max: usize,
    except: &[Uuid],
) -> StoreResult<Vec<Uuid>> {
    let params = params![shard, At(now), rows(max), hex_list(except)];
    db.all(sql::DUE, params, |row| row.id())
}

pub(crate) fn next_due(db: Db<'_>, shard: i32, except: &[Uuid]) -> StoreResult<Option<Timestamp>> {
    db.first(sql::NEXT_DUE, params![shard, hex_list(except)], |row| {
        row.at()
    })
}

pub(crate) fn open_children(db: Db<'_>, parent: Uuid, max: usize) -> StoreResult<Vec<Uuid>> {
    let params = params![Id(parent), rows(max)];
    db.all(sql::OPEN_CHILDREN, params, |row| row.id())
}

/// Deletes a run. What belongs to it follows in slices.
pub(crate) fn delete(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DELETE, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}

/// Ends a worker's ownerships.
pub(crate) fn disown(db: Db<'_>, worker_id: &str) -> StoreResult<()> {
    db.run(sql::DISOWN, [worker_id])?;
    Ok(())
}

/// Where runs stand.
pub(crate) fn marks(db: Db<'_>, run_ids: &[Uuid]) -> StoreResult<BTreeMap<Uuid, RunMark>> {
    let mut marks = BTreeMap::new();
    for run_id in run_ids {
        let params = params![db.shard(*run_id), Id(*run_id)];
        let mark = db.first(sql::MARK, params, |row| {
            Ok(RunMark {
                status: row.name(WorkflowStatus::parse)?,
                sequence: row.int()?,
            })
        })?;
        marks.extend(mark.map(|mark| (*run_id, mark)));
    }
    Ok(marks)
}
