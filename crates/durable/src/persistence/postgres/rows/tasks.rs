//! Tasks.

use std::time::Duration;

use durable_core::ActivityOptions;

use crate::persistence::StoreResult;
use crate::persistence::limits::DURATION_MS_MAX;
use crate::persistence::model::{TaskRecord, TaskStatus};
use crate::persistence::postgres::bind::{
    Call, Param, at, column, int, json, json_list, maybe_at, nullable, payload, trace, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::tasks;

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
    rows: &[&'a TaskRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.run_id),
        column(rows, |r| r.id),
        column(rows, |r| r.status.as_str()),
        column(rows, |r| at(r.visible_at)),
        column(rows, |r| int(r.attempt)),
        column(rows, |r| int(r.deliveries)),
        nullable(rows, |r| r.claimed_by.as_deref()),
        nullable(rows, |r| maybe_at(r.claimed_at)),
        nullable(rows, |r| r.token),
        nullable(rows, |r| maybe_at(r.lease_expires_at)),
        nullable(rows, |r| maybe_at(r.heartbeat_at)),
        nullable(rows, |r| payload(&r.heartbeat_details)),
        nullable(rows, |r| maybe_at(r.close_deadline)),
        nullable(rows, |r| maybe_at(r.timeout_at())),
        nullable(rows, |r| maybe_at(r.due_at())),
        nullable(rows, |r| json_list(&r.attempts)),
        column(rows, |r| int(r.requeue_count)),
    ];
    Call::new(&tasks::UPDATE_TASKS, params)
}

/// A whole task; the order is that of `task_columns`.
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
