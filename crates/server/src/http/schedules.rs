//! Schedules: runs started by the clock.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::client::Schedule;
use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{OverlapPolicy, Page, ScheduleFilter, ScheduleRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::cursor::{self, List};
use super::extract::{Body, Name, Params};
use super::guard::Caller;
use super::problem::{Code, Problem};
use super::whole::Whole;
use super::workflows::Run;
use super::workflows::find::limit;
use super::workflows::history::{PageParams, turn};
use super::workflows::start::{check_input, present};
use crate::App;

/// A schedule to create, or to put in the place of the one with the same id.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleRequest {
    /// Your own name for it.
    #[schema(min_length = 1, max_length = 512)]
    id: String,
    /// Five fields: minute, hour, day of the month, month, day of the week.
    #[schema(example = "0 9 * * 1-5")]
    cron: String,
    /// Whose wall clock the fields speak of, by its IANA name.
    #[serde(default = "utc")]
    #[schema(default = "UTC", example = "Europe/Vienna")]
    time_zone: String,
    /// Which workflow each tick starts.
    #[schema(min_length = 1, max_length = 200)]
    workflow_type: String,
    /// The input of its runs.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    input: Payload,
    /// What happens when the last run has not ended.
    #[serde(default)]
    overlap: Overlap,
    /// How late a missed tick may still be made up for; 0 skips missed ticks.
    #[serde(default)]
    #[schema(value_type = u64, maximum = 31_536_000_000_u64)]
    catchup_window_ms: Whole<0, CATCHUP_MS_MAX>,
}

/// A year: what was missed before that is no longer missed.
const CATCHUP_MS_MAX: u64 = 31_536_000_000;

fn utc() -> String {
    "UTC".to_owned()
}

/// What happens when a tick comes while the last run has not ended.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Overlap {
    /// Start another.
    #[default]
    Allow,
    /// Skip this one.
    Skip,
    /// Ask the last run to stop, start another.
    Replace,
    /// Stop the last run, start another.
    Terminate,
    /// Start one more when the last run ends.
    BufferOne,
}

impl From<Overlap> for OverlapPolicy {
    fn from(overlap: Overlap) -> Self {
        match overlap {
            Overlap::Allow => Self::Allow,
            Overlap::Skip => Self::Skip,
            Overlap::Replace => Self::Replace,
            Overlap::Terminate => Self::Terminate,
            Overlap::BufferOne => Self::BufferOne,
        }
    }
}

impl From<OverlapPolicy> for Overlap {
    fn from(policy: OverlapPolicy) -> Self {
        match policy {
            OverlapPolicy::Allow => Self::Allow,
            OverlapPolicy::Skip => Self::Skip,
            OverlapPolicy::Replace => Self::Replace,
            OverlapPolicy::Terminate => Self::Terminate,
            OverlapPolicy::BufferOne => Self::BufferOne,
        }
    }
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleView {
    id: String,
    cron: String,
    time_zone: String,
    workflow_type: String,
    /// What its runs are given. Null in lists: `GET /schedules/{id}` has it.
    #[schema(value_type = Value)]
    input: Payload,
    overlap: Overlap,
    catchup_window_ms: i64,
    paused: bool,
    /// When it fires next; absent when it never does again.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_fire_at: Option<Timestamp>,
    /// The last tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fire_at: Option<Timestamp>,
    /// The run that it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run_id: Option<Uuid>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<ScheduleRecord> for ScheduleView {
    fn from(schedule: ScheduleRecord) -> Self {
        Self {
            id: schedule.id,
            cron: schedule.cron,
            time_zone: schedule.time_zone,
            workflow_type: schedule.workflow_type,
            input: schedule.input,
            overlap: schedule.overlap.into(),
            catchup_window_ms: schedule.catchup_window_ms,
            paused: schedule.paused,
            next_fire_at: schedule.next_fire_at,
            last_fire_at: schedule.last_fire_at,
            last_run_id: schedule.last_run,
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
        }
    }
}

/// A page of schedules, by id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleList {
    schedules: Vec<ScheduleView>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Which ticks to make up for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackfillRequest {
    /// Only ticks after this.
    from: Timestamp,
    /// Only ticks up to this.
    to: Timestamp,
}

/// The runs that a backfill started.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Backfilled {
    ids: Vec<Uuid>,
}

/// Schedules, by id.
#[utoipa::path(get, path = "/schedules", tag = "schedules", params(PageParams),
    responses((status = 200, description = "A page", body = ScheduleList)))]
pub(super) async fn list_schedules(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<PageParams>,
) -> Result<Json<ScheduleList>, Problem> {
    let page = Page::first(limit(params.limit)?);
    let filter = ScheduleFilter {
        after: cursor::place(List::Schedules, params.cursor.as_deref())?,
    };
    let found = app.client().list_schedules(filter, page).await?;
    let (mut schedules, next_cursor): (Vec<ScheduleView>, _) =
        turn(List::Schedules, page, found, |schedule| schedule.id.clone());
    schedules.retain(|schedule| caller.may_use_type(&schedule.workflow_type));
    Ok(Json(ScheduleList {
        schedules,
        next_cursor,
    }))
}

/// Creates a schedule. The same one again changes nothing; another one under the same id replaces it.
#[utoipa::path(post, path = "/schedules", tag = "schedules", request_body = ScheduleRequest,
    responses((status = 201, description = "The schedule", body = ScheduleView)))]
pub(super) async fn create_schedule(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ScheduleRequest>,
) -> Result<(StatusCode, Json<ScheduleView>), Problem> {
    caller.require_type(&request.workflow_type)?;
    check_input(&request.workflow_type, &request.input)?;
    if let Some(replaced) = app.store().get_schedule(&request.id).await? {
        caller.require_type(&replaced.workflow_type)?;
    }
    let schedule = Schedule::cron(request.id, request.cron)
        .time_zone(request.time_zone)
        .workflow_named(request.workflow_type, present(request.input))
        .overlap(request.overlap.into())
        .catchup(Duration::from_millis(request.catchup_window_ms.0));
    let schedule = caller.acting(&app)?.create_schedule(schedule).await?;
    Ok((StatusCode::CREATED, Json(schedule.into())))
}

/// A schedule as it stands.
#[utoipa::path(get, path = "/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = ScheduleView)))]
pub(super) async fn get_schedule(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
) -> Result<Json<ScheduleView>, Problem> {
    visible(&app, &caller, &id).await.map(Json)
}

/// Deletes a schedule; its runs go on.
#[utoipa::path(delete, path = "/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete_schedule(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    visible(&app, &caller, &id).await?;
    caller.acting(&app)?.delete_schedule(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a schedule: no tick fires until it is resumed.
#[utoipa::path(post, path = "/schedules/{id}/pause", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = ScheduleView)))]
pub(super) async fn pause_schedule(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
) -> Result<Json<ScheduleView>, Problem> {
    visible(&app, &caller, &id).await?;
    caller.acting(&app)?.pause_schedule(&id).await?;
    visible(&app, &caller, &id).await.map(Json)
}

/// Resumes a schedule with its next tick.
#[utoipa::path(post, path = "/schedules/{id}/resume", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = ScheduleView)))]
pub(super) async fn resume_schedule(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
) -> Result<Json<ScheduleView>, Problem> {
    visible(&app, &caller, &id).await?;
    caller.acting(&app)?.resume_schedule(&id).await?;
    visible(&app, &caller, &id).await.map(Json)
}

/// Starts a run of a schedule now; its ticks stay as they are.
#[utoipa::path(post, path = "/schedules/{id}/trigger", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 201, description = "The run", body = Run)))]
pub(super) async fn trigger_schedule(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
) -> Result<(StatusCode, Json<Run>), Problem> {
    visible(&app, &caller, &id).await?;
    let run = caller.acting(&app)?.trigger_schedule(&id).await?;
    let run = super::workflows::show(&app, run.id()).await?;
    Ok((StatusCode::CREATED, Json(run)))
}

/// Starts the runs of ticks in the past that have not been started.
#[utoipa::path(post, path = "/schedules/{id}/backfill", tag = "schedules", request_body = BackfillRequest,
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The runs", body = Backfilled)))]
pub(super) async fn backfill_schedule(
    State(app): State<App>,
    caller: Caller,
    Name(id): Name,
    Body(request): Body<BackfillRequest>,
) -> Result<Json<Backfilled>, Problem> {
    visible(&app, &caller, &id).await?;
    let BackfillRequest { from, to } = &request;
    if from > to {
        let detail = format!("`from` ({from}) is after `to` ({to}): there is nothing between them");
        return Err(
            Problem::new(Code::InvalidRequest, detail).hint("give the earlier instant first")
        );
    }
    let client = caller.acting(&app)?;
    let ids = client
        .backfill_schedule(&id, request.from, request.to)
        .await?;
    Ok(Json(Backfilled { ids }))
}

async fn visible(app: &App, caller: &Caller, id: &str) -> Result<ScheduleView, Problem> {
    let schedule = app.client().get_schedule(id).await?;
    caller.require_type(&schedule.workflow_type)?;
    Ok(schedule.into())
}
