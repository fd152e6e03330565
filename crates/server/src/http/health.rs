//! How the system and its queues do.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use everruns_durable::admin::{ActivityTypeStats, SystemHealth, TaskQueueStats};
use everruns_durable::engine::ChoreTrouble;
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::Caller;
use super::problem::Problem;
use super::set_aside::{SetAsideView, set_aside};
use crate::App;

/// How the system stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct HealthView {
    /// `healthy`; `degraded` where the load is above 80 %, a breaker is open, runs are blocked, a chore fails or something is set aside; `unhealthy` where tasks wait and no worker takes any.
    #[schema(value_type = String, example = "healthy")]
    status: &'static str,
    /// Workers with a fresh sign of life.
    total_workers: usize,
    active_workers: usize,
    workers_accepting: usize,
    total_capacity: u64,
    current_load: u64,
    load_percentage: f64,
    /// Tasks that could be claimed now.
    pending_tasks: u64,
    claimed_tasks: u64,
    queue_depth_by_type: BTreeMap<String, u64>,
    running_workflows: u64,
    pending_workflows: u64,
    /// Runs that a build could not take on.
    blocked_workflows: u64,
    /// Dead letters nobody has decided.
    dlq_size: u64,
    open_circuit_breakers: Vec<String>,
    /// Whether the numbers of tasks, runs and dead letters are exact. `false`: at least one of them
    /// was cut at 10,000 and is a lower bound.
    exact: bool,
    /// Chores of this process that failed three times in a row or more, and have not succeeded since: timers, messages or retention may be late.
    failing_chores: Vec<FailingChoreView>,
    /// Runs of which this process has set something aside, because the store cannot handle it: the others go on without them.
    set_aside: Vec<SetAsideView>,
}

/// A chore that fails again and again.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct FailingChoreView {
    /// `due`, `relay`, `reaper`, …
    chore: String,
    failures_in_a_row: u32,
    last_error: String,
}

/// Failures in a row from which on a chore is said to fail.
const FAILING_FROM: u32 = 3;

fn failing(troubles: Vec<ChoreTrouble>) -> Vec<FailingChoreView> {
    let failing = troubles.into_iter().filter(|t| t.in_a_row >= FAILING_FROM);
    failing
        .map(|trouble| FailingChoreView {
            chore: trouble.chore.to_owned(),
            failures_in_a_row: trouble.in_a_row,
            last_error: trouble.last_error,
        })
        .collect()
}

impl From<SystemHealth> for HealthView {
    fn from(health: SystemHealth) -> Self {
        Self {
            status: health.status.as_str(),
            total_workers: health.total_workers,
            active_workers: health.active_workers,
            workers_accepting: health.workers_accepting,
            total_capacity: health.total_capacity,
            current_load: health.current_load,
            load_percentage: health.load_percentage,
            pending_tasks: health.pending_tasks,
            claimed_tasks: health.claimed_tasks,
            queue_depth_by_type: health.queue_depth_by_type,
            running_workflows: health.running_workflows,
            pending_workflows: health.pending_workflows,
            blocked_workflows: health.blocked_workflows,
            dlq_size: health.dlq_size,
            open_circuit_breakers: health.open_circuit_breakers,
            exact: health.exact,
            failing_chores: Vec::new(),
            set_aside: Vec::new(),
        }
    }
}

/// How the queues do.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskStatsView {
    by_activity_type: BTreeMap<String, TypeStatsView>,
    /// Tasks that could be claimed now, by priority.
    by_priority: BTreeMap<String, u64>,
    oldest_pending_task_age_ms: u64,
    /// How long an activity waited for its first attempt, on average over the last hours.
    avg_schedule_to_start_ms: f64,
    avg_execution_time_ms: f64,
}

/// How the activities of a type do.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TypeStatsView {
    pending: u64,
    claimed: u64,
    completed_last_hour: u64,
    failed_last_hour: u64,
    avg_duration_ms: f64,
    /// To the next power of two.
    p99_duration_ms: f64,
}

impl From<ActivityTypeStats> for TypeStatsView {
    fn from(stats: ActivityTypeStats) -> Self {
        Self {
            pending: stats.pending,
            claimed: stats.claimed,
            completed_last_hour: stats.completed_last_hour,
            failed_last_hour: stats.failed_last_hour,
            avg_duration_ms: stats.avg_duration_ms,
            p99_duration_ms: stats.p99_duration_ms,
        }
    }
}

impl From<TaskQueueStats> for TaskStatsView {
    fn from(stats: TaskQueueStats) -> Self {
        let types = stats.by_activity_type.into_iter();
        let priorities = stats.by_priority.into_iter();
        Self {
            by_activity_type: types.map(|(name, stats)| (name, stats.into())).collect(),
            by_priority: priorities
                .map(|(priority, count)| (priority.to_string(), count))
                .collect(),
            oldest_pending_task_age_ms: stats.oldest_pending_task_age_ms,
            avg_schedule_to_start_ms: stats.avg_schedule_to_start_ms,
            avg_execution_time_ms: stats.avg_execution_time_ms,
        }
    }
}

/// How the system stands: workers, queues, runs, dead letters, breakers.
#[utoipa::path(get, path = "/health", tag = "system",
    responses((status = 200, description = "How it stands", body = HealthView)))]
pub(super) async fn get_health(
    State(app): State<App>,
    _: Caller,
) -> Result<Json<HealthView>, Problem> {
    let stale_after = app.settings().worker_stale_after;
    let health = app.client().system_health(stale_after).await?;
    let mut view = HealthView::from(health);
    view.failing_chores = failing(app.client().chore_troubles());
    view.set_aside = set_aside(&app);
    let in_trouble = !(view.failing_chores.is_empty() && view.set_aside.is_empty());
    if in_trouble && view.status == "healthy" {
        view.status = "degraded";
    }
    Ok(Json(view))
}

/// How the queues do, by activity type and priority.
#[utoipa::path(get, path = "/tasks/stats", tag = "tasks",
    responses((status = 200, description = "How they do", body = TaskStatsView)))]
pub(super) async fn get_task_stats(
    State(app): State<App>,
    _: Caller,
) -> Result<Json<TaskStatsView>, Problem> {
    let stats = app.client().task_stats().await?;
    Ok(Json(stats.into()))
}
