//! The circuit breaker's configuration and its pure state machine.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a circuit breaker opens and closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CircuitBreakerConfig {
    /// Breaker key: by default `activity:TYPE`; a shared one such as `external:openai` guards several types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Failures within the window that open it.
    pub failure_threshold: u32,
    /// Successes that close it again when half open; also the number of probes let through at once.
    pub success_threshold: u32,
    /// How long it stays open before probes are let through.
    #[serde(rename = "reset_timeout_ms", with = "crate::options::millis")]
    pub reset_timeout: Duration,
    /// Sliding window over which failures count.
    #[serde(rename = "window_size_ms", with = "crate::options::millis")]
    pub window_size: Duration,
}

impl Default for CircuitBreakerConfig {
    fn default() -> Self {
        Self {
            key: None,
            failure_threshold: 5,
            success_threshold: 2,
            reset_timeout: Duration::from_secs(60),
            window_size: Duration::from_secs(60),
        }
    }
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CircuitState {
    /// Calls go through.
    #[default]
    Closed,
    /// Calls are held back.
    Open,
    /// A few probes go through.
    HalfOpen,
}
