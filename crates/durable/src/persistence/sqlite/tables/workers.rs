//! The worker registry.

use std::collections::BTreeMap;

use durable_core::Timestamp;
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::{WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::{Db, Filtered};
use crate::persistence::sqlite::sql::workers as sql;
use crate::persistence::sqlite::value::{At, Body, Json, Until};

/// Registers a worker now, in place of what was known of it.
pub(crate) fn register(db: Db<'_>, worker: &WorkerInfo, now: Timestamp) -> StoreResult<()> {
    db.run(
        sql::REPLACE,
        params![
            worker.id,
            worker.worker_group,
            Json(&worker.activity_types),
            worker.max_concurrency,
            worker.current_load,
            worker.status.as_str(),
            worker.accepting_tasks,
            worker.backpressure_reason,
            At(now),
            At(now),
            worker.hostname,
            worker.version,
            Body(&worker.metadata),
            worker.tasks_completed.cast_signed(),
            worker.tasks_failed.cast_signed(),
            worker.avg_task_duration_ms,
        ],
    )?;
    Ok(())
}

/// Notes signs of life; answers the statuses that those who are known should be in.
pub(crate) fn heartbeats(
    db: Db<'_>,
    beats: Vec<WorkerBeat>,
    now: Timestamp,
) -> StoreResult<BTreeMap<String, WorkerStatus>> {
    let mut known = BTreeMap::new();
    for beat in beats {
        let status = heartbeat(db, &beat, now)?;
        known.extend(status.map(|status| (beat.worker_id, status)));
    }
    Ok(known)
}

fn heartbeat(db: Db<'_>, beat: &WorkerBeat, now: Timestamp) -> StoreResult<Option<WorkerStatus>> {
    db.first(
        sql::HEARTBEAT,
        params![
            beat.worker_id,
            beat.current_load,
            beat.accepting_tasks,
            beat.backpressure_reason,
            beat.tasks_completed.cast_signed(),
            beat.tasks_failed.cast_signed(),
            beat.avg_task_duration_ms,
            At(now),
        ],
        |row| row.name(WorkerStatus::parse),
    )
}

pub(crate) fn list(db: Db<'_>, filter: &WorkerFilter) -> StoreResult<Vec<WorkerInfo>> {
    let mut query = Filtered::new(sql::LIST);
    query.and(sql::IN_GROUP, filter.worker_group.as_ref());
    query.and(sql::IN_STATUS, filter.status.map(WorkerStatus::as_str));
    query.and(sql::HEARD_SINCE, filter.heartbeat_since.map(Until));
    query.text(sql::ORDER);
    query.all(db, record)
}

/// Changes a worker's status; answers the former one.
pub(crate) fn set_status(
    db: Db<'_>,
    id: &str,
    status: WorkerStatus,
) -> StoreResult<Option<WorkerStatus>> {
    let former = db.first(sql::STATUS, [id], |row| row.name(WorkerStatus::parse))?;
    db.run(sql::SET_STATUS, [id, status.as_str()])?;
    Ok(former)
}

pub(crate) fn delete(db: Db<'_>, id: &str) -> StoreResult<bool> {
    Ok(db.run(sql::DELETE, [id])? > 0)
}

/// Marks those as stopped that gave no sign since then; answers their ids.
pub(crate) fn stop_silent(db: Db<'_>, silent_since: Timestamp) -> StoreResult<Vec<String>> {
    let silent = db.all(sql::SILENT, [Until(silent_since)], |row| row.text())?;
    for id in &silent {
        set_status(db, id, WorkerStatus::Stopped)?;
    }
    Ok(silent)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<WorkerInfo> {
    Ok(WorkerInfo {
        id: row.text()?,
        worker_group: row.text()?,
        activity_types: row.json()?,
        max_concurrency: row.int()?,
        current_load: row.int()?,
        status: row.name(WorkerStatus::parse)?,
        accepting_tasks: row.flag()?,
        backpressure_reason: row.text_opt()?,
        started_at: row.at()?,
        last_heartbeat_at: row.at()?,
        hostname: row.text_opt()?,
        version: row.text_opt()?,
        metadata: row.body()?,
        tasks_completed: row.int::<i64>()?.cast_unsigned(),
        tasks_failed: row.int::<i64>()?.cast_unsigned(),
        avg_task_duration_ms: row.float()?,
    })
}
