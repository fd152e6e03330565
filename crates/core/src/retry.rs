//! When a failed activity is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

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
    #[serde(serialize_with = "finite_coefficient")]
    pub backoff_coefficient: f64,
    /// Share of the delay by which it varies, 0.0 to 1.0.
    #[serde(serialize_with = "finite_jitter")]
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
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

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
        if self.initial_interval.is_zero() {
            // Zero times an overflowed power is not a number.
            return Duration::ZERO;
        }
        let coefficient = finite_or(self.backoff_coefficient, 1.0).max(0.0);
        let seconds = self.initial_interval.as_secs_f64() * coefficient.powi(exponent);
        Duration::try_from_secs_f64(seconds).map_or(self.max_interval, |d| d.min(self.max_interval))
    }

    /// Delay after failed attempt number `attempt` (from 1). `unit` in 0.0..=1.0 chooses within the
    /// jitter: 0.5 is the middle. Never above [`RetryPolicy::max_interval`].
    #[must_use]
    pub fn delay_for_attempt(&self, attempt: u32, unit: f64) -> Duration {
        let jitter = finite_or(self.jitter, 0.0).clamp(0.0, 1.0);
        let unit = finite_or(unit, 0.5).clamp(0.0, 1.0);
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

const fn finite_or(value: f64, otherwise: f64) -> f64 {
    if value.is_finite() { value } else { otherwise }
}

// JSON has no NaN and no infinity, serde writes null for them, and null is no number to read back:
// written is what they count as.

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn finite_coefficient<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(finite_or(*value, 1.0))
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn finite_jitter<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(finite_or(*value, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(policy: &RetryPolicy) -> (u32, u128, u128, f64, f64) {
        (
            policy.max_attempts,
            policy.initial_interval.as_millis(),
            policy.max_interval.as_millis(),
            policy.backoff_coefficient,
            policy.jitter,
        )
    }

    #[test]
    fn presets_are_the_documented_ones() {
        assert_eq!(shape(&RetryPolicy::default()), (3, 1000, 60_000, 2.0, 0.2));
        assert_eq!(
            shape(&RetryPolicy::exponential()),
            (5, 1000, 60_000, 2.0, 0.1)
        );
        assert_eq!(
            shape(&RetryPolicy::aggressive()),
            (5, 500, 30_000, 2.0, 0.2)
        );
        assert_eq!(
            shape(&RetryPolicy::conservative()),
            (3, 2000, 60_000, 2.0, 0.2)
        );
        assert_eq!(RetryPolicy::never().max_attempts, 1);
    }

    #[test]
    fn delays_double_up_to_the_cap_and_jitter_stays_under_it() {
        let policy = RetryPolicy::exponential();
        let seconds = |attempt| policy.delay_for_attempt(attempt, 0.5).as_secs_f64();
        assert_eq!([seconds(1), seconds(2), seconds(3)], [1.0, 2.0, 4.0]);
        assert_eq!(seconds(40), 60.0);
        assert_eq!(policy.delay_for_attempt(40, 1.0), Duration::from_secs(60));
        assert_eq!(policy.delay_for_attempt(1, 0.0), Duration::from_millis(900));
        assert_eq!(
            policy.delay_for_attempt(1, 1.0),
            Duration::from_millis(1100)
        );
    }

    #[test]
    fn no_initial_delay_means_no_delay_ever() {
        let policy = RetryPolicy {
            initial_interval: Duration::ZERO,
            ..RetryPolicy::default()
        };
        assert_eq!(policy.delay_for_attempt(u32::MAX, 1.0), Duration::ZERO);
    }

    #[test]
    fn decision_looks_at_the_failure_before_the_attempts() {
        let policy = RetryPolicy {
            non_retryable_errors: vec!["CardDeclined".into()],
            ..RetryPolicy::default()
        };
        let decide = |attempt, failure: Failure| policy.decide(attempt, &failure, 0.5);
        let passing = Failure::new("Timeout", "slow");
        assert_eq!(
            decide(1, passing.clone()),
            RetryDecision::Retry(Duration::from_secs(1))
        );
        assert_eq!(decide(3, passing.clone()), RetryDecision::Exhausted);
        assert_eq!(
            decide(1, passing.non_retryable()),
            RetryDecision::NonRetryable
        );
        assert_eq!(
            decide(3, Failure::new("CardDeclined", "no")),
            RetryDecision::NonRetryable
        );
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            any::<u64>().prop_map(Duration::from_nanos),
            (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
            Just(Duration::ZERO),
            Just(Duration::MAX),
        ]
    }

    prop_compose! {
        fn any_policy()(
            max_attempts: u32,
            initial_interval in any_duration(),
            max_interval in any_duration(),
            backoff_coefficient in proptest::num::f64::ANY,
            jitter in proptest::num::f64::ANY,
        ) -> RetryPolicy {
            RetryPolicy {
                max_attempts,
                initial_interval,
                max_interval,
                backoff_coefficient,
                jitter,
                non_retryable_errors: Vec::new(),
            }
        }
    }

    proptest! {
        #[test]
        fn no_delay_exceeds_the_cap(
            policy in any_policy(),
            attempt: u32,
            unit in proptest::num::f64::ANY,
        ) {
            prop_assert!(policy.base_delay(attempt) <= policy.max_interval);
            prop_assert!(policy.delay_for_attempt(attempt, unit) <= policy.max_interval);
        }

        #[test]
        fn stored_policy_is_readable_and_stays_as_it_is(policy in any_policy()) {
            let text = serde_json::to_string(&policy).unwrap();
            let read: RetryPolicy = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
