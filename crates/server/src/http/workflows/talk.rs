//! Talking to runs: signals, queries, updates.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::client::UpdateHandle;
use everruns_durable::core::Payload;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::start::{id_of, new_id, present};
use crate::App;
use crate::http::extract::{Body, IdempotencyKey, Params, RunAndName, RunId};
use crate::http::guard::Caller;
use crate::http::problem::{Code, Problem};
use crate::http::views::{FailureView, duration};

/// How long an update, and a query that another process answers, is waited for.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// A signal to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SignalRequest {
    /// Its name.
    #[serde(alias = "name")]
    #[schema(min_length = 1, max_length = 200)]
    pub(super) signal_type: String,
    /// Its data; null where it is left out.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    pub(super) payload: Payload,
}

/// A signal that was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SignalTaken {
    /// The run.
    id: Uuid,
    /// The signal.
    signal_id: Uuid,
}

/// A query or an update.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct QueryRequest {
    /// Which query.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Its input; null where it is left out.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    input: Payload,
}

/// What a query answered.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct QueryAnswer {
    #[schema(value_type = Value)]
    result: Payload,
}

/// An update.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct UpdateRequest {
    /// Which handler.
    #[schema(min_length = 1, max_length = 200, pattern = "^(?!durable\\.)")]
    name: String,
    /// Its input; null where it is left out.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    input: Payload,
    /// Your own id for it, unique within the run: sent again, it is the same update. The header `Idempotency-Key` does the same.
    #[schema(min_length = 1, max_length = 512)]
    update_id: Option<String>,
}

/// An update and its answer.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct UpdateAnswer {
    /// The run.
    id: Uuid,
    /// The update.
    update_id: String,
    /// Whether there is an answer yet.
    status: UpdateStatus,
    /// The answer.
    #[serde(skip_serializing_if = "Payload::is_absent")]
    #[schema(value_type = Value)]
    result: Payload,
    /// Why it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
}

/// Where an update stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum UpdateStatus {
    Pending,
    Completed,
    Failed,
}

/// For how long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct WaitParams {
    /// How long to wait, such as `10s`. What is longer than the server waits, a minute unless it is told otherwise, is that.
    #[param(pattern = "^([0-9]{1,6}(ms|s|m)?|PT[0-9]{1,6}[SM])$", example = "10s")]
    wait: Option<String>,
}

impl WaitParams {
    /// The wait within its bounds.
    pub(super) fn wait(&self, app: &App, unless_given: Duration) -> Result<Duration, Problem> {
        let wait = self
            .wait
            .as_deref()
            .map(|text| duration("wait", text))
            .transpose()?;
        Ok(wait.unwrap_or(unless_given).min(app.settings().wait_max))
    }
}

/// Sends a signal.
#[utoipa::path(post, path = "/workflows/{id}/signal", tag = "workflows", request_body = SignalRequest,
    params(("id" = Uuid, Path, description = "The run"), ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$", description = "One signal per key")),
    responses((status = 202, description = "It was taken", body = SignalTaken)))]
pub(in crate::http) async fn signal_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    IdempotencyKey(key): IdempotencyKey,
    Body(request): Body<SignalRequest>,
) -> Result<(StatusCode, Json<SignalTaken>), Problem> {
    let client = caller.acting_on(&app, id).await?;
    let signal_id = key.map_or_else(new_id, |key| id_of(&["signal", &id.to_string(), &key]));
    client
        .send(
            id,
            signal_id,
            &request.signal_type,
            present(request.payload),
        )
        .await?;
    Ok((StatusCode::ACCEPTED, Json(SignalTaken { id, signal_id })))
}

/// Asks a run about its state; changes nothing.
#[utoipa::path(post, path = "/workflows/{id}/query", tag = "workflows", request_body = QueryRequest,
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "The answer", body = QueryAnswer)))]
pub(in crate::http) async fn query_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Body(request): Body<QueryRequest>,
) -> Result<Json<QueryAnswer>, Problem> {
    caller.within_scope(&app, id).await?;
    let input = present(request.input);
    let asked = app.client().query::<Payload>(id, &request.name, &input);
    let answer = tokio::select! {
        biased;
        answer = tokio::time::timeout(ANSWER_WAIT, asked) => answer,
        () = app.draining().cancelled() => return Err(Problem::shutting_down()),
    };
    let Ok(answer) = answer else {
        return Err(Problem::new(
            Code::NoWorker,
            "whoever hosts the workflow did not answer in time",
        )
        .hint("look whether its workers are well, then ask again")
        .run_id(Some(id)));
    };
    Ok(Json(QueryAnswer { result: answer? }))
}

/// Asks a run for something that it answers. Waits for the answer, ten seconds unless told otherwise; 202 where it is not there by then,
/// 422 (`update_failed`) where the workflow refused it or failed to carry it out.
#[utoipa::path(post, path = "/workflows/{id}/update", tag = "workflows", request_body = UpdateRequest,
    params(("id" = Uuid, Path, description = "The run"), WaitParams, ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$", description = "One update per key")),
    responses(
        (status = 200, description = "The answer", body = UpdateAnswer),
        (status = 202, description = "There is no answer yet", body = UpdateAnswer)))]
pub(in crate::http) async fn update_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Params(params): Params<WaitParams>,
    IdempotencyKey(key): IdempotencyKey,
    Body(request): Body<UpdateRequest>,
) -> Result<(StatusCode, Json<UpdateAnswer>), Problem> {
    let wait = params.wait(&app, ANSWER_WAIT)?;
    let client = caller.acting_on(&app, id).await?;
    let mut update = client.update(id, request.name, &present(request.input));
    if let Some(update_id) = request.update_id.or(key) {
        update = update.id(update_id);
    }
    let update = update.send().await?;
    let answer = waited(&app, &update, wait).await?;
    Ok(standing(&update, Ok(answer)))
}

/// An update that was sent before, and its answer; `failed` with the error where there is none.
#[utoipa::path(get, path = "/workflows/{id}/updates/{update_id}", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run"), ("update_id" = String, Path, description = "The update"), WaitParams),
    responses(
        (status = 200, description = "The answer, or why there is none", body = UpdateAnswer),
        (status = 202, description = "There is no answer yet", body = UpdateAnswer)))]
pub(in crate::http) async fn get_update(
    State(app): State<App>,
    caller: Caller,
    RunAndName(id, update_id): RunAndName,
    Params(params): Params<WaitParams>,
) -> Result<(StatusCode, Json<UpdateAnswer>), Problem> {
    let wait = params.wait(&app, Duration::ZERO)?;
    caller.within_scope(&app, id).await?;
    let update = app.client().update_handle(id, update_id);
    let answer = match waited(&app, &update, wait).await {
        Ok(answer) => Ok(answer),
        Err(error) => match error.failure().filter(|_| error.is_update_failed()) {
            Some(failure) => Err(FailureView::from(failure)),
            None => return Err(error.into()),
        },
    };
    Ok(standing(&update, answer))
}

/// The answer, if it is there before the wait is over. A server that is about to stop keeps nobody waiting: the update is taken, and
/// another server answers for it too.
async fn waited(
    app: &App,
    update: &UpdateHandle,
    wait: Duration,
) -> everruns_durable::Result<Option<Payload>> {
    if wait.is_zero() {
        return update.poll().await;
    }
    tokio::select! {
        biased;
        waited = tokio::time::timeout(wait, update.result()) => {
            waited.map_or(Ok(None), |result| result.map(Some))
        }
        () = app.draining().cancelled() => Ok(None),
    }
}

/// An update as it stands, with the status that tells whether there is an answer.
fn standing(
    update: &UpdateHandle,
    answer: Result<Option<Payload>, FailureView>,
) -> (StatusCode, Json<UpdateAnswer>) {
    let (code, status, result, error) = match answer {
        Ok(None) => (
            StatusCode::ACCEPTED,
            UpdateStatus::Pending,
            Payload::ABSENT,
            None,
        ),
        Ok(Some(result)) => (StatusCode::OK, UpdateStatus::Completed, result, None),
        Err(error) => (
            StatusCode::OK,
            UpdateStatus::Failed,
            Payload::ABSENT,
            Some(error),
        ),
    };
    let answer = UpdateAnswer {
        id: update.run_id(),
        update_id: update.id().to_owned(),
        status,
        result,
        error,
    };
    (code, Json(answer))
}
