//! Worker processes.

use axum::Json;
use axum::extract::State;
use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::{WorkerFilter, WorkerInfo, WorkerStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::Name;
use super::guard::Caller;
use super::problem::{Code, Problem};
use crate::App;

/// A worker process.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorkerView {
    /// Unique among all processes.
    id: String,
    /// Its group.
    worker_group: String,
    /// Activity types it runs.
    activity_types: Vec<String>,
    /// Tasks it runs at once.
    max_concurrency: u32,
    /// Tasks it is running.
    current_load: u32,
    /// Where it stands.
    status: WorkerState,
    /// Whether it takes tasks now.
    accepting_tasks: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    backpressure_reason: Option<String>,
    /// When it registered.
    started_at: Timestamp,
    /// When it last gave a sign.
    last_heartbeat_at: Timestamp,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    /// Its build.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Tasks it completed.
    tasks_completed: u64,
    /// Tasks it failed.
    tasks_failed: u64,
    /// Mean time of a task.
    avg_task_duration_ms: f64,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WorkerState {
    Active,
    Draining,
    Stopped,
    /// No sign of life for too long.
    Stale,
}

/// Workers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorkerList {
    workers: Vec<WorkerView>,
    total: usize,
    summary: WorkerSummary,
}

/// All workers together.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct WorkerSummary {
    active: usize,
    draining: usize,
    stopped: usize,
    total_capacity: u64,
    total_load: u64,
}

/// Workers with a fresh sign of life, by id.
#[utoipa::path(get, path = "/workers", tag = "workers",
    responses((status = 200, description = "The workers", body = WorkerList)))]
pub(super) async fn list_workers(
    State(app): State<App>,
    _: Caller,
) -> Result<Json<WorkerList>, Problem> {
    let since = alive_since(&app).await?;
    let filter = WorkerFilter {
        heartbeat_since: Some(since),
        ..WorkerFilter::default()
    };
    let found = app.store().list_workers(filter).await?;
    let workers: Vec<WorkerView> = found
        .into_iter()
        .map(|worker| shown(worker, since))
        .collect();
    Ok(Json(WorkerList {
        total: workers.len(),
        summary: summary(&workers),
        workers,
    }))
}

/// A worker, also one that is gone.
#[utoipa::path(get, path = "/workers/{id}", tag = "workers",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 200, description = "The worker", body = WorkerView)))]
pub(super) async fn get_worker(
    State(app): State<App>,
    _: Caller,
    Name(id): Name,
) -> Result<Json<WorkerView>, Problem> {
    find(&app, &id).await.map(Json)
}

/// Asks a worker to finish what it has and take nothing more.
#[utoipa::path(post, path = "/workers/{id}/drain", tag = "workers",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 202, description = "It was asked", body = WorkerView)))]
pub(super) async fn drain_worker(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
) -> Result<(axum::http::StatusCode, Json<WorkerView>), Problem> {
    caller.require_unscoped("a worker")?;
    let worker = find(&app, &id).await?;
    if worker.status == WorkerState::Stopped {
        let detail = format!("worker {id:?} has stopped");
        return Err(
            Problem::new(Code::Conflict, detail).hint("only a worker that is alive can be drained")
        );
    }
    if !caller.acting(&app)?.drain_worker(&id).await? {
        return Err(unknown(&id));
    }
    let worker = find(&app, &id).await?;
    Ok((axum::http::StatusCode::ACCEPTED, Json(worker)))
}

async fn find(app: &App, id: &str) -> Result<WorkerView, Problem> {
    let since = alive_since(app).await?;
    let workers = app.store().list_workers(WorkerFilter::default()).await?;
    let worker = workers.into_iter().find(|worker| worker.id == id);
    worker
        .map(|worker| shown(worker, since))
        .ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no worker {id:?}"))
        .hint("GET /workers lists those that are alive")
}

/// By the store's clock, which dates the signs of life.
async fn alive_since(app: &App) -> Result<Timestamp, Problem> {
    let now = app.store().clock(None).await?;
    Ok(now
        .checked_sub(app.settings().worker_stale_after)
        .unwrap_or(Timestamp::MIN))
}

fn shown(worker: WorkerInfo, alive_since: Timestamp) -> WorkerView {
    let status = match worker.status {
        WorkerStatus::Stopped => WorkerState::Stopped,
        _ if worker.last_heartbeat_at < alive_since => WorkerState::Stale,
        WorkerStatus::Active => WorkerState::Active,
        WorkerStatus::Draining => WorkerState::Draining,
        WorkerStatus::Stale => WorkerState::Stale,
    };
    WorkerView {
        id: worker.id,
        worker_group: worker.worker_group,
        activity_types: worker.activity_types,
        max_concurrency: worker.max_concurrency,
        current_load: worker.current_load,
        status,
        accepting_tasks: worker.accepting_tasks && status == WorkerState::Active,
        backpressure_reason: worker.backpressure_reason,
        started_at: worker.started_at,
        last_heartbeat_at: worker.last_heartbeat_at,
        hostname: worker.hostname,
        version: worker.version,
        tasks_completed: worker.tasks_completed,
        tasks_failed: worker.tasks_failed,
        avg_task_duration_ms: worker.avg_task_duration_ms,
    }
}

fn summary(workers: &[WorkerView]) -> WorkerSummary {
    let count = |status| {
        workers
            .iter()
            .filter(|worker| worker.status == status)
            .count()
    };
    WorkerSummary {
        active: count(WorkerState::Active),
        draining: count(WorkerState::Draining),
        stopped: count(WorkerState::Stopped),
        total_capacity: workers
            .iter()
            .map(|worker| u64::from(worker.max_concurrency))
            .sum(),
        total_load: workers
            .iter()
            .map(|worker| u64::from(worker.current_load))
            .sum(),
    }
}
