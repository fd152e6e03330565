//! Tasks.

use std::time::Duration;

use durable_core::{ActivityOptions, Payload};
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::limits::DURATION_MS_MAX;
use crate::persistence::model::{TaskRecord, TaskStatus, last_in_short};
use crate::persistence::postgres::bind::{
    Call, Param, at, column, int, json, json_list, maybe_at, nullable, payload, trace, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::tasks;
use crate::persistence::sql::rows::{StandingTask, TaskUpdate};

/// Where a task stands, by run and id.
pub(in crate::persistence::postgres) fn standing(
    row: &mut Reader<'_>,
) -> StoreResult<((Uuid, Uuid), StandingTask)> {
    let key = (row.next()?, row.next()?);
    let task = StandingTask {
        activity_id: row.next()?,
        status: row.name(TaskStatus::parse)?,
        sequential: row.next()?,
    };
    Ok((key, task))
}

/// New tasks of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a TaskRecord],
) -> Call<'a> {
    let mut params: Vec<Param<'a>> = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.run_id),
        column(rows, |r| r.activity_id.as_str()),
        column(rows, |r| r.activity_type.as_str()),
        nullable(rows, |r| payload(&r.input)),
        column(rows, |r| json(&apart_from_line(&r.options))),
        column(rows, |r| r.status.as_str()),
        column(rows, |r| r.options.priority),
        column(rows, |r| r.line),
        column(rows, |r| r.options.sequential),
        column(rows, |r| int(r.epoch)),
        column(rows, |r| at(r.scheduled_at)),
        column(rows, |r| at(r.visible_at)),
        column(rows, |r| int(r.attempt)),
        column(rows, |r| i64::from(r.options.retry_policy.max_attempts)),
        column(rows, |r| int(r.deliveries)),
        nullable(rows, |r| r.claimed_by.as_deref()),
        nullable(rows, |r| maybe_at(r.claimed_at)),
        nullable(rows, |r| r.token),
        nullable(rows, |r| maybe_at(r.lease_expires_at)),
        nullable(rows, |r| maybe_at(r.heartbeat_at)),
        nullable(rows, |r| payload(&r.heartbeat_details)),
        column(rows, |r| millis(r.options.schedule_to_start_timeout)),
        column(rows, |r| millis(r.options.start_to_close_timeout)),
        nullable(rows, |r| r.options.heartbeat_timeout.map(millis)),
        nullable(rows, |r| maybe_at(r.close_deadline)),
        nullable(rows, |r| maybe_at(r.timeout_at())),
        nullable(rows, |r| maybe_at(r.due_at())),
        nullable(rows, |r| json_list(&r.attempts)),
        column(rows, |r| int(r.requeue_count)),
    ];
    params.extend(trace(rows, |r| r.trace.as_ref()));
    Call::new(&tasks::INSERT_TASKS, params)
}

/// Changed tasks of a shard.
pub(in crate::persistence::postgres) fn update<'a>(
    shard: i32,
    rows: &[&'a TaskUpdate],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.task.run_id),
        column(rows, |r| r.task.id),
        column(rows, |r| r.task.status.as_str()),
        column(rows, |r| at(r.task.visible_at)),
        column(rows, |r| int(r.task.attempt)),
        column(rows, |r| int(r.task.deliveries)),
        nullable(rows, |r| r.task.claimed_by.as_deref()),
        nullable(rows, |r| maybe_at(r.task.claimed_at)),
        nullable(rows, |r| r.task.token),
        nullable(rows, |r| maybe_at(r.task.lease_expires_at)),
        nullable(rows, |r| maybe_at(r.task.heartbeat_at)),
        nullable(rows, |r| {
            let details = r.heartbeat.then_some(&r.task.heartbeat_details);
            details.and_then(payload)
        }),
        nullable(rows, |r| maybe_at(r.task.close_deadline)),
        nullable(rows, |r| maybe_at(r.task.timeout_at())),
        nullable(rows, |r| maybe_at(r.task.due_at())),
        nullable(rows, |r| {
            let attempts = r.attempts.then_some(&r.task.attempts);
            attempts.and_then(|attempts| json_list(attempts))
        }),
        column(rows, |r| int(r.task.requeue_count)),
        column(rows, |r| r.heartbeat),
        column(rows, |r| r.attempts),
    ];
    Call::new(&tasks::UPDATE_TASKS, params)
}

/// A whole task, or one as the rules see it; the order is that of `task_columns`.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<TaskRecord> {
    Ok(TaskRecord {
        id: row.next()?,
        run_id: row.next()?,
        activity_id: row.next()?,
        activity_type: row.next()?,
        input: row.payload()?,
        options: options(row)?,
        status: row.name(TaskStatus::parse)?,
        line: row.next()?,
        epoch: row.u32()?,
        scheduled_at: row.at()?,
        visible_at: row.at()?,
        attempt: row.u32()?,
        deliveries: row.u32()?,
        claimed_by: row.next()?,
        claimed_at: row.maybe_at()?,
        token: row.next()?,
        lease_expires_at: row.maybe_at()?,
        heartbeat_at: row.maybe_at()?,
        heartbeat_details: row.payload()?,
        close_deadline: row.maybe_at()?,
        attempts: row.json_list()?,
        requeue_count: row.u32()?,
        trace: row.trace()?,
    })
}

/// A task as lists show it; the order is that of `listed_task_columns`.
pub(in crate::persistence::postgres) fn listed(row: &mut Reader<'_>) -> StoreResult<TaskRecord> {
    Ok(TaskRecord {
        id: row.next()?,
        run_id: row.next()?,
        activity_id: row.next()?,
        activity_type: row.next()?,
        input: Payload::ABSENT,
        options: options(row)?,
        status: row.name(TaskStatus::parse)?,
        line: row.next()?,
        epoch: row.u32()?,
        scheduled_at: row.at()?,
        visible_at: row.at()?,
        attempt: row.u32()?,
        deliveries: row.u32()?,
        claimed_by: row.next()?,
        claimed_at: row.maybe_at()?,
        token: row.next()?,
        lease_expires_at: row.maybe_at()?,
        heartbeat_at: row.maybe_at()?,
        heartbeat_details: Payload::ABSENT,
        close_deadline: row.maybe_at()?,
        attempts: last_in_short(row.json_list()?),
        requeue_count: row.u32()?,
        trace: row.trace()?,
    })
}

/// The options as they are written: without what stands in the column beside them, so that most are `{}`.
fn apart_from_line(options: &ActivityOptions) -> ActivityOptions {
    ActivityOptions {
        sequential: ActivityOptions::default().sequential,
        ..options.clone()
    }
}

/// Two columns.
fn options(row: &mut Reader<'_>) -> StoreResult<ActivityOptions> {
    let mut options: ActivityOptions = row.json()?;
    options.sequential = row.next()?;
    Ok(options)
}

/// A timeout in milliseconds, within what PostgreSQL can add to an instant.
fn millis(duration: Duration) -> i64 {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    i64::try_from(millis.min(DURATION_MS_MAX)).unwrap_or(i64::MAX)
}
