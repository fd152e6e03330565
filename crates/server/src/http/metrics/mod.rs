//! Measures: samples for dashboards, and Prometheus' text.

mod passed;
pub(crate) mod point;
pub(super) mod prometheus;
pub(crate) mod samples;
mod text;

use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_util::{Stream, stream};
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::Caller;
use super::problem::Problem;
use crate::App;
use point::MetricsPoint;

/// The samples of the last hour.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TimeSeries {
    /// How far the samples are apart.
    interval_ms: u64,
    /// Oldest first.
    points: Vec<MetricsPoint>,
}

/// The samples of the last hour, oldest first.
#[utoipa::path(get, path = "/metrics/timeseries", tag = "system",
    responses((status = 200, description = "The samples", body = TimeSeries)))]
pub(super) async fn get_timeseries(State(app): State<App>, _: Caller) -> Json<TimeSeries> {
    let interval = app.settings().sample_interval.as_millis();
    Json(TimeSeries {
        interval_ms: u64::try_from(interval).unwrap_or(u64::MAX),
        points: app.samples().points(),
    })
}

/// Each sample as it is taken, the last one at once: server-sent events, `event: snapshot`. `event: goaway` says that this server stops, and
/// `event: denied`, with a problem as its data, that the token counts no more.
#[utoipa::path(get, path = "/metrics/stream", tag = "system",
    responses((status = 200, description = "The stream", body = String, content_type = "text/event-stream")))]
pub(super) async fn stream_metrics(
    State(app): State<App>,
    caller: Caller,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut newest = app.samples().newest();
    // Whatever is there counts as new for whoever has just come.
    newest.mark_changed();
    let pass = app.watched(caller.into_pass());
    let snapshots = stream::unfold(Some((app, pass, newest)), |state| async move {
        let (app, mut pass, mut newest) = state?;
        loop {
            // `changed` may be dropped: what it has not answered stays new.
            tokio::select! {
                biased;
                () = app.draining().cancelled() => {
                    return Some((Ok(Event::default().event("goaway").data("{}")), None));
                }
                denied = pass.lost() => return Some((Ok(Problem::from(denied).into_event()), None)),
                changed = newest.changed() => changed.ok()?,
            }
            let point = newest.borrow_and_update().clone();
            if let Some(event) =
                point.and_then(|point| Event::default().event("snapshot").json_data(point).ok())
            {
                return Some((Ok(event), Some((app, pass, newest))));
            }
        }
    });
    Sse::new(snapshots).keep_alive(KeepAlive::default())
}

/// All measures as Prometheus reads them.
#[utoipa::path(get, path = "/metrics", tag = "system",
    responses((status = 200, description = "The measures", body = String, content_type = "text/plain")))]
pub(super) async fn get_metrics(State(app): State<App>, _: Caller) -> Result<Response, Problem> {
    let text = prometheus::measure(&app).await?;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
