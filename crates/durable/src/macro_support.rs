//! What the macros' code refers to. Not for direct use: it may change with any release.

pub use std::time::Duration;

pub use async_trait::async_trait;
pub use durable_core::{ActivityError, ActivityOptions, ExhaustedPolicy, RetryPolicy};
pub use tokio;

/// The value of a `Result`, whatever alias it was written with.
pub trait ResultType {
    /// The value's type.
    type Ok;
}

impl<T, E> ResultType for Result<T, E> {
    type Ok = T;
}
