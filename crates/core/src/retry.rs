//! When a failed activity is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How often and how fast an activity is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; 0 counts as 1.
    pub max_attempts: u32,
    /// Delay before the second attempt.
    #[serde(rename = "initial_interval_ms", with = "crate::options::millis")]
    pub initial_interval: Duration,
    /// No delay is longer, jitter included.
    #[serde(rename = "max_interval_ms", with = "crate::options::millis")]
    pub max_interval: Duration,
    /// Growth of the delay from attempt to attempt.
    pub backoff_coefficient: f64,
    /// Share of the delay by which it varies, 0.0 to 1.0.
    pub jitter: f64,
    /// Failure types that end the activity at once.
    pub non_retryable_errors: Vec<String>,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Try again after this delay.
    Retry(Duration),
    /// All attempts are used up.
    Exhausted,
    /// This failure is not to be retried.
    NonRetryable,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial_interval: Duration::from_secs(1),
            max_interval: Duration::from_secs(60),
            backoff_coefficient: 2.0,
            jitter: 0.2,
            non_retryable_errors: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// Five attempts, little jitter.
    #[must_use]
    pub fn exponential() -> Self {
        Self {
            max_attempts: 5,
            jitter: 0.1,
            ..Self::default()
        }
    }

    /// Five quick attempts, for passing errors.
    #[must_use]
    pub fn aggressive() -> Self {
        Self {
            max_attempts: 5,
            initial_interval: Duration::from_millis(500),
            max_interval: Duration::from_secs(30),
            ..Self::default()
        }
    }

    /// Three slow attempts, for expensive work.
    #[must_use]
    pub fn conservative() -> Self {
        Self {
            initial_interval: Duration::from_secs(2),
            ..Self::default()
        }
    }

    /// One attempt.
    #[must_use]
    pub fn never() -> Self {
        Self {
            max_attempts: 1,
            ..Self::default()
        }
    }

    /// Delay after failed attempt number `attempt` (from 1), before jitter.
    ///
    /// Never panics: a coefficient that is not a number, negative or infinite gives a delay within bounds.
    #[must_use]
    pub fn base_delay(&self, attempt: u32) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let coefficient = if self.backoff_coefficient.is_finite() {
            self.backoff_coefficient.max(0.0)
        } else {
            1.0
        };
        let seconds = self.initial_interval.as_secs_f64() * coefficient.powi(exponent);
        Duration::try_from_secs_f64(seconds).map_or(self.max_interval, |d| d.min(self.max_interval))
    }

    /// Delay after failed attempt number `attempt` (from 1). `unit` in 0.0..=1.0 chooses within the
    /// jitter: 0.5 is the middle. Never above [`RetryPolicy::max_interval`].
    #[must_use]
    pub fn delay_for_attempt(&self, attempt: u32, unit: f64) -> Duration {
        let jitter = if self.jitter.is_finite() {
            self.jitter.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let unit = if unit.is_finite() {
            unit.clamp(0.0, 1.0)
        } else {
            0.5
        };
        let factor = 1.0 + (unit - 0.5) * 2.0 * jitter;
        let seconds = self.base_delay(attempt).as_secs_f64() * factor;
        Duration::try_from_secs_f64(seconds).map_or(self.max_interval, |d| d.min(self.max_interval))
    }

    /// What follows failed attempt number `attempt` (from 1).
    #[must_use]
    pub fn decide(&self, attempt: u32, failure: &Failure, unit: f64) -> RetryDecision {
        if !failure.retryable || self.non_retryable_errors.contains(&failure.error_type) {
            RetryDecision::NonRetryable
        } else if attempt >= self.max_attempts.max(1) {
            RetryDecision::Exhausted
        } else {
            RetryDecision::Retry(self.delay_for_attempt(attempt, unit))
        }
    }
}
