//! The one error of the library's doors.

use std::fmt;
use std::time::Duration;

use durable_core::{Failure, PayloadError, QueryError, error_types};
use uuid::Uuid;

use crate::persistence::StoreError;
use crate::persistence::model::{SendRejection, StartRejection, WorkflowStatus};

/// The result of the library's doors.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine or a client could not do what it was asked. Opaque: ask it by its predicates.
#[derive(Debug)]
pub struct Error(Box<Kind>);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the start was refused: {0}")]
    Start(StartRejection),
    #[error("run {run_id}: {rejection}")]
    Send {
        run_id: Uuid,
        rejection: SendRejection,
    },
    #[error("there is no run {0}")]
    NotFound(Uuid),
    #[error("run {0} was deleted")]
    Deleted(Uuid),
    #[error("run {run_id} has not ended, it is {status}; cancel or terminate it first")]
    Open {
        run_id: Uuid,
        status: WorkflowStatus,
    },
    #[error(
        "event {sequence} of run {run_id} belongs to an earlier iteration, to which a run cannot go back and whose events are deleted after a while; \
         the current iteration begins with event {first}"
    )]
    PastIteration {
        run_id: Uuid,
        sequence: i64,
        first: i64,
    },
    #[error("run {run_id} failed: {failure}")]
    Failed { run_id: Uuid, failure: Failure },
    #[error("run {run_id} was cancelled: {reason}")]
    Cancelled { run_id: Uuid, reason: String },
    #[error("update {update_id} of run {run_id} failed: {failure}")]
    UpdateFailed {
        run_id: Uuid,
        update_id: String,
        failure: Failure,
    },
    #[error("{what} cannot be read: {source}")]
    Payload {
        what: String,
        #[source]
        source: PayloadError,
    },
    #[error("run {run_id}: {source}")]
    Query {
        run_id: Uuid,
        #[source]
        source: QueryError,
    },
    #[error(
        "no live process hosts workflow {workflow_type:?}, so nobody answers for run {run_id}; start a worker that does"
    )]
    NoWorkerForType { run_id: Uuid, workflow_type: String },
    #[error("run {run_id} cannot be rebuilt here: {reason}")]
    Unreadable { run_id: Uuid, reason: String },
    #[error("run {run_id} has not begun yet; ask again in a moment")]
    NotBegun { run_id: Uuid },
    #[error(
        "nobody answered for run {run_id} within {within:?}; a process that hosts its workflow is registered and may have died"
    )]
    Unanswered { run_id: Uuid, within: Duration },
    #[error(
        "run {run_id} is blocked: build {build:?} cannot go on with it, and no live process has another build of its workflow: \
         {reason}. It is not lost, and goes on when a build that can is started"
    )]
    Blocked {
        run_id: Uuid,
        build: String,
        reason: String,
    },
    #[error("{0}")]
    Configuration(String),
    #[error(
        "the store did not take the engine's farewell within {more:?} after the grace of {grace:?}; the engine has stopped, and what it held is found by others when its leases run out"
    )]
    FarewellCut { grace: Duration, more: Duration },
    #[error("the engine is shutting down")]
    ShuttingDown,
}

impl Error {
    pub(crate) fn payload(what: impl Into<String>, source: PayloadError) -> Self {
        let what = what.into();
        Kind::Payload { what, source }.into()
    }

    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Kind::Configuration(message.into()).into()
    }

    pub(crate) fn into_kind(self) -> Kind {
        *self.0
    }

    /// There is no such run.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(
            *self.0,
            Kind::NotFound(_)
                | Kind::Deleted(_)
                | Kind::Send {
                    rejection: SendRejection::NotFound,
                    ..
                }
                | Kind::Store(StoreError::NotFound { .. })
        )
    }

    /// The run has ended and takes nothing more.
    #[must_use]
    pub fn is_run_finished(&self) -> bool {
        matches!(
            *self.0,
            Kind::Send {
                rejection: SendRejection::RunFinished { .. },
                ..
            } | Kind::Start(StartRejection::RunFinished { .. })
                | Kind::Store(StoreError::RunFinished { .. })
        )
    }

    /// The run has not ended, and only one that has can be deleted.
    #[must_use]
    pub fn is_run_open(&self) -> bool {
        matches!(*self.0, Kind::Open { .. })
    }

    /// The event belongs to an earlier iteration of the run, to which it cannot go back.
    #[must_use]
    pub fn is_past_iteration(&self) -> bool {
        matches!(*self.0, Kind::PastIteration { .. })
    }

    /// The key, the workflow id or the run's id is taken by another run.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(
            *self.0,
            Kind::Start(
                StartRejection::KeyConflict { .. }
                    | StartRejection::DuplicateBusinessId { .. }
                    | StartRejection::Deleted { .. }
            ) | Kind::Store(StoreError::Conflict(_))
        )
    }

    /// The run that stands in the way of a start, or that the error is about.
    #[must_use]
    pub fn run_id(&self) -> Option<Uuid> {
        match &*self.0 {
            Kind::Start(
                StartRejection::KeyConflict { run_id }
                | StartRejection::DuplicateBusinessId { run_id, .. }
                | StartRejection::RunFinished { run_id, .. }
                | StartRejection::Deleted { run_id },
            )
            | Kind::NotFound(run_id)
            | Kind::Deleted(run_id)
            | Kind::Open { run_id, .. }
            | Kind::PastIteration { run_id, .. }
            | Kind::Send { run_id, .. }
            | Kind::Failed { run_id, .. }
            | Kind::Query { run_id, .. }
            | Kind::NoWorkerForType { run_id, .. }
            | Kind::Unreadable { run_id, .. }
            | Kind::NotBegun { run_id }
            | Kind::Unanswered { run_id, .. }
            | Kind::Blocked { run_id, .. }
            | Kind::UpdateFailed { run_id, .. }
            | Kind::Cancelled { run_id, .. } => Some(*run_id),
            _ => None,
        }
    }

    /// The run, or the update, failed; this is its failure.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match &*self.0 {
            Kind::Failed { failure, .. }
            | Kind::UpdateFailed { failure, .. }
            | Kind::Query {
                source: QueryError::Failed { failure, .. },
                ..
            } => Some(failure),
            _ => None,
        }
    }

    /// The update was refused, failed, or the run ended before it was answered; [`Error::failure`] says why.
    #[must_use]
    pub fn is_update_failed(&self) -> bool {
        matches!(*self.0, Kind::UpdateFailed { .. })
    }

    /// How the run ended, where it ended without a result.
    #[must_use]
    pub fn status(&self) -> Option<WorkflowStatus> {
        match &*self.0 {
            Kind::Failed { .. } => Some(WorkflowStatus::Failed),
            Kind::Cancelled { .. } => Some(WorkflowStatus::Cancelled),
            _ => None,
        }
    }

    /// The workflow has no query of that name; the error's text has those it has.
    #[must_use]
    pub fn is_query_not_found(&self) -> bool {
        matches!(
            *self.0,
            Kind::Query {
                source: QueryError::NotFound { .. },
                ..
            }
        ) || self
            .failure()
            .is_some_and(|failure| failure.is(error_types::QUERY_NOT_FOUND))
    }

    /// No live process hosts the run's workflow.
    #[must_use]
    pub fn is_no_worker_for_type(&self) -> bool {
        matches!(*self.0, Kind::NoWorkerForType { .. })
    }

    /// The run is blocked: its code here cannot go on with it (it diverged from the history, awaited something foreign, panicked), and
    /// no live process has other code. The error says why. The run goes on by itself when a build that can is started.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        matches!(*self.0, Kind::Blocked { .. })
    }

    /// The run waits for its first turn and cannot be asked yet.
    #[must_use]
    pub fn is_not_begun(&self) -> bool {
        matches!(*self.0, Kind::NotBegun { .. })
    }

    /// The run's program cannot be rebuilt from its history here, so that it cannot be asked.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(*self.0, Kind::Unreadable { .. })
    }

    /// Too much waits for the run already; it takes more once it has read some.
    #[must_use]
    pub fn is_inbox_full(&self) -> bool {
        matches!(
            *self.0,
            Kind::Send {
                rejection: SendRejection::InboxFull { .. },
                ..
            }
        )
    }

    /// The run was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0, Kind::Cancelled { .. })
    }

    /// Why the run was cancelled, where it was.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Cancelled { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// A list or count needed more time than such a read may take: narrow its filter.
    #[must_use]
    pub fn is_query_too_broad(&self) -> bool {
        matches!(*self.0, Kind::Store(StoreError::TooBroad { .. }))
    }

    /// Too much is waiting already; [`Error::retry_after`] says when to come back.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        matches!(*self.0, Kind::Store(StoreError::Overloaded { .. }))
    }

    /// After which time another try may go better.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match *self.0 {
            Kind::Store(StoreError::Overloaded { retry_after_ms, .. }) => {
                Some(Duration::from_millis(retry_after_ms))
            }
            _ => None,
        }
    }

    /// The engine beside the client has stopped; whether the call was carried out is not known. Ask another client.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        matches!(*self.0, Kind::ShuttingDown)
    }

    /// The store could not be reached or was busy, or the engine beside has stopped: the same call may go better later or elsewhere.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Kind::Store(error) => error.is_retryable(),
            Kind::ShuttingDown | Kind::NotBegun { .. } | Kind::Unanswered { .. } => true,
            Kind::Send { rejection, .. } => matches!(rejection, SendRejection::InboxFull { .. }),
            _ => false,
        }
    }

    /// The store could not be reached; see [`StoreError::is_unreachable`].
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(&*self.0, Kind::Store(error) if error.is_unreachable())
    }

    /// The server does not permit it: the token is missing, unknown, or was made for something else.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(*self.0, Kind::Store(StoreError::Denied(_)))
    }

    /// What was asked for is not allowed or does not fit; asking again will not help.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(
            *self.0,
            Kind::Payload { .. }
                | Kind::Configuration(_)
                | Kind::Store(StoreError::Invalid(_) | StoreError::Limit { .. })
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Kind::Store(error).into()
    }
}
