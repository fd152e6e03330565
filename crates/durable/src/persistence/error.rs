//! What can go wrong in a store.

use durable_core::{EventError, PayloadError};

use crate::codec::CodecError;

/// The source of a [`StoreError`], kept for logs.
pub type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a store could not do what it was asked.
///
/// Refusals that are part of normal work (a lost lease, a finished run) are outcomes of the
/// intents, not errors: an error means that the whole call failed and nothing of it was written,
/// except for [`StoreError::Unavailable`], whose call may have been carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else wrote first.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another transaction, such as a caller's that is still open, has something
    /// locked that the call needs. Nothing was written.
    /// Of a set, the items of these runs are at fault: the others go through without them.
    #[error("{}", busy_text(runs))]
    Busy {
        /// The runs that are locked; empty where it is not known what is.
        runs: Vec<uuid::Uuid>,
    },
    /// The lease is no longer the caller's.
    #[error("the lease on task {0} is lost")]
    LeaseLost(uuid::Uuid),
    /// There is no such thing.
    #[error("{what} {id} does not exist")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// Which one.
        id: String,
    },
    /// The caller asked for something that is not allowed; says what, and how to mend it.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// A limit of [`super::limits`] was passed.
    #[error("{what} is {found}, the limit is {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: usize,
        /// How large it may be.
        limit: usize,
    },
    /// An operator's read needed more time than such a read may take. Nothing was read.
    #[error("the query is too broad: it did not end within {limit_ms} ms")]
    TooBroad {
        /// The time that it had.
        limit_ms: u64,
    },
    /// The run has ended; nothing can be sent to it any more.
    #[error("run {run_id} has ended ({status}); it takes nothing more")]
    RunFinished {
        /// The run.
        run_id: uuid::Uuid,
        /// How it ended.
        status: super::model::WorkflowStatus,
    },
    /// The database cannot be reached, or the connection was lost on the way: the call may or may not have been carried out.
    #[error("the store is unavailable: {message}")]
    Unavailable {
        /// What was tried.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
    /// What is stored cannot be read; no retry will mend it.
    #[error("stored data is corrupt: {message}")]
    Corrupt {
        /// What and where.
        message: String,
        /// Why.
        #[source]
        source: Option<Source>,
    },
    /// A payload could not be encoded, and nothing was written; or one that is stored could not be decoded.
    #[error("a payload could not be {step}: {source}")]
    Codec {
        /// `encoded` or `decoded`.
        step: &'static str,
        /// Why.
        #[source]
        source: CodecError,
    },
    /// The schema is not the one this build works with.
    #[error("schema: {0}")]
    Schema(String),
    /// Whoever asks may not.
    #[error("not permitted: {0}")]
    Denied(String),
    /// Too much is waiting already: nothing new is taken on for now. Said by a server, never by a store of one's own.
    #[error(
        "too much is waiting (at least {pending} tasks for a capacity of {capacity}); try again in {retry_after_ms} ms"
    )]
    Overloaded {
        /// Tasks that wait, at least: the count ends where it is too much.
        pending: u64,
        /// Slots that they wait for.
        capacity: u64,
        /// When to come back.
        retry_after_ms: u64,
    },
    /// The store cannot be opened as asked: bad URL, read-only file, second process.
    #[error("cannot open the store: {message}")]
    Open {
        /// What is wrong, and how to mend it.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without any change by the caller.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::Conflict(_)
            | Self::Busy { .. }
            | Self::Overloaded { .. } => true,
            Self::Codec { source, .. } => source.is_temporary(),
            _ => false,
        }
    }

    /// Whether the database could not be reached, at the start or later: its address, the network or the server is to blame.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Open { source, .. } => {
                let first = source
                    .as_deref()
                    .map(|error| error as &(dyn std::error::Error + 'static));
                let mut causes = std::iter::successors(first, |error| error.source());
                causes.any(|cause| {
                    // A server behind TLS may hang up without an error of the system's.
                    matches!(cause.downcast_ref(), Some(Self::Unavailable { .. }))
                        || cause
                            .downcast_ref::<std::io::Error>()
                            .is_some_and(is_of_the_network)
                })
            }
            _ => false,
        }
    }

    /// Whether the call may have been carried out although it failed: read back before deciding.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether the store as a whole cannot work, so that no single item of a set is to blame.
    pub(crate) const fn blames_all(&self) -> bool {
        matches!(self, Self::Schema(_) | Self::Denied(_) | Self::Open { .. })
    }

    /// Whether what was asked for is refused as it stands, whenever it is asked again.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Limit { .. })
    }

    /// An unreachable database.
    pub fn unavailable(message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Unavailable {
            message: message.into(),
            source: Some(source.into()),
        }
    }

    /// Unreadable data.
    pub fn corrupt(message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Corrupt {
            message: message.into(),
            source: Some(source.into()),
        }
    }

    /// A store that cannot be opened, without a driver's error behind it.
    pub fn open(message: impl Into<String>) -> Self {
        Self::Open {
            message: message.into(),
            source: None,
        }
    }
}

/// Names the first of the runs only: a set may have hundreds.
fn busy_text(runs: &[uuid::Uuid]) -> String {
    match runs {
        [] => {
            "another transaction has locked what the call needs; try again when it has ended".into()
        }
        [run] => format!("another transaction has locked run {run}; try again when it has ended"),
        [run, rest @ ..] => format!(
            "another transaction has locked run {run} and {} more; try again when it has ended",
            rest.len()
        ),
    }
}

impl From<EventError> for StoreError {
    fn from(error: EventError) -> Self {
        Self::corrupt("an event cannot be read", error)
    }
}

impl From<PayloadError> for StoreError {
    fn from(error: PayloadError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Opening a store fails of files or of the network; a name that cannot be resolved has no kind of its own, so the files' are listed.
fn is_of_the_network(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    !matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
    )
}
