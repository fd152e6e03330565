//! Queued activities.

use axum::Json;
use axum::extract::State;
use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::{Page, TaskFilter, TaskRecord, TaskStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::cursor::{self, List};
use super::extract::Params;
use super::guard::Caller;
use super::problem::Problem;
use super::views::FailureView;
use super::workflows::find::limit;
use super::workflows::history::turn;
use crate::App;

/// Which tasks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TaskParams {
    /// Only this run's.
    run_id: Option<Uuid>,
    /// Only this activity type.
    activity_type: Option<String>,
    /// Only in this status.
    #[param(inline)]
    status: Option<TaskState>,
    /// Most tasks: 50 unless given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskState {
    /// May be claimed now.
    Pending,
    /// Waits behind an unfinished task of its run.
    InLine,
    /// Waits for its time.
    Delayed,
    /// Held back by a breaker or a limiter.
    Parked,
    /// A worker has it.
    Claimed,
    /// Its run waits for its dead letter to be decided.
    Dead,
}

impl From<TaskStatus> for TaskState {
    fn from(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Pending => Self::Pending,
            TaskStatus::InLine => Self::InLine,
            TaskStatus::Delayed => Self::Delayed,
            TaskStatus::Parked => Self::Parked,
            TaskStatus::Claimed => Self::Claimed,
            TaskStatus::Dead => Self::Dead,
        }
    }
}

impl From<TaskState> for TaskStatus {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Pending => Self::Pending,
            TaskState::InLine => Self::InLine,
            TaskState::Delayed => Self::Delayed,
            TaskState::Parked => Self::Parked,
            TaskState::Claimed => Self::Claimed,
            TaskState::Dead => Self::Dead,
        }
    }
}

/// A queued activity.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskView {
    /// Its id.
    id: Uuid,
    /// Its run.
    run_id: Uuid,
    /// The activity's id within the run.
    activity_id: String,
    /// Which activity.
    activity_type: String,
    /// Where it stands.
    status: TaskState,
    /// Higher comes first.
    priority: i32,
    /// The attempt under way, or the last one.
    attempt: u32,
    /// Attempts it may have.
    max_attempts: u32,
    /// Who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<Timestamp>,
    /// Until when, unless it is extended.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<Timestamp>,
    /// Its last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_at: Option<Timestamp>,
    /// How the last attempt failed, its message cut to 1 KiB, without details and cause; absent where
    /// the failures of all attempts together are large.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<FailureView>,
    /// When it was queued.
    scheduled_at: Timestamp,
    /// From when on it may be claimed.
    visible_at: Timestamp,
}

impl From<TaskRecord> for TaskView {
    fn from(task: TaskRecord) -> Self {
        Self {
            id: task.id,
            run_id: task.run_id,
            activity_id: task.activity_id,
            activity_type: task.activity_type,
            status: task.status.into(),
            priority: task.options.priority,
            attempt: task.attempt,
            max_attempts: task.options.retry_policy.max_attempts,
            claimed_by: task.claimed_by,
            claimed_at: task.claimed_at,
            lease_expires_at: task.lease_expires_at,
            heartbeat_at: task.heartbeat_at,
            last_error: task
                .attempts
                .last()
                .map(|last| FailureView::from(&last.failure)),
            scheduled_at: task.scheduled_at,
            visible_at: task.visible_at,
        }
    }
}

/// A page of tasks, in the order in which they are claimed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskList {
    tasks: Vec<TaskView>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Queued activities, in the order in which they are claimed. Finished ones, and what an activity was given, are in the run's history.
#[utoipa::path(get, path = "/tasks", tag = "tasks", params(TaskParams),
    responses((status = 200, description = "A page", body = TaskList)))]
pub(super) async fn list_tasks(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<TaskParams>,
) -> Result<Json<TaskList>, Problem> {
    let page = Page::first(limit(params.limit)?);
    let filter = TaskFilter {
        run_id: params.run_id,
        activity_type: params.activity_type,
        status: params.status.map(Into::into),
        after: cursor::place(List::Tasks, params.cursor.as_deref())?,
    };
    let found = app.store().list_tasks(filter, page).await?;
    let (mut tasks, next_cursor): (Vec<TaskView>, _) =
        turn(List::Tasks, page, found, TaskRecord::rank);
    let runs: Vec<Uuid> = tasks.iter().map(|task| task.run_id).collect();
    let in_scope = caller.runs_in_scope(&app, &runs).await?;
    tasks.retain(|task| caller.may_use_queue(&task.activity_type) && in_scope[&task.run_id]);
    Ok(Json(TaskList { tasks, next_cursor }))
}
