//! The rate limiter's configuration and its pure state machine (GCRA).
//!
//! The state is one instant, the *theoretical arrival* of the next call in a stream that keeps exactly to
//! the rate. Each permit moves it on by one interval (period / permits); it may run ahead of the clock by
//! `burst` intervals. So what is granted never exceeds `burst` + rate × elapsed time, wherever one begins to look,
//! and nothing has to be counted or swept.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// When to ask again while the configuration grants nothing at all; it may be another one by then.
pub const RETRY_WITHOUT_PERMITS: Duration = Duration::from_secs(60 * 60);

/// Most nanoseconds that a burst may be worth, 1000 years; a larger one counts as this.
const TOLERANCE_MAX: i128 = 1000 * 365 * 24 * 60 * 60 * 1_000_000_000;

/// How often an activity may be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateLimitConfig {
    /// Limiter key: by default `activity:TYPE`; a shared one such as `external:openai` holds for several types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Starts in a period; 0: none at all.
    pub permits: u32,
    /// The period.
    #[serde(rename = "period_ms", with = "crate::options::millis")]
    pub period: Duration,
    /// Starts at once after a quiet time; by default as many as in a period, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        Self::per_second(1)
    }
}

impl RateLimitConfig {
    /// So many in every period.
    #[must_use]
    pub const fn new(permits: u32, period: Duration) -> Self {
        Self {
            key: None,
            permits,
            period,
            burst: None,
        }
    }

    /// So many a second.
    #[must_use]
    pub const fn per_second(permits: u32) -> Self {
        Self::new(permits, Duration::from_secs(1))
    }

    /// Shared by all activities that name this key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// So many at once after a quiet time.
    #[must_use]
    pub const fn with_burst(mut self, burst: u32) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Key of the limiter that holds for activities of this type.
    #[must_use]
    pub fn key_for(&self, activity_type: &str) -> String {
        self.key
            .clone()
            .unwrap_or_else(|| format!("activity:{activity_type}"))
    }

    /// Nanoseconds between two permits, rounded up so that the rate is never exceeded; none without permits.
    fn interval(&self) -> Option<i128> {
        let period = i128::try_from(self.period.as_nanos()).unwrap_or(i128::MAX);
        let permits = i128::from(self.permits);
        let rounded_up = i128::from(period.checked_rem(permits)? != 0);
        Some((period / permits + rounded_up).max(1))
    }

    /// Nanoseconds by which the arrival may run ahead.
    fn tolerance(&self, interval: i128) -> i128 {
        let burst = i128::from(self.burst.unwrap_or(self.permits).max(1));
        let whole = interval.saturating_mul(burst);
        whole.min(TOLERANCE_MAX.max(interval))
    }
}

/// The answer to calls that want to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// How many may.
    pub granted: u32,
    /// After how long at least one more may; none if all that were wanted may.
    pub retry_after: Option<Duration>,
}

/// A rate limiter: a value that a store keeps, changed only by its method and the instants that is given.
///
/// A clock that goes backwards is harmless: the burst counts as used up, and permits come at the rate from there.
/// So does a configuration with a smaller burst.
///
/// ```
/// use std::time::Duration;
/// use durable_core::{RateLimitConfig, RateLimiter, Timestamp};
///
/// let config = RateLimitConfig::per_second(10).with_burst(2);
/// let (mut limiter, now) = (RateLimiter::default(), Timestamp::UNIX_EPOCH);
/// let first = limiter.admit(&config, 3, now);
/// assert_eq!((first.granted, first.retry_after), (2, Some(Duration::from_millis(100))));
/// let later = now + Duration::from_millis(100);
/// assert_eq!(limiter.admit(&config, 1, later).granted, 1);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimiter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    theoretical_arrival: Option<Timestamp>,
}

impl RateLimiter {
    /// Grants as many of the calls wanted as may go through at `now`.
    pub fn admit(&mut self, config: &RateLimitConfig, wanted: u32, now: Timestamp) -> Granted {
        let Some(interval) = config.interval() else {
            return Granted {
                granted: 0,
                retry_after: (wanted > 0).then_some(RETRY_WITHOUT_PERMITS),
            };
        };
        let now = now.as_nanosecond();
        // The arrival has to stay an instant, also near the end of time.
        let latest = now
            .saturating_add(config.tolerance(interval))
            .min(Timestamp::MAX.as_nanosecond());
        let arrival = self
            .theoretical_arrival
            .map_or(now, |arrival| arrival.as_nanosecond().clamp(now, latest));
        let possible = u32::try_from((latest - arrival) / interval).unwrap_or(u32::MAX);
        let granted = possible.min(wanted);
        let next = arrival + interval * i128::from(granted);
        let next_instant = Timestamp::from_nanosecond(next);
        self.theoretical_arrival = Some(next_instant.expect("not after the latest instant"));
        Granted {
            granted,
            retry_after: (granted < wanted).then(|| wait(next.saturating_add(interval) - latest)),
        }
    }
}

fn wait(nanoseconds: i128) -> Duration {
    u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos)
}
