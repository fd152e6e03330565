//! Local activities: run by the process that takes the run's turns, recorded as facts.

use std::time::Duration;

use crate::payload::Payload;
use crate::retry::RetryPolicy;

/// A local activity that a program asks for. Nothing is recorded before its outcome: after a crash it is asked for again.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalCall {
    /// Unique within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: Payload,
    /// How it is run.
    pub options: LocalOptions,
}

/// How a local activity is run.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalOptions {
    /// When it is tried again; by default it is not.
    pub retry_policy: RetryPolicy,
    /// Longest time for one attempt.
    pub start_to_close_timeout: Duration,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            retry_policy: RetryPolicy::never(),
            start_to_close_timeout: Duration::from_secs(10),
        }
    }
}
