//! How the library's errors become problems: all of it, and nowhere else.

use std::time::Duration;

use everruns_durable::Error;
use everruns_durable::persistence::StoreError;
use tracing::error;

use super::problem::{Code, Problem};
use super::views::FailureView;
use crate::auth::Denied;

/// When to come back where nothing better is known.
const COME_BACK: Duration = Duration::from_secs(1);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let failure = error.failure().map(FailureView::from);
        let problem = match code_of(&error) {
            Code::Internal => internal(&error),
            code => Self::new(code, error.to_string()),
        };
        let problem = problem.run_id(error.run_id()).error(failure);
        with_advice(problem, &error)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let code = if denied.is_unauthenticated() {
            Code::Unauthenticated
        } else {
            Code::Forbidden
        };
        Self::new(code, denied.to_string()).hint(denied.hint())
    }
}

impl Problem {
    /// The server is about to stop and keeps nobody waiting.
    pub(super) fn shutting_down() -> Self {
        let detail = "this server stops before there is an answer";
        Self::new(Code::ShuttingDown, detail)
            .hint("try again after the time in Retry-After")
            .retry_after(COME_BACK)
    }
}

/// The first predicate that holds decides.
fn code_of(error: &Error) -> Code {
    let table: &[(bool, Code)] = &[
        (error.is_query_not_found(), Code::QueryNotFound),
        (error.is_not_found(), Code::NotFound),
        (error.is_run_finished(), Code::RunFinished),
        (error.is_run_open(), Code::RunOpen),
        (error.is_past_iteration(), Code::PastIteration),
        (error.is_conflict(), Code::Conflict),
        (error.is_query_too_broad(), Code::QueryTooBroad),
        (error.is_overloaded(), Code::Overloaded),
        (error.is_shutting_down(), Code::ShuttingDown),
        (error.is_no_worker_for_type(), Code::NoWorker),
        (error.is_not_begun(), Code::NotBegun),
        (
            error.is_unreadable() || error.is_blocked(),
            Code::RunUnreadable,
        ),
        (error.is_inbox_full(), Code::InboxFull),
        (error.is_invalid(), Code::InvalidRequest),
        (error.is_update_failed(), Code::UpdateFailed),
        (error.failure().is_some(), Code::QueryFailed),
        (error.is_retryable(), Code::Unavailable),
    ];
    let found = table.iter().find(|(holds, _)| *holds);
    found.map_or(Code::Internal, |(_, code)| *code)
}

fn with_advice(problem: Problem, error: &Error) -> Problem {
    match code_of(error) {
        Code::NotFound => {
            problem.hint("check the id; what has ended is deleted when its time of keeping is over")
        }
        Code::RunFinished => {
            problem.hint("a run that failed can be retried; any other takes a new start")
        }
        Code::RunOpen => problem.hint(
            "cancel the run, or terminate it (POST /workflows/{id}/terminate), and delete it when it has ended",
        ),
        Code::PastIteration => {
            problem.hint("name an event of the current iteration; GET /workflows/{id}/events lists them")
        }
        Code::QueryTooBroad => problem.hint(
            "narrow it: name a workflow_type, a status, a workflow_id or a short created_from..created_until; \
             count without exact=true; ask for a smaller limit",
        ),
        Code::UpdateFailed => problem.hint("error says why; another update can be sent"),
        Code::Conflict => problem.hint("look at what is there, then decide again"),
        Code::NoWorker => problem.hint("start a worker that hosts the workflow"),
        Code::NotBegun | Code::InboxFull => {
            problem.hint("try again in a moment").retry_after(COME_BACK)
        }
        Code::Overloaded | Code::Unavailable | Code::ShuttingDown => {
            let after = error.retry_after().unwrap_or(COME_BACK);
            problem
                .hint("try again after the time in Retry-After")
                .retry_after(after)
        }
        _ => problem,
    }
}

/// What cannot be explained to the caller is for the log, whole; the caller learns that it is not their fault.
fn internal(error: &Error) -> Problem {
    error!(error = ?error, "a request failed for a reason of the server's own");
    Problem::new(
        Code::Internal,
        "the server could not carry this out; its log says why",
    )
}
