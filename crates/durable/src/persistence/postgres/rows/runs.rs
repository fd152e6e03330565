//! Runs.

use std::time::Duration;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    Blocked, ClosePolicy, Owner, ParentLink, RunRecord, RunSummary, WorkflowStatus,
};
use crate::persistence::postgres::bind::{
    Call, Param, at, column, int, json, maybe_at, nullable, payload, trace, value,
};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::runs as sql;
use crate::persistence::sql::rows::{RunHead, RunInsert, RunUpdate};

/// New runs of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(shard: i32, rows: &[&'a RunInsert]) -> Call<'a> {
    let runs = rows;
    let rows: &[&'a RunRecord] = &rows.iter().map(|run| &run.record).collect::<Vec<_>>();
    let mut params: Vec<Param<'a>> = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.workflow_type.as_str()),
        column(rows, |r| r.version.as_str()),
        nullable(rows, |r| r.business_id.as_deref()),
        nullable(rows, |r| r.idempotency_key.as_deref()),
        column(rows, |r| r.fingerprint),
        column(rows, |r| r.status.as_str()),
        nullable(rows, |r| payload(&r.input)),
        nullable(rows, |r| payload(&r.result)),
        nullable(rows, |r| r.error.as_ref().map(json)),
        nullable(rows, |r| payload(&r.memo)),
    ];
    params.extend(trace(rows, |r| r.trace.as_ref()));
    params.extend(parent_columns(rows));
    params.extend([
        column(rows, |r| r.has_children),
        column(rows, |r| r.sequence),
        column(rows, |r| r.history_start),
        column(rows, |r| int(r.iteration)),
        column(rows, |r| int(r.epoch)),
        column(rows, |r| r.arrivals),
        column(rows, |r| r.consumed),
        nullable(rows, |r| r.last_turn),
        nullable(rows, |r| maybe_at(r.ready_at)),
        nullable(rows, |r| owner_id(r.owner.as_ref())),
        nullable(rows, |r| maybe_at(r.owner.as_ref().map(|o| o.expires_at))),
        nullable(rows, |r| r.blocked.as_ref().map(|b| b.build.as_str())),
        nullable(rows, |r| r.blocked.as_ref().map(|b| b.reason.as_str())),
        nullable(rows, |r| maybe_at(r.execution_deadline)),
        nullable(rows, |r| maybe_at(r.run_deadline)),
        nullable(rows, |r| r.run_timeout.map(millis)),
        column(rows, |r| at(r.created_at)),
        column(rows, |r| at(r.updated_at)),
        nullable(rows, |r| maybe_at(r.started_at)),
        nullable(rows, |r| maybe_at(r.completed_at)),
        nullable(rows, |r| {
            maybe_at(r.deadline().filter(|_| !r.status.is_terminal()))
        }),
        column(runs, |r| r.task_count),
        column(runs, |r| r.line_count),
    ]);
    Call::new(&sql::INSERT_RUNS, params)
}

fn parent_columns<'a>(rows: &[&'a RunRecord]) -> [Param<'a>; 5] {
    [
        nullable(rows, |r| r.parent.as_ref().map(|p| p.run_id)),
        nullable(rows, |r| r.parent.as_ref().map(|p| p.child_id.as_str())),
        nullable(rows, |r| r.parent.as_ref().map(|p| int(p.epoch))),
        nullable(rows, |r| r.parent.as_ref().map(|p| int(p.iteration))),
        nullable(rows, |r| {
            r.parent.as_ref().map(|p| policy_name(p.close_policy))
        }),
    ]
}

/// Changed runs of a shard.
pub(in crate::persistence::postgres) fn update<'a>(shard: i32, rows: &[&'a RunUpdate]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.head.id),
        column(rows, |r| r.head.status.as_str()),
        column(rows, |r| r.head.has_children),
        column(rows, |r| r.head.sequence),
        column(rows, |r| r.head.history_start),
        column(rows, |r| int(r.head.iteration)),
        column(rows, |r| int(r.head.epoch)),
        column(rows, |r| r.head.arrivals),
        column(rows, |r| r.head.consumed),
        column(rows, |r| r.head.last_turn),
        nullable(rows, |r| maybe_at(r.head.ready_at)),
        nullable(rows, |r| owner_id(r.head.owner.as_ref())),
        nullable(rows, |r| {
            maybe_at(r.head.owner.as_ref().map(|o| o.expires_at))
        }),
        nullable(rows, |r| r.head.blocked.as_ref().map(|b| b.build.as_str())),
        nullable(rows, |r| r.head.blocked.as_ref().map(|b| b.reason.as_str())),
        nullable(rows, |r| maybe_at(r.head.execution_deadline)),
        nullable(rows, |r| maybe_at(r.head.run_deadline)),
        nullable(rows, |r| maybe_at(r.head.deadline_at())),
        column(rows, |r| at(r.head.updated_at)),
        nullable(rows, |r| maybe_at(r.head.started_at)),
        nullable(rows, |r| maybe_at(r.head.completed_at)),
        column(rows, |r| r.head.task_count),
        column(rows, |r| r.head.line_count),
        column(rows, |r| r.input.is_some()),
        nullable(rows, |r| r.input.as_ref().and_then(payload)),
        column(rows, |r| r.outcome.is_some()),
        nullable(rows, |r| {
            r.outcome.as_ref().and_then(|(result, _)| payload(result))
        }),
        nullable(rows, |r| {
            let (_, error) = r.outcome.as_ref()?;
            error.as_ref().map(json)
        }),
    ];
    Call::new(&sql::UPDATE_RUNS, params)
}

/// Runs of a shard of which only the counters moved.
pub(in crate::persistence::postgres) fn advance<'a>(shard: i32, rows: &[&'a RunHead]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.id),
        column(rows, |r| r.sequence),
        column(rows, |r| r.arrivals),
        column(rows, |r| r.consumed),
        column(rows, |r| r.last_turn),
        nullable(rows, |r| maybe_at(r.owner.as_ref().map(|o| o.expires_at))),
        column(rows, |r| at(r.updated_at)),
        column(rows, |r| r.task_count),
        column(rows, |r| r.line_count),
    ];
    Call::new(&sql::ADVANCE_RUNS, params)
}

/// A run as lists show it.
pub(in crate::persistence::postgres) fn summary(row: &mut Reader<'_>) -> StoreResult<RunSummary> {
    Ok(RunSummary {
        id: row.next()?,
        workflow_type: row.next()?,
        version: row.next()?,
        business_id: row.next()?,
        status: row.name(WorkflowStatus::parse)?,
        parent_id: row.next()?,
        blocked: blocked(row)?.map(Blocked::listed),
        sequence: row.next()?,
        iteration: row.u32()?,
        epoch: row.u32()?,
        created_at: row.at()?,
        updated_at: row.at()?,
        started_at: row.maybe_at()?,
        completed_at: row.maybe_at()?,
    })
}

/// A whole run; the order is that of `run_columns`.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<RunRecord> {
    Ok(RunRecord {
        id: row.next()?,
        workflow_type: row.next()?,
        version: row.next()?,
        business_id: row.next()?,
        idempotency_key: row.next()?,
        fingerprint: row.next()?,
        status: row.name(WorkflowStatus::parse)?,
        input: row.payload()?,
        result: row.payload()?,
        error: row.maybe_json()?,
        memo: row.payload()?,
        trace: row.trace()?,
        parent: parent(row)?,
        has_children: row.next()?,
        sequence: row.next()?,
        history_start: row.next()?,
        iteration: row.u32()?,
        epoch: row.u32()?,
        arrivals: row.next()?,
        consumed: row.next()?,
        last_turn: row.next()?,
        ready_at: row.maybe_at()?,
        owner: owner(row)?,
        blocked: blocked(row)?,
        execution_deadline: row.maybe_at()?,
        run_deadline: row.maybe_at()?,
        run_timeout: row.next::<Option<i64>>()?.map(duration),
        created_at: row.at()?,
        updated_at: row.at()?,
        started_at: row.maybe_at()?,
        completed_at: row.maybe_at()?,
    })
}

/// A run without its payloads; the order is that of `LOCK_RUNS`.
pub(in crate::persistence::postgres) fn head(row: &mut Reader<'_>) -> StoreResult<RunHead> {
    Ok(RunHead {
        id: row.next()?,
        workflow_type: row.next()?,
        business_id: row.next()?,
        idempotency_key: row.next()?,
        fingerprint: row.next()?,
        status: row.name(WorkflowStatus::parse)?,
        parent: parent(row)?,
        has_children: row.next()?,
        sequence: row.next()?,
        history_start: row.next()?,
        iteration: row.u32()?,
        epoch: row.u32()?,
        arrivals: row.next()?,
        consumed: row.next()?,
        last_turn: row.next()?,
        ready_at: row.maybe_at()?,
        owner: owner(row)?,
        blocked: blocked(row)?,
        execution_deadline: row.maybe_at()?,
        run_deadline: row.maybe_at()?,
        run_timeout_ms: row.next()?,
        created_at: row.at()?,
        updated_at: row.at()?,
        started_at: row.maybe_at()?,
        completed_at: row.maybe_at()?,
        task_count: row.next()?,
        line_count: row.next()?,
    })
}

fn parent(row: &mut Reader<'_>) -> StoreResult<Option<ParentLink>> {
    let run_id: Option<_> = row.next()?;
    let child_id: Option<String> = row.next()?;
    let epoch = row.maybe_u32()?;
    let iteration = row.maybe_u32()?;
    let close_policy: Option<String> = row.next()?;
    Ok(run_id.map(|run_id| ParentLink {
        run_id,
        child_id: child_id.unwrap_or_default(),
        epoch: epoch.unwrap_or_default(),
        iteration: iteration.unwrap_or_default(),
        close_policy: close_policy.as_deref().map_or(ClosePolicy::Cancel, policy),
    }))
}

fn owner(row: &mut Reader<'_>) -> StoreResult<Option<Owner>> {
    let worker_id: Option<String> = row.next()?;
    let expires_at = row.maybe_at()?;
    Ok(worker_id
        .zip(expires_at)
        .map(|(worker_id, expires_at)| Owner {
            worker_id,
            expires_at,
        }))
}

fn blocked(row: &mut Reader<'_>) -> StoreResult<Option<Blocked>> {
    let build: Option<String> = row.next()?;
    let reason: Option<String> = row.next()?;
    Ok(build.map(|build| Blocked {
        build,
        reason: reason.unwrap_or_default(),
    }))
}

fn owner_id(owner: Option<&Owner>) -> Option<&str> {
    owner.map(|owner| owner.worker_id.as_str())
}

fn policy_name(policy: ClosePolicy) -> &'static str {
    match policy {
        ClosePolicy::Cancel => "cancel",
        ClosePolicy::Terminate => "terminate",
        ClosePolicy::Abandon => "abandon",
    }
}

fn policy(name: &str) -> ClosePolicy {
    match name {
        "terminate" => ClosePolicy::Terminate,
        "abandon" => ClosePolicy::Abandon,
        _ => ClosePolicy::Cancel,
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}
