//! What is stored when something fails, and the two error types users write.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::payload::Payload;

/// A failure as it is stored and served: type, message, whether a retry may help, details, cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The application's or the engine's name for it, such as `CardDeclined` or `StartToCloseTimeout`.
    #[serde(rename = "type")]
    pub error_type: String,
    /// For people.
    pub message: String,
    /// Whether trying again may help.
    #[serde(default)]
    pub retryable: bool,
    /// Structured details, if any.
    #[serde(default, skip_serializing_if = "Payload::is_absent")]
    pub details: Payload,
    /// What caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Failure>>,
}

/// Most causes kept below a failure; what lies deeper is cut off.
///
/// Each is one more level of nesting in the stored event, and readers stop at about a hundred.
pub const CAUSES_MAX: usize = 32;

/// Names of failures that the engine itself makes.
pub mod error_types {
    /// An error without a type of its own.
    pub const GENERIC: &str = "Error";
    /// An activity failed for good.
    pub const ACTIVITY_FAILED: &str = "ActivityFailed";
    /// A child workflow failed or was cancelled.
    pub const CHILD_WORKFLOW_FAILED: &str = "ChildWorkflowFailed";
    /// A task was not picked up in time.
    pub const SCHEDULE_TO_START_TIMEOUT: &str = "ScheduleToStartTimeout";
    /// An activity's whole time, retries included, ran out.
    pub const SCHEDULE_TO_CLOSE_TIMEOUT: &str = "ScheduleToCloseTimeout";
    /// One attempt took too long.
    pub const START_TO_CLOSE_TIMEOUT: &str = "StartToCloseTimeout";
    /// A heartbeat was missed.
    pub const HEARTBEAT_TIMEOUT: &str = "HeartbeatTimeout";
    /// A run and all its continuations took too long.
    pub const EXECUTION_TIMEOUT: &str = "ExecutionTimeout";
    /// One iteration of a run took too long.
    pub const RUN_TIMEOUT: &str = "RunTimeout";
    /// A run was terminated by an operator.
    pub const WORKFLOW_TERMINATED: &str = "WorkflowTerminated";
    /// A task was handed out too often without anyone reporting back.
    pub const DELIVERIES_EXHAUSTED: &str = "DeliveriesExhausted";
    /// No run or workflow type of that name.
    pub const WORKFLOW_NOT_FOUND: &str = "WorkflowNotFound";
    /// No query handler of that name.
    pub const QUERY_NOT_FOUND: &str = "QueryNotFound";
    /// A run's input does not fit its workflow.
    pub const INVALID_INPUT: &str = "InvalidInput";
    /// A workflow's result has no JSON form.
    pub const INVALID_OUTPUT: &str = "InvalidOutput";
    /// A payload on its way to a workflow cannot be read by it.
    pub const INVALID_PAYLOAD: &str = "InvalidPayload";
    /// A workflow's result, or the input of an activity, a child or a continuation, is larger than
    /// a payload may be.
    pub const PAYLOAD_TOO_LARGE: &str = "PayloadTooLarge";
    /// A workflow asked for more than a limit allows, such as too many search attributes.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// The run was asked to stop.
    pub const CANCELLED: &str = "Cancelled";
    /// A saga failed, and so did some of its undo steps.
    pub const COMPENSATION_FAILED: &str = "CompensationFailed";
    /// Not a failure: the run goes on as new.
    pub const CONTINUE_AS_NEW: &str = "ContinueAsNew";
    /// An update's handler failed.
    pub const UPDATE_FAILED: &str = "UpdateFailed";
}

impl Failure {
    /// A failure that a retry may mend.
    #[must_use]
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            error_type: error_type.into(),
            message: message.into(),
            retryable: true,
            details: Payload::ABSENT,
            cause: None,
        }
    }

    /// The same, marked as final.
    #[must_use]
    pub fn non_retryable(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// The same with structured details.
    #[must_use]
    pub fn with_details(mut self, details: Payload) -> Self {
        self.details = details;
        self
    }

    /// The same with a cause, which is cut off at [`CAUSES_MAX`].
    #[must_use]
    pub fn with_cause(mut self, cause: Failure) -> Self {
        self.cause = Some(Box::new(cause));
        let mut last = &mut self;
        for _ in 0..CAUSES_MAX {
            let Some(next) = &mut last.cause else {
                return self;
            };
            last = next;
        }
        last.cause = None;
        self
    }

    /// Whether it, or one of its causes, has this type.
    #[must_use]
    pub fn is(&self, error_type: &str) -> bool {
        std::iter::successors(Some(self), |failure| failure.cause.as_deref())
            .any(|failure| failure.error_type == error_type)
    }

    /// Whether it says that the run was asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.error_type == error_types::CANCELLED
    }

    /// A failure made of any error, its first [`CAUSES_MAX`] sources kept as causes.
    #[must_use]
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let messages: Vec<String> = std::iter::successors(Some(error), |e| e.source())
            .take(CAUSES_MAX + 1)
            .map(ToString::to_string)
            .collect();
        let chain = messages.into_iter().rev().fold(None, |cause, message| {
            let mut failure = Self::new(error_types::GENERIC, message);
            failure.cause = cause;
            Some(Box::new(failure))
        });
        *chain.expect("an error is the first of its own chain")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)
    }
}

/// What an activity answers when it fails.
///
/// `?` turns any error into a retryable one; [`ActivityError::non_retryable`] makes a final one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActivityError(Failure);

impl ActivityError {
    /// A retryable error with a type of the application's own.
    #[must_use]
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Failure::new(error_type, message))
    }

    /// The same, marked as final.
    #[must_use]
    pub fn non_retryable(self) -> Self {
        Self(self.0.non_retryable())
    }

    /// The same with structured details.
    #[must_use]
    pub fn with_details(self, details: Payload) -> Self {
        Self(self.0.with_details(details))
    }

    /// The stored form.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        self.0
    }
}

impl<E: std::error::Error + 'static> From<E> for ActivityError {
    fn from(error: E) -> Self {
        Self(Failure::from_error(&error))
    }
}

/// Why a workflow failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkflowError(Failure);

impl WorkflowError {
    /// A run that was asked to stop.
    #[must_use]
    pub fn cancelled(reason: impl Into<String>) -> Self {
        Self::new(error_types::CANCELLED, reason)
    }

    /// An error with a type of the application's own.
    #[must_use]
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Failure::new(error_type, message).non_retryable())
    }

    /// The stored form.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        self.0
    }

    /// The stored form, to be changed.
    pub const fn failure_mut(&mut self) -> &mut Failure {
        &mut self.0
    }
}

/// `?` on any error fails the workflow with it.
impl<E: std::error::Error + 'static> From<E> for WorkflowError {
    fn from(error: E) -> Self {
        Self(Failure::from_error(&error).non_retryable())
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ActivityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! failure_wrapper {
    ($name:ident) => {
        impl Deref for $name {
            type Target = Failure;
            fn deref(&self) -> &Failure {
                &self.0
            }
        }
    };
}
failure_wrapper!(ActivityError);
failure_wrapper!(WorkflowError);

impl From<Failure> for WorkflowError {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl ActivityError {
    /// Wraps a stored failure again.
    #[must_use]
    pub fn from_failure(failure: Failure) -> Self {
        Self(failure)
    }
}

/// Which of an activity's clocks ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutType {
    /// Waited too long to be picked up.
    ScheduleToStart,
    /// One attempt ran too long.
    StartToClose,
    /// Too long without a heartbeat.
    Heartbeat,
    /// All attempts together took too long.
    ScheduleToClose,
}

impl TimeoutType {
    /// The failure's type name.
    #[must_use]
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::ScheduleToStart => error_types::SCHEDULE_TO_START_TIMEOUT,
            Self::StartToClose => error_types::START_TO_CLOSE_TIMEOUT,
            Self::Heartbeat => error_types::HEARTBEAT_TIMEOUT,
            Self::ScheduleToClose => error_types::SCHEDULE_TO_CLOSE_TIMEOUT,
        }
    }

    /// Whether the activity may be tried again: not when its queue is backed up (X21), nor when its whole time is gone.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::StartToClose | Self::Heartbeat)
    }

    /// The failure that is recorded for it.
    #[must_use]
    pub fn failure(self) -> Failure {
        let mut failure = Failure::new(self.error_type(), format!("{} ran out", self.describe()));
        failure.retryable = self.is_retryable();
        failure
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::ScheduleToStart => "the time to be picked up",
            Self::StartToClose => "the time for one attempt",
            Self::Heartbeat => "the time between heartbeats",
            Self::ScheduleToClose => "the time for all attempts",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("level {level}")]
    struct Nested {
        level: usize,
        source: Option<Box<Nested>>,
    }

    fn causes(failure: &Failure) -> usize {
        std::iter::successors(failure.cause.as_deref(), |f| f.cause.as_deref()).count()
    }

    #[test]
    fn sources_of_an_error_become_causes_in_order() {
        let source = Some(Box::new(Nested {
            level: 2,
            source: None,
        }));
        let failure = Failure::from_error(&Nested { level: 1, source });
        assert_eq!(failure.message, "level 1");
        assert_eq!(failure.cause.unwrap().message, "level 2");
    }

    #[test]
    fn endless_chain_of_causes_is_cut_off() {
        let deep = (0..1000).fold(None, |source, level| {
            Some(Box::new(Nested { level, source }))
        });
        assert_eq!(causes(&Failure::from_error(&*deep.unwrap())), CAUSES_MAX);
        let chained = (0..1000).fold(Failure::new("A", ""), |cause, _| {
            Failure::new("B", "").with_cause(cause)
        });
        assert_eq!(causes(&chained), CAUSES_MAX);
    }
}
