//! Dead letters: activities that failed for good.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::Client;
use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{DeadLetter, DeadLetterState, DlqFilter, Page};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::cursor::{self, List};
use super::extract::{Body, OptionalBody, Params, RunId};
use super::guard::Caller;
use super::problem::{Code, Problem};
use super::views::FailureView;
use super::whole::Whole;
use super::workflows::find::limit;
use super::workflows::history::turn;
use super::workflows::start::present;
use crate::App;

/// Which dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DlqParams {
    /// Only this run's.
    run_id: Option<Uuid>,
    /// Only this activity type.
    activity_type: Option<String>,
    /// Only in this state: what nobody has decided, unless given.
    #[param(inline)]
    state: Option<LetterState>,
    /// Most letters: 50 unless given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum LetterState {
    /// Nobody has decided yet.
    Dead,
    /// Put back into the queue.
    Requeued,
    /// Completed by hand.
    Completed,
    /// Given up.
    Discarded,
}

impl From<DeadLetterState> for LetterState {
    fn from(state: DeadLetterState) -> Self {
        match state {
            DeadLetterState::Dead => Self::Dead,
            DeadLetterState::Requeued => Self::Requeued,
            DeadLetterState::Completed => Self::Completed,
            DeadLetterState::Discarded => Self::Discarded,
        }
    }
}

impl From<LetterState> for DeadLetterState {
    fn from(state: LetterState) -> Self {
        match state {
            LetterState::Dead => Self::Dead,
            LetterState::Requeued => Self::Requeued,
            LetterState::Completed => Self::Completed,
            LetterState::Discarded => Self::Discarded,
        }
    }
}

/// An activity that failed for good.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LetterView {
    /// Its id, which is its task's.
    id: Uuid,
    /// The run.
    run_id: Uuid,
    /// The activity's id within the run.
    activity_id: String,
    /// Which activity.
    activity_type: String,
    /// What it was given.
    #[schema(value_type = Value)]
    input: Payload,
    /// Attempts made.
    attempts: u32,
    /// The last failure.
    last_error: FailureView,
    /// Every attempt's failure.
    error_history: Vec<AttemptView>,
    /// Whether the run waits for a decision.
    parked: bool,
    /// Where it stands.
    state: LetterState,
    /// When it died.
    dead_at: Timestamp,
    /// How often it was put back.
    requeue_count: u32,
    /// When it was last put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    requeued_at: Option<Timestamp>,
}

/// A dead letter, in lists: without its input and without the failures of its attempts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LetterSummary {
    /// Its id, which is its task's.
    id: Uuid,
    /// The run.
    run_id: Uuid,
    /// The activity's id within the run.
    activity_id: String,
    /// Which activity.
    activity_type: String,
    /// Attempts made.
    attempts: u32,
    /// The last failure, its message cut to 1 KiB, without details and cause.
    last_error: FailureView,
    /// Whether the run waits for a decision.
    parked: bool,
    /// Where it stands.
    state: LetterState,
    /// When it died.
    dead_at: Timestamp,
    /// How often it was put back.
    requeue_count: u32,
    /// When it was last put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    requeued_at: Option<Timestamp>,
}

impl From<DeadLetter> for LetterSummary {
    fn from(letter: DeadLetter) -> Self {
        Self {
            id: letter.id,
            run_id: letter.run_id,
            activity_id: letter.activity_id,
            activity_type: letter.activity_type,
            attempts: letter.attempts,
            last_error: FailureView::from(&letter.last_error),
            parked: letter.parked,
            state: letter.state.into(),
            dead_at: letter.dead_at,
            requeue_count: letter.requeue_count,
            requeued_at: letter.requeued_at,
        }
    }
}

/// An attempt that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AttemptView {
    /// Its number, from 1.
    attempt: u32,
    /// Who ran it.
    worker_id: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// How it failed.
    error: FailureView,
}

impl From<DeadLetter> for LetterView {
    fn from(letter: DeadLetter) -> Self {
        let attempts = letter.error_history.iter().map(|attempt| AttemptView {
            attempt: attempt.attempt,
            worker_id: attempt.worker_id.clone(),
            started_at: attempt.started_at,
            error: FailureView::from(&attempt.failure),
        });
        Self {
            error_history: attempts.collect(),
            id: letter.id,
            run_id: letter.run_id,
            activity_id: letter.activity_id,
            activity_type: letter.activity_type,
            input: letter.input,
            attempts: letter.attempts,
            last_error: FailureView::from(&letter.last_error),
            parked: letter.parked,
            state: letter.state.into(),
            dead_at: letter.dead_at,
            requeue_count: letter.requeue_count,
            requeued_at: letter.requeued_at,
        }
    }
}

/// A page of dead letters, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LetterList {
    dead_letters: Vec<LetterSummary>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A result given by hand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteRequest {
    /// The result that the run sees.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    result: Payload,
}

/// What to delete.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeRequest {
    /// Only this run's.
    run_id: Option<Uuid>,
    /// Only this activity type.
    activity_type: Option<String>,
    /// Only in this state.
    state: Option<LetterState>,
    /// Only those that died before then.
    dead_before: Option<Timestamp>,
    /// Most letters: 1,000 unless given.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 10000)]
    limit: Option<Whole<1, 10_000>>,
}

/// How many were deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Purged {
    purged: u64,
}

/// Dead letters, newest first. Inputs and attempts are in the letter itself: `GET /dlq/{id}`.
#[utoipa::path(get, path = "/dlq", tag = "dlq", params(DlqParams),
    responses((status = 200, description = "A page", body = LetterList)))]
pub(super) async fn list_dlq(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<DlqParams>,
) -> Result<Json<LetterList>, Problem> {
    let page = Page::first(limit(params.limit)?);
    let state = params.state.unwrap_or(LetterState::Dead);
    let filter = DlqFilter {
        id: None,
        run_id: params.run_id,
        activity_type: params.activity_type,
        state: Some(state.into()),
        dead_before: None,
        after: cursor::place(List::DeadLetters, params.cursor.as_deref())?,
    };
    let found = app.client().list_dead_letters(filter, page).await?;
    let (mut dead_letters, next_cursor): (Vec<LetterSummary>, _) =
        turn(List::DeadLetters, page, found, DeadLetter::rank);
    let runs: Vec<Uuid> = dead_letters.iter().map(|letter| letter.run_id).collect();
    let in_scope = caller.runs_in_scope(&app, &runs).await?;
    dead_letters
        .retain(|letter| caller.may_use_queue(&letter.activity_type) && in_scope[&letter.run_id]);
    Ok(Json(LetterList {
        dead_letters,
        next_cursor,
    }))
}

/// A dead letter.
#[utoipa::path(get, path = "/dlq/{id}", tag = "dlq",
    params(("id" = Uuid, Path, description = "The letter")),
    responses((status = 200, description = "The letter", body = LetterView)))]
pub(super) async fn get_dlq(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Json<LetterView>, Problem> {
    let letter = find(&app, &caller, id).await?;
    Ok(Json(letter.into()))
}

/// Tries the activity again; a run that saw the failure is taken back to just before it.
#[utoipa::path(post, path = "/dlq/{id}/requeue", tag = "dlq",
    params(("id" = Uuid, Path, description = "The letter")),
    responses((status = 200, description = "The letter", body = LetterView)))]
pub(super) async fn requeue_dlq(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Json<LetterView>, Problem> {
    let (client, letter) = decide(&app, &caller, id).await?;
    client.requeue_dead_letter(letter.run_id, id).await?;
    shown(&app, &caller, id).await
}

/// Gives the activity a result by hand, where its run waits for it.
#[utoipa::path(post, path = "/dlq/{id}/complete", tag = "dlq", request_body = CompleteRequest,
    params(("id" = Uuid, Path, description = "The letter")),
    responses((status = 200, description = "The letter", body = LetterView)))]
pub(super) async fn complete_dlq(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Body(request): Body<CompleteRequest>,
) -> Result<Json<LetterView>, Problem> {
    let (client, letter) = decide(&app, &caller, id).await?;
    let result = present(request.result);
    client
        .complete_dead_letter(letter.run_id, id, &result)
        .await?;
    shown(&app, &caller, id).await
}

/// Leaves it at the failure: a run that waits sees it now.
#[utoipa::path(post, path = "/dlq/{id}/discard", tag = "dlq",
    params(("id" = Uuid, Path, description = "The letter")),
    responses((status = 200, description = "The letter", body = LetterView)))]
pub(super) async fn discard_dlq(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Json<LetterView>, Problem> {
    let (client, letter) = decide(&app, &caller, id).await?;
    client.discard_dead_letter(letter.run_id, id).await?;
    shown(&app, &caller, id).await
}

/// Gives a dead letter up, as `discard` does.
#[utoipa::path(delete, path = "/dlq/{id}", tag = "dlq",
    params(("id" = Uuid, Path, description = "The letter")),
    responses((status = 204, description = "It was given up")))]
pub(super) async fn delete_dlq(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<StatusCode, Problem> {
    let (client, letter) = decide(&app, &caller, id).await?;
    client.discard_dead_letter(letter.run_id, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes dead letters, but none for which a run waits.
#[utoipa::path(post, path = "/dlq/purge", tag = "dlq", request_body = Option<PurgeRequest>,
    responses((status = 200, description = "How many", body = Purged)))]
pub(super) async fn purge_dlq(
    State(app): State<App>,
    caller: Caller,
    OptionalBody(request): OptionalBody<PurgeRequest>,
) -> Result<Json<Purged>, Problem> {
    if let Some(activity_type) = &request.activity_type {
        caller.require_queue(activity_type)?;
    } else if caller.scopes.queues.is_some() {
        let detail = format!("token {:?} is limited to some queues", caller.name);
        return Err(Problem::new(Code::Forbidden, detail).hint("name one of them in activity_type"));
    }
    match request.run_id {
        Some(run_id) => caller.within_scope(&app, run_id).await?,
        None if caller.scopes.workflow_types.is_some() => {
            let detail = format!("token {:?} is limited to some workflow types", caller.name);
            return Err(
                Problem::new(Code::Forbidden, detail).hint("name one of their runs in run_id")
            );
        }
        None => {}
    }
    let max = request.limit.map_or(1_000, |limit| limit.0);
    let filter = DlqFilter {
        id: None,
        run_id: request.run_id,
        activity_type: request.activity_type,
        state: request.state.map(Into::into),
        dead_before: request.dead_before,
        after: None,
    };
    let purged = caller
        .acting(&app)?
        .purge_dead_letters(filter, usize::try_from(max).unwrap_or(usize::MAX))
        .await?;
    Ok(Json(Purged { purged }))
}

async fn decide(app: &App, caller: &Caller, id: Uuid) -> Result<(Client, DeadLetter), Problem> {
    let letter = find(app, caller, id).await?;
    Ok((caller.acting(app)?, letter))
}

async fn shown(app: &App, caller: &Caller, id: Uuid) -> Result<Json<LetterView>, Problem> {
    find(app, caller, id)
        .await
        .map(|letter| Json(letter.into()))
}

/// A letter by its id alone.
async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<DeadLetter, Problem> {
    let found = app.client().get_dead_letter(id).await?;
    let missing = || Problem::new(Code::NotFound, format!("there is no dead letter {id}"));
    let letter = found.ok_or_else(missing)?;
    caller.require_queue(&letter.activity_type)?;
    caller.within_scope(app, letter.run_id).await?;
    Ok(letter)
}
