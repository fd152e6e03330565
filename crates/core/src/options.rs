//! How an activity is to be run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::breaker::CircuitBreakerConfig;
use crate::limiter::RateLimitConfig;
use crate::retry::RetryPolicy;

/// How an activity is to be run: retries, clocks, priority, breaker, rate.
///
/// What is as by default is not written: options stand in every scheduled activity's event and task. The defaults are thereby part of
/// what is stored, and never change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivityOptions {
    /// When it is tried again.
    #[serde(skip_serializing_if = "RetryPolicy::is_default")]
    pub retry_policy: RetryPolicy,
    /// Longest wait until a worker picks it up, counted only while it can be picked up.
    #[serde(
        rename = "schedule_to_start_timeout_ms",
        with = "millis",
        skip_serializing_if = "is_default_to_start"
    )]
    pub schedule_to_start_timeout: Duration,
    /// Longest time for one attempt.
    #[serde(
        rename = "start_to_close_timeout_ms",
        with = "millis",
        skip_serializing_if = "is_default_to_close"
    )]
    pub start_to_close_timeout: Duration,
    /// Longest time between two heartbeats; none: no heartbeat is asked for.
    #[serde(
        rename = "heartbeat_timeout_ms",
        with = "optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeat_timeout: Option<Duration>,
    /// Longest time for all attempts together.
    #[serde(
        rename = "schedule_to_close_timeout_ms",
        with = "optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub schedule_to_close_timeout: Option<Duration>,
    /// Breaker that guards it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<CircuitBreakerConfig>,
    /// Limit on how often it is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitConfig>,
    /// Higher is claimed first.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// What happens when no attempt is left.
    #[serde(skip_serializing_if = "ExhaustedPolicy::is_default")]
    pub on_exhausted: ExhaustedPolicy,
    /// Whether it waits in its run's line (the trait model's order, X2) or runs beside the others.
    #[serde(skip_serializing_if = "is_true")]
    pub sequential: bool,
}

/// See [`ActivityOptions::schedule_to_start_timeout`].
const TO_START: Duration = Duration::from_secs(5 * 60);
/// See [`ActivityOptions::start_to_close_timeout`].
const TO_CLOSE: Duration = Duration::from_secs(10 * 60);

fn is_default_to_start(timeout: &Duration) -> bool {
    *timeout == TO_START
}

fn is_default_to_close(timeout: &Duration) -> bool {
    *timeout == TO_CLOSE
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
const fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
const fn is_true(flag: &bool) -> bool {
    *flag
}

/// What happens when an activity has no attempt left (X22).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExhaustedPolicy {
    /// The workflow sees the failure; the dead letter is the record.
    #[default]
    Fail,
    /// The workflow goes on waiting; the dead letter decides.
    Park,
}

impl ExhaustedPolicy {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is serde's"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to a child when its parent ends first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosePolicy {
    /// It is asked to stop.
    #[default]
    Cancel,
    /// It is stopped.
    Terminate,
    /// It goes on.
    Abandon,
}

/// How a child workflow is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildOptions {
    /// The user's own key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// The version it is pinned to; none: the newest that its parent's process hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What happens to it when its parent ends first.
    pub close_policy: ClosePolicy,
    /// Time for all its iterations together.
    #[serde(
        rename = "execution_timeout_ms",
        with = "optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub execution_timeout: Option<Duration>,
    /// Time for each of its iterations.
    #[serde(
        rename = "run_timeout_ms",
        with = "optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub run_timeout: Option<Duration>,
}

impl ActivityOptions {
    /// The first clock that runs out of an attempt that gives no sign.
    #[must_use]
    pub fn silent_attempt_max(&self) -> Duration {
        let beat = self
            .heartbeat_timeout
            .unwrap_or(self.start_to_close_timeout);
        beat.min(self.start_to_close_timeout)
    }
}

impl Default for ActivityOptions {
    fn default() -> Self {
        Self {
            retry_policy: RetryPolicy::default(),
            schedule_to_start_timeout: TO_START,
            start_to_close_timeout: TO_CLOSE,
            heartbeat_timeout: None,
            schedule_to_close_timeout: None,
            circuit_breaker: None,
            rate_limit: None,
            priority: 0,
            on_exhausted: ExhaustedPolicy::Fail,
            sequential: true,
        }
    }
}

/// Durations as whole milliseconds.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes whole milliseconds; what does not fit becomes the largest that does.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(value.as_millis())
            .unwrap_or(u64::MAX)
            .serialize(serializer)
    }

    /// Reads whole milliseconds.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Optional durations as whole milliseconds.
pub mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes whole milliseconds or null.
    ///
    /// # Errors
    /// The serializer's.
    #[allow(clippy::ref_option, reason = "the signature is serde's")]
    pub fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value
            .map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
            .serialize(serializer)
    }

    /// Reads whole milliseconds or null.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
