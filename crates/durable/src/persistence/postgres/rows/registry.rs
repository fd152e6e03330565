//! Workers, breakers, results recorded once.

use durable_core::{CircuitState, Timestamp};

use crate::persistence::StoreResult;
use crate::persistence::model::{BreakerRecord, DedupRecord, WorkerInfo, WorkerStatus};
use crate::persistence::postgres::bind::{Call, Param, long, maybe_at, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::registry;

/// A worker to register.
pub(in crate::persistence::postgres) fn register(
    worker: &WorkerInfo,
    now: Option<Timestamp>,
) -> Call<'_> {
    let params = vec![
        value(worker.id.as_str()),
        value(worker.worker_group.as_str()),
        value(&worker.activity_types),
        value(i64::from(worker.max_concurrency)),
        value(i64::from(worker.current_load)),
        value(worker.status.as_str()),
        value(worker.accepting_tasks),
        value(worker.backpressure_reason.as_deref()),
        value(maybe_at(now)),
        value(worker.hostname.as_deref()),
        value(worker.version.as_deref()),
        value(payload(&worker.metadata)),
        value(long(worker.tasks_completed)),
        value(long(worker.tasks_failed)),
        value(worker.avg_task_duration_ms),
    ];
    Call::new(&registry::REGISTER_WORKER, params)
}

/// A worker; the order is that of `worker_columns`.
pub(in crate::persistence::postgres) fn worker(row: &mut Reader<'_>) -> StoreResult<WorkerInfo> {
    Ok(WorkerInfo {
        id: row.next()?,
        worker_group: row.next()?,
        activity_types: row.next()?,
        max_concurrency: row.long_u32()?,
        current_load: row.long_u32()?,
        status: row.name(WorkerStatus::parse)?,
        accepting_tasks: row.next()?,
        backpressure_reason: row.next()?,
        started_at: row.at()?,
        last_heartbeat_at: row.at()?,
        hostname: row.next()?,
        version: row.next()?,
        metadata: row.payload()?,
        tasks_completed: row.u64()?,
        tasks_failed: row.u64()?,
        avg_task_duration_ms: row.next()?,
    })
}

/// A breaker's columns, the version as it was read.
pub(in crate::persistence::postgres) fn breaker_params(
    breaker: &BreakerRecord,
    now: Option<Timestamp>,
) -> Vec<Param<'_>> {
    vec![
        value(breaker.key.as_str()),
        value(state_name(breaker.state)),
        value(i64::from(breaker.failure_count)),
        value(i64::from(breaker.success_count)),
        value(maybe_at(breaker.opened_at)),
        value(payload(&breaker.data)),
        value(breaker.version),
        value(maybe_at(now)),
    ]
}

/// A breaker; the order is that of `breaker_columns`.
pub(in crate::persistence::postgres) fn breaker(
    row: &mut Reader<'_>,
) -> StoreResult<BreakerRecord> {
    Ok(BreakerRecord {
        key: row.next()?,
        state: row.name(state)?,
        failure_count: row.long_u32()?,
        success_count: row.long_u32()?,
        opened_at: row.maybe_at()?,
        data: row.payload()?,
        version: row.next()?,
        updated_at: row.at()?,
    })
}

/// A result recorded once.
pub(in crate::persistence::postgres) fn dedup(row: &mut Reader<'_>) -> StoreResult<DedupRecord> {
    Ok(DedupRecord {
        key: row.next()?,
        result: row.payload()?,
        created_at: row.at()?,
    })
}

fn state_name(state: CircuitState) -> &'static str {
    match state {
        CircuitState::Closed => "closed",
        CircuitState::Open => "open",
        CircuitState::HalfOpen => "half_open",
    }
}

fn state(name: &str) -> Option<CircuitState> {
    match name {
        "closed" => Some(CircuitState::Closed),
        "open" => Some(CircuitState::Open),
        "half_open" => Some(CircuitState::HalfOpen),
        _ => None,
    }
}
