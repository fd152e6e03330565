//! Deadlines, timers, tasks, leases and messages that the store cannot handle, set aside.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::persistence::SetAside;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::extract::RunId;
use super::guard::Caller;
use super::problem::{Code, Problem};
use crate::App;

/// What of a run is set aside.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct SetAsideView {
    /// The run.
    workflow_id: Uuid,
    /// `deadline`, `timer`, `task`, `lease`, `message`, `turn` or `result`.
    kind: String,
    /// The store's error when it handled this item alone.
    reason: String,
    /// How often it was tried.
    attempts: u32,
    /// Since when it is set aside.
    since: String,
    /// When it is tried again by itself.
    next_try: String,
}

impl From<SetAside> for SetAsideView {
    fn from(aside: SetAside) -> Self {
        Self {
            workflow_id: aside.run_id,
            kind: aside.kind.as_str().to_owned(),
            reason: aside.reason,
            attempts: aside.attempts,
            since: aside.since.to_string(),
            next_try: aside.next_try.to_string(),
        }
    }
}

/// What this process has set aside, by kind and run.
pub(super) fn set_aside(app: &App) -> Vec<SetAsideView> {
    let aside = app.client().set_aside().into_iter();
    aside.map(SetAsideView::from).collect()
}

/// Everything that is set aside.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SetAsideList {
    set_aside: Vec<SetAsideView>,
}

/// Deadlines, timers, tasks, leases and messages of single runs that this server has set aside,
/// because the store fails on each of them alone. Each is tried again by itself, ever more rarely.
#[utoipa::path(get, path = "/set-aside", tag = "system",
    responses((status = 200, description = "What is set aside", body = SetAsideList)))]
pub(super) async fn list_set_aside(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<SetAsideList>, Problem> {
    let mut set_aside = set_aside(&app);
    let runs: Vec<Uuid> = set_aside.iter().map(|aside| aside.workflow_id).collect();
    let visible = caller.runs_in_scope(&app, &runs).await?;
    set_aside.retain(|aside| visible.get(&aside.workflow_id) == Some(&true));
    Ok(Json(SetAsideList { set_aside }))
}

/// Tries again at once what this server has set aside of a run. Nothing that is stored changes.
#[utoipa::path(post, path = "/set-aside/{id}/retry", tag = "system",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 204, description = "It is tried again")))]
pub(super) async fn retry_set_aside(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<StatusCode, Problem> {
    caller.within_scope(&app, id).await?;
    if app.client().retry_set_aside(id) {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("nothing of run {id} is set aside by this server");
    Err(Problem::new(Code::NotFound, detail)
        .hint("GET /set-aside lists what is; each server sets aside for itself"))
}
