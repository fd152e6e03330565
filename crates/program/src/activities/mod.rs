//! The built-in activities.

mod add;
mod echo;
mod fail_n;
mod hosts;
mod http;
mod log;
mod sleep;

pub use add::Add;
pub use echo::Echo;
pub use fail_n::FailN;
pub use hosts::{BadHost, HostAllowList};
pub use http::Http;
pub use log::Log;
pub use sleep::SleepFor;

use everruns_durable::core::error_types;
use everruns_durable::prelude::ActivityError;

/// Another attempt would be given the same input.
fn invalid_input(message: impl Into<String>) -> ActivityError {
    ActivityError::new(error_types::INVALID_INPUT, message).non_retryable()
}
