//! What came of a run.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::core::Payload;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Status;
use super::talk::WaitParams;
use crate::App;
use crate::http::extract::{Params, RunId};
use crate::http::guard::Caller;
use crate::http::problem::Problem;
use crate::http::views::FailureView;

/// What came of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunResult {
    /// The run.
    id: Uuid,
    /// Where it stands.
    status: Status,
    /// Its result, if it has completed.
    #[serde(skip_serializing_if = "Payload::is_absent")]
    #[schema(value_type = Value)]
    result: Payload,
    /// Why it has none, if it failed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
}

/// The result of a run; with `wait`, once it is there.
#[utoipa::path(get, path = "/workflows/{id}/result", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run"), WaitParams),
    responses(
        (status = 200, description = "The run has ended", body = RunResult),
        (status = 202, description = "It has not ended yet", body = RunResult)))]
pub(in crate::http) async fn get_result(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Params(params): Params<WaitParams>,
) -> Result<(StatusCode, Json<RunResult>), Problem> {
    let wait = params.wait(&app, Duration::ZERO)?;
    let mut run = caller.run(&app, id).await?;
    let handle = app.client().run_named(id);
    if !run.status.is_terminal() && !wait.is_zero() {
        // A stop of this server must not keep its callers waiting: they are answered as things stand.
        tokio::select! {
            biased;
            ended = tokio::time::timeout(wait, handle.ended()) => match ended {
                Ok(ended) => run = ended?,
                Err(_) => run = handle.get().await?,
            },
            () = app.draining().cancelled() => {}
        }
    }
    if !run.status.is_terminal() {
        let result = RunResult {
            id,
            status: run.status.into(),
            result: Payload::ABSENT,
            error: None,
        };
        return Ok((StatusCode::ACCEPTED, Json(result)));
    }
    let (result, error) = match handle.result().await {
        // A workflow without a result has null: the field is always there.
        Ok(result) => (super::start::present(result), None),
        Err(error) if error.is_cancelled() => {
            let reason = error.cancel_reason().unwrap_or_default().to_owned();
            (Payload::ABSENT, Some(FailureView::cancelled(reason)))
        }
        Err(error) => match error.failure() {
            Some(failure) => (Payload::ABSENT, Some(FailureView::from(failure))),
            None => return Err(error.into()),
        },
    };
    let status = run.status.into();
    let result = RunResult {
        id,
        status,
        result,
        error,
    };
    Ok((StatusCode::OK, Json(result)))
}
