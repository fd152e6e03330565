//! What operators do to a run.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::Deletion;
use everruns_durable::core::{Payload, signal_types};
use serde::Deserialize;
use utoipa::ToSchema;

use super::Run;
use super::start::{id_of, new_id, present};
use crate::App;
use crate::http::extract::{Body, IdempotencyKey, OptionalBody, RunId};
use crate::http::guard::Caller;
use crate::http::problem::Problem;
use crate::http::whole::Whole;

/// Why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ReasonRequest {
    /// Why, for the run's history.
    #[serde(default)]
    reason: String,
}

/// Where to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ResetRequest {
    /// Number of the last event that still counts.
    #[schema(value_type = i64, minimum = 1)]
    to_sequence: Whole<1>,
}

/// A person's decision.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ApproveRequest {
    /// Approved unless it says false.
    approved: Option<bool>,
    /// What goes along, edited perhaps.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    payload: Payload,
}

/// Asks a run to stop; it may clean up first.
#[utoipa::path(post, path = "/workflows/{id}/cancel", tag = "workflows", request_body = Option<ReasonRequest>,
    params(("id" = Uuid, Path, description = "The run"), ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$", description = "One request per key")),
    responses((status = 202, description = "It was asked", body = Run)))]
pub(in crate::http) async fn cancel_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    IdempotencyKey(key): IdempotencyKey,
    OptionalBody(request): OptionalBody<ReasonRequest>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let client = caller.acting_on(&app, id).await?;
    // A request to cancel is a signal, and a signal with an id of its own is sent once.
    let signal_id = key.map_or_else(new_id, |key| id_of(&["cancel", &id.to_string(), &key]));
    let reason = Payload::from_value(&request.reason).unwrap_or_else(|_| Payload::null());
    client
        .send(id, signal_id, signal_types::CANCEL, reason)
        .await?;
    super::show(&app, id)
        .await
        .map(|run| (StatusCode::ACCEPTED, Json(run)))
}

/// Asks a run to finish the activities in flight and then stop.
#[utoipa::path(post, path = "/workflows/{id}/shutdown", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 202, description = "It was asked", body = Run)))]
pub(in crate::http) async fn shutdown_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let client = caller.acting_on(&app, id).await?;
    client.request_shutdown(id).await?;
    super::show(&app, id)
        .await
        .map(|run| (StatusCode::ACCEPTED, Json(run)))
}

/// Ends a run at once: failed, with error `WorkflowTerminated`.
#[utoipa::path(post, path = "/workflows/{id}/terminate", tag = "workflows", request_body = Option<ReasonRequest>,
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It has ended", body = Run)))]
pub(in crate::http) async fn terminate_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    OptionalBody(request): OptionalBody<ReasonRequest>,
) -> Result<Json<Run>, Problem> {
    let client = caller.acting_on(&app, id).await?;
    client.terminate(id, &request.reason).await?;
    super::show(&app, id).await.map(Json)
}

/// Tries again what failed of a run.
#[utoipa::path(post, path = "/workflows/{id}/retry", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It goes on", body = Run)))]
pub(in crate::http) async fn retry_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Json<Run>, Problem> {
    let client = caller.acting_on(&app, id).await?;
    client.retry(id).await?;
    super::show(&app, id).await.map(Json)
}

/// Takes a run back to an event of its history: what came after it no longer counts.
#[utoipa::path(post, path = "/workflows/{id}/reset", tag = "workflows", request_body = ResetRequest,
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It goes on from there", body = Run)))]
pub(in crate::http) async fn reset_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Body(request): Body<ResetRequest>,
) -> Result<Json<Run>, Problem> {
    let client = caller.acting_on(&app, id).await?;
    client
        .reset_to(id, i64::try_from(request.to_sequence.0).unwrap_or(i64::MAX))
        .await?;
    super::show(&app, id).await.map(Json)
}

/// How far the deletion of a run has come.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(in crate::http) struct DeletedRun {
    /// The run.
    #[schema(value_type = Uuid)]
    id: uuid::Uuid,
    /// Whether none of its rows is left. False: the rest is deleted in the background, and the run is gone for every request.
    complete: bool,
}

/// How long a request waits for the deletion of a long history.
const DELETE_WITHIN: Duration = Duration::from_secs(10);

/// Deletes a run that has ended, with all that belongs to it, for good. Its id is refused to new runs for 30 days.
#[utoipa::path(delete, path = "/workflows/{id}", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It is deleted", body = DeletedRun),
        (status = 202, description = "It is deleted; rows of its long history are still being deleted", body = DeletedRun)))]
pub(in crate::http) async fn delete_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<(StatusCode, Json<DeletedRun>), Problem> {
    let client = caller.acting_on(&app, id).await?;
    let complete = client.delete_run(id, DELETE_WITHIN).await? == Deletion::Complete;
    let status = if complete {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok((status, Json(DeletedRun { id, complete })))
}

/// Tells a run what a person decided: the signal `approve`, with `{"approved", "by", "payload"}`.
#[utoipa::path(post, path = "/workflows/{id}/approve", tag = "workflows", request_body = Option<ApproveRequest>,
    params(("id" = Uuid, Path, description = "The run"), ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$", description = "One decision per key")),
    responses((status = 202, description = "It was told", body = Run)))]
pub(in crate::http) async fn approve_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    IdempotencyKey(key): IdempotencyKey,
    OptionalBody(request): OptionalBody<ApproveRequest>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let client = caller.acting_on(&app, id).await?;
    let decision = Decision {
        approved: request.approved.unwrap_or(true),
        by: &caller.name,
        payload: present(request.payload),
    };
    let decision = Payload::from_value(&decision).unwrap_or_else(|_| Payload::null());
    let signal_id = key.map_or_else(new_id, |key| id_of(&["approve", &id.to_string(), &key]));
    client.send(id, signal_id, "approve", decision).await?;
    super::show(&app, id)
        .await
        .map(|run| (StatusCode::ACCEPTED, Json(run)))
}

/// What the signal carries.
#[derive(serde::Serialize)]
struct Decision<'a> {
    approved: bool,
    by: &'a str,
    payload: Payload,
}
