//! What the macros' code refers to. Not for direct use: it may change with any release.

pub use async_trait::async_trait;
pub use durable_core::{ActivityError, ActivityOptions, ExhaustedPolicy, RetryPolicy};
pub use tokio;

pub use crate::activity::{Activity, ActivityContext};
pub use crate::workflow::{
    Birth, Program, RunDefaults, WorkflowContext, WorkflowDefinition, function_program,
};

/// The value of a `Result`, whatever alias it was written with.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a workflow or an activity answers",
    label = "write `WorkflowResult<T>` or `ActivityResult<T>`"
)]
pub trait ResultType {
    /// The value's type.
    type Ok;
}

impl<T, E> ResultType for Result<T, E> {
    type Ok = T;
}
