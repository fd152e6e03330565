//! A run's events as they happen.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use everruns_durable::persistence::model::{History, HistoryEvent};
use futures_util::{FutureExt as _, Stream, stream};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::followed::Following;
use super::history::EventView;
use crate::App;
use crate::auth::{Denied, WatchedPass};
use crate::http::extract::{Params, RunId};
use crate::http::guard::Caller;
use crate::http::problem::{Code, Problem};

/// Until a stream tries again after the store could not be read.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Most events of one look; a long history is sent look by look.
const BATCH_MAX: usize = 500;

/// Where to begin.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StreamParams {
    /// Only events after this number; the header `Last-Event-ID` does the same.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// A run's events as server-sent events, those of the past first. Each has its number as its id, so that a reader that comes back with
/// `Last-Event-ID` misses none. When the run has ended, `event: end` closes the stream; `event: goaway` says that this server stops, and
/// `event: denied`, with a problem as its data, that the token counts no more.
#[utoipa::path(get, path = "/workflows/{id}/events/stream", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run"), StreamParams, ("Last-Event-ID" = Option<i64>, Header, description = "The last event that was read")),
    responses((status = 200, description = "The stream", body = String, content_type = "text/event-stream")))]
pub(in crate::http) async fn stream_events(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
    Params(params): Params<StreamParams>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let after = match last_event_id(&headers)? {
        Some(last) => last,
        None => params.after.unwrap_or_default(),
    };
    caller.run(&app, id).await?;
    let pass = app.watched(caller.into_pass());
    let following = app.followed().follow(&app, id);
    let follow = Follow {
        app,
        id,
        pass,
        after,
        following,
        over: false,
    };
    // What follows one look is one batch; the stream ends after the batch that says so.
    let batches = stream::unfold(follow, |mut follow| async move {
        let batch = follow.next().await?;
        Some((stream::iter(batch.into_iter().map(Ok)), follow))
    });
    use futures_util::StreamExt as _;
    Ok(Sse::new(batches.flatten()).keep_alive(KeepAlive::default()))
}

pub(in crate::http) fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let number = number.filter(|number| *number >= 0);
    number.map(Some).ok_or_else(|| {
        Problem::new(
            Code::InvalidParameter,
            "the header Last-Event-ID is no event's number",
        )
        .hint("send the id of the last event that was read, or leave it out")
    })
}

/// Follows a run.
struct Follow {
    app: App,
    id: Uuid,
    pass: WatchedPass,
    after: i64,
    following: Following,
    over: bool,
}

impl Follow {
    /// The next events, once there are some; none after the end.
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.over {
            return None;
        }
        // A run that always has news is left all the same.
        if let Some(denied) = self.pass.lost().now_or_never() {
            return self.deny(denied);
        }
        loop {
            let store = self.app.store();
            let unread;
            let (batch, ended) = match store.list_events(self.id, self.after, BATCH_MAX).await {
                Ok(Some(page)) => {
                    // Events that retention has deleted are not waited for in a hurry.
                    unread = page.events.is_empty() && page.run.sequence > self.after;
                    self.read(page)
                }
                Ok(None) => return self.close(Vec::new(), "end"),
                Err(error) if error.is_retryable() => {
                    unread = true;
                    (Vec::new(), false)
                }
                Err(_) => return self.close(Vec::new(), "end"),
            };
            if ended {
                return self.close(batch, "end");
            }
            if !batch.is_empty() {
                return Some(batch);
            }
            let draining = self.app.draining().clone();
            tokio::select! {
                biased;
                () = draining.cancelled() => return self.close(Vec::new(), "goaway"),
                denied = self.pass.lost() => return self.deny(denied),
                () = tokio::time::sleep(TRY_AGAIN), if unread => {}
                () = self.following.has_news(self.after), if !unread => {}
            }
        }
    }

    /// The events of a page, and whether the run has no more and never will.
    fn read(&mut self, page: History) -> (Vec<Event>, bool) {
        if let Some(last) = page.events.last() {
            self.after = last.sequence_num;
        }
        let nothing_more = page.events.is_empty() || self.after >= page.run.sequence;
        let ended = page.run.status.is_terminal() && nothing_more;
        (page.events.into_iter().filter_map(shown).collect(), ended)
    }

    fn deny(&mut self, denied: Denied) -> Option<Vec<Event>> {
        self.over = true;
        Some(vec![Problem::from(denied).into_event()])
    }

    fn close(&mut self, mut batch: Vec<Event>, why: &'static str) -> Option<Vec<Event>> {
        self.over = true;
        batch.push(Event::default().event(why).data("{}"));
        Some(batch)
    }
}

fn shown(event: HistoryEvent) -> Option<Event> {
    let view = EventView::from(event);
    let (id, name) = (view.sequence_num.to_string(), view.event_type);
    Event::default().id(id).event(name).json_data(view).ok()
}
