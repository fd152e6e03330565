//! What happened to a run.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use everruns_durable::core::{Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::model::{
    HistoryEvent, LogLevel, Page, StepLogFilter, StepLogRecord,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find::limit;
use crate::App;
use crate::http::cursor::{self, List};
use crate::http::extract::{Params, RunId};
use crate::http::guard::Caller;
use crate::http::problem::{Code, Problem};

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct PageParams {
    /// Most rows: 50 unless given.
    #[param(minimum = 1, maximum = 1000)]
    pub(in crate::http) limit: Option<usize>,
    /// Where the page before ended.
    pub(in crate::http) cursor: Option<String>,
}

/// An event of a run's history.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventView {
    /// Its number; they only ever grow.
    pub(super) sequence_num: i64,
    /// What happened.
    #[schema(example = "activity.completed")]
    pub(super) event_type: &'static str,
    /// The details, by the type of event.
    #[schema(value_type = Object)]
    event_data: Box<RawValue>,
    /// When.
    created_at: Timestamp,
}

impl From<HistoryEvent> for EventView {
    fn from(event: HistoryEvent) -> Self {
        Self {
            sequence_num: event.sequence_num,
            event_type: event.event.event_type(),
            event_data: details(&event.event),
            created_at: event.created_at,
        }
    }
}

/// An event is `{"type", "data"}`; one without details has no data. Taken as text: the payloads in it keep their digits.
fn details(event: &WorkflowEvent) -> Box<RawValue> {
    #[derive(Deserialize)]
    struct Details {
        data: Option<Box<RawValue>>,
    }
    let text = serde_json::to_string(event).unwrap_or_default();
    let read: Option<Details> = serde_json::from_str(&text).ok();
    let data = read.and_then(|read| read.data);
    let data = data.filter(|data| data.get().starts_with('{'));
    data.unwrap_or_else(|| RawValue::from_string("{}".to_owned()).unwrap_or_default())
}

/// A page of events, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventList {
    events: Vec<EventView>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A run's events, oldest first. A page ends at its limit, or before the event that would make it larger than 8 MiB.
#[utoipa::path(get, path = "/workflows/{id}/events", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run"), PageParams),
    responses((status = 200, description = "A page", body = EventList)))]
pub(in crate::http) async fn list_events(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Params(params): Params<PageParams>,
) -> Result<Json<EventList>, Problem> {
    let limit = limit(params.limit)?;
    let after: Option<i64> = cursor::place(List::Events, params.cursor.as_deref())?;
    caller.within_scope(&app, id).await?;
    let after = after.unwrap_or_default();
    let Some(page) = app.store().list_events(id, after, limit).await? else {
        return Err(Problem::new(
            Code::NotFound,
            format!("there is no run {id}"),
        ));
    };
    let last = page.events.last().map(|event| event.sequence_num);
    let last = last.filter(|last| *last < page.run.sequence);
    Ok(Json(EventList {
        next_cursor: last.map(|last| cursor::after(List::Events, &last)),
        events: page.events.into_iter().map(EventView::from).collect(),
    }))
}

/// A run's history as a file: what `durable replay` and the tests of a new build read.
#[utoipa::path(get, path = "/workflows/{id}/history", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "The file", body = Object)))]
pub(in crate::http) async fn export_history(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Response, Problem> {
    caller.within_scope(&app, id).await?;
    let history = app.client().history(id).await?;
    Ok(([(CONTENT_TYPE, "application/json")], history.to_json()).into_response())
}

/// A line that an activity logged.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct LogView {
    /// Its id.
    id: Uuid,
    /// Which activity.
    activity_id: String,
    /// Which attempt.
    attempt: u32,
    /// How grave.
    #[schema(value_type = String, example = "info")]
    level: LogLevel,
    /// For people.
    message: String,
    /// For programs.
    #[serde(skip_serializing_if = "Payload::is_absent")]
    #[schema(value_type = Value)]
    meta: Payload,
    /// When.
    created_at: Timestamp,
}

impl From<StepLogRecord> for LogView {
    fn from(line: StepLogRecord) -> Self {
        Self {
            id: line.id,
            activity_id: line.activity_id,
            attempt: line.attempt,
            level: line.level,
            message: line.message,
            meta: line.meta,
            created_at: line.created_at,
        }
    }
}

/// A page of log lines, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct LogList {
    logs: Vec<LogView>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// What a run's activities logged, oldest first. A page ends at its limit, or before the line that would make it larger than 8 MiB.
#[utoipa::path(get, path = "/workflows/{id}/logs", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run"), PageParams),
    responses((status = 200, description = "A page", body = LogList)))]
pub(in crate::http) async fn list_logs(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Params(params): Params<PageParams>,
) -> Result<Json<LogList>, Problem> {
    let page = Page::first(limit(params.limit)?);
    let filter = StepLogFilter {
        run_id: id,
        after: cursor::place(List::Logs, params.cursor.as_deref())?,
    };
    caller.run(&app, id).await?;
    let found = app.store().list_step_logs(filter, page).await?;
    let last = found.lines.last().filter(|_| found.more);
    Ok(Json(LogList {
        next_cursor: last.map(|line| cursor::after(List::Logs, &line.id)),
        logs: found.lines.into_iter().map(LogView::from).collect(),
    }))
}

/// The rows as they are shown, and a cursor behind the last if there may be more: a full page is taken for a sign of it.
pub(in crate::http) fn turn<R, V: From<R>, P: Serialize>(
    list: List,
    page: Page,
    rows: Vec<R>,
    place: impl Fn(&R) -> P,
) -> (Vec<V>, Option<String>) {
    let last = rows.last().filter(|_| rows.len() == page.rows());
    let next = last.map(|last| cursor::after(list, &place(last)));
    (rows.into_iter().map(V::from).collect(), next)
}
