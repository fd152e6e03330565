//! What every refusal looks like: RFC 9457's `application/problem+json`.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::views::FailureView;

/// A refusal: what was wrong, and how to mend it.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem(Box<ProblemView>);

/// A refusal: what was wrong, and how to mend it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemView {
    /// A name for this kind of problem, made of its code.
    #[serde(rename = "type")]
    #[schema(example = "urn:durable:problem:not_found")]
    kind: String,
    /// The kind of problem in a few words.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Stable, for programs.
    #[schema(example = "not_found")]
    code: &'static str,
    /// What was wrong, for people.
    detail: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The run that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<Uuid>,
    /// What a workflow's own code said.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

impl Problem {
    /// A problem of a kind.
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemView {
            kind: format!("urn:durable:problem:{}", code.name()),
            title: code.title(),
            status: code.status().as_u16(),
            code: code.name(),
            detail: detail.into(),
            hint: None,
            run_id: None,
            error: None,
            retry_after: None,
        }))
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(super) fn run_id(mut self, run_id: Option<Uuid>) -> Self {
        self.0.run_id = run_id;
        self
    }

    pub(super) fn error(mut self, failure: Option<FailureView>) -> Self {
        self.0.error = failure;
        self
    }

    /// The same as the last event of a stream that ends for it.
    pub(super) fn into_event(self) -> Event {
        let data = serde_json::to_string(&self.0).unwrap_or_default();
        Event::default().event("denied").data(data)
    }

    pub(super) fn retry_after(mut self, time: Duration) -> Self {
        self.0.retry_after = Some(time);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(time) = self.0.retry_after {
            let seconds = time.as_millis().div_ceil(1000).max(1);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                headers.insert(header::RETRY_AFTER, value);
            }
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"durable\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $status:ident, $title:literal;)+) => {
        /// The kinds of problems there are.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Code { $($(#[$doc])* $variant),+ }

        impl Code {
            const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }
        }
    };
}

codes! {
    InvalidJson = "invalid_json", BAD_REQUEST, "The body is not JSON";
    InvalidBody = "invalid_body", BAD_REQUEST, "The body does not fit";
    InvalidParameter = "invalid_parameter", BAD_REQUEST, "A parameter does not fit";
    InvalidCursor = "invalid_cursor", BAD_REQUEST, "The cursor is not one of this list's";
    InvalidRequest = "invalid_request", BAD_REQUEST, "The request cannot be carried out";
    InvalidProgram = "invalid_program", BAD_REQUEST, "The program has a mistake";
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "A token is needed";
    Forbidden = "forbidden", FORBIDDEN, "The token does not allow it";
    NotFound = "not_found", NOT_FOUND, "There is no such thing";
    NoRoute = "no_route", NOT_FOUND, "There is no such route";
    QueryNotFound = "query_not_found", NOT_FOUND, "The workflow has no such query";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The route has no such method";
    Conflict = "conflict", CONFLICT, "Something stands in the way";
    RunFinished = "run_finished", CONFLICT, "The run has ended";
    RunOpen = "run_open", CONFLICT, "The run has not ended";
    PastIteration = "past_iteration", CONFLICT, "The event belongs to an earlier iteration";
    NoWorker = "no_worker", CONFLICT, "Nobody hosts the workflow";
    RunUnreadable = "run_unreadable", CONFLICT, "The run cannot be rebuilt";
    NotBegun = "not_begun", CONFLICT, "The run has not begun";
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is of another kind";
    QueryTooBroad = "query_too_broad", UNPROCESSABLE_ENTITY, "The query takes too long";
    QueryFailed = "query_failed", UNPROCESSABLE_ENTITY, "The query failed";
    UpdateFailed = "update_failed", UNPROCESSABLE_ENTITY, "The update was refused or failed";
    InboxFull = "inbox_full", TOO_MANY_REQUESTS, "Too much waits for the run";
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server has a bug";
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "Too much is waiting";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The store cannot be reached";
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE, "The server is about to stop";
}
