//! How steps leave: the ways out of a program that are not its next step.

use everruns_durable::core::{Failure, error_types};
use everruns_durable::persistence::limits::{TEXT_BYTES_MAX, clip};
use everruns_durable::prelude::{Payload, WorkflowError};

use crate::expr::ExpressionError;
use crate::value::Value;

/// What steps come to: they went through, or left.
pub(super) type Flow = Result<(), Exit>;

/// A way out.
#[derive(Debug)]
pub(super) enum Exit {
    /// `return`: of the branch, or of the program.
    Return(Value),
    /// Something failed; `try` can catch it.
    Raise {
        failure: Failure,
        /// Whether it says where, or need not.
        placed: bool,
    },
    /// The program spins; nothing catches that.
    Overrun(Failure),
    /// This part, or the run, was asked to stop.
    Cancelled,
    /// The run goes on as new with this input.
    Continue(Payload),
}

/// Names of the errors that the interpreter itself raises.
pub(crate) mod raised {
    /// An expression has no value.
    pub(crate) const EXPRESSION_ERROR: &str = "ExpressionError";
    /// A `while` went past its `max`.
    pub(crate) const LOOP_LIMIT: &str = "LoopLimit";
    /// Too many steps without waiting for anything.
    pub(crate) const STEP_LIMIT: &str = "StepLimit";
    /// What should be a program is none.
    pub(crate) const INVALID_PROGRAM: &str = "InvalidProgram";
}

impl Exit {
    pub(super) fn raise(error_type: &str, message: impl Into<String>) -> Self {
        Self::Raise {
            failure: Failure::new(error_type, message).non_retryable(),
            placed: true,
        }
    }

    /// What a call answered instead of a result: the application's own error, out of what the library wraps it in.
    pub(super) fn of(error: WorkflowError) -> Self {
        let mut failure = error.into_failure();
        let wrappers = [
            error_types::ACTIVITY_FAILED,
            error_types::CHILD_WORKFLOW_FAILED,
        ];
        while wrappers.contains(&failure.error_type.as_str()) {
            match failure.cause {
                Some(cause) => failure = *cause,
                None => break,
            }
        }
        Self::Raise {
            failure,
            placed: true,
        }
    }

    /// Says where, if it does not say so yet.
    pub(super) fn at(mut self, path: &str) -> Self {
        if let Self::Raise { failure, placed } = &mut self
            && !std::mem::replace(placed, true)
        {
            failure.message = format!("{path}: {}", failure.message);
        }
        self
    }
}

impl From<ExpressionError> for Exit {
    fn from(error: ExpressionError) -> Self {
        Self::Raise {
            failure: Failure::new(raised::EXPRESSION_ERROR, told(error.0)).non_retryable(),
            placed: false,
        }
    }
}

/// A message that repeats what is wrong may be as large as that, and larger than the store takes.
pub(crate) fn told(message: String) -> String {
    clip(message, TEXT_BYTES_MAX)
}

/// An error as a program sees it.
pub(super) fn error_value(failure: &Failure) -> Value {
    let details: Value = failure.details.to_value().unwrap_or_default();
    Value::object([
        ("type", failure.error_type.as_str().into()),
        ("message", failure.message.as_str().into()),
        ("details", details),
    ])
}
