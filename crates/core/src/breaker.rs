//! The circuit breaker's configuration and its pure state machine.
//!
//! | state     | `admit`                                  | `record_success`                    | `record_failure`                         |
//! |-----------|------------------------------------------|-------------------------------------|------------------------------------------|
//! | closed    | allowed                                  | closed                              | threshold reached in the window → open   |
//! | open      | before the reset timeout: refused;       | open (a straggler's)                | open (a straggler's)                     |
//! |           | after it: → half open, and a probe       |                                     |                                          |
//! | half open | a permit is free: probe; else refused    | takes a permit back; enough → closed | → open                                  |
//!
//! [`Breaker::reset`] leads from every state to closed; [`Breaker::give_back`] frees a probe's permit and changes nothing else. A probe's permit that nobody reports on is
//! free again after the reset timeout, so that a worker that died with one cannot block the way back.
//!
//! Reports are not tied to a permit: a call admitted before the breaker opened that reports while
//! it is half open is taken as a probe's. It says as much about the other side as a probe does.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Most tallies a breaker keeps: the bound on its size, and the resolution of its window.
///
/// Thresholds up to this are counted to the instant; above it failures closer together than this
/// share of the window are counted as one instant, the first's.
pub const TALLIES_MAX: usize = 64;

/// Most probes let through at once, whatever the configuration says.
pub const PROBES_MAX: u32 = 1024;

/// Shortest window and reset timeout; a shorter one counts as this.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

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

impl CircuitBreakerConfig {
    /// Key of the breaker that guards activities of this type.
    #[must_use]
    pub fn key_for(&self, activity_type: &str) -> String {
        self.key
            .clone()
            .unwrap_or_else(|| format!("activity:{activity_type}"))
    }

    /// Failures that open the breaker; 0 counts as 1.
    fn failures_needed(&self) -> u64 {
        u64::from(self.failure_threshold.max(1))
    }

    /// Probes let through at once.
    fn probes_permitted(&self) -> usize {
        self.success_threshold.clamp(1, PROBES_MAX) as usize
    }

    fn window(&self) -> SignedDuration {
        signed(self.window_size.max(TIMEOUT_MIN))
    }

    fn reset_timeout(&self) -> SignedDuration {
        signed(self.reset_timeout.max(TIMEOUT_MIN))
    }

    /// Failures closer together than this share a tally.
    fn resolution(&self) -> SignedDuration {
        if self.failures_needed() <= TALLIES_MAX as u64 {
            SignedDuration::ZERO
        } else {
            self.window() / TALLIES_MAX as i32
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

fn after(instant: Timestamp, duration: SignedDuration) -> Timestamp {
    instant.checked_add(duration).unwrap_or(Timestamp::MAX)
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

/// The answer to a call that wants to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Allowed,
    /// It may, as a probe: it holds one of the permits until it reports.
    Probe,
    /// It may not, and asking before `retry_at` is no use.
    Refused {
        /// When a permit may be free.
        retry_at: Timestamp,
    },
}

/// A circuit breaker: a value that a store keeps, changed only by its methods and the instants they are given.
///
/// A clock that goes backwards is harmless: what lies in the future is taken as of now.
///
/// ```
/// use durable_core::breaker::{Admission, Breaker, CircuitBreakerConfig};
/// use durable_core::{CircuitState, Timestamp};
///
/// let config = CircuitBreakerConfig { failure_threshold: 2, ..Default::default() };
/// let (mut breaker, now) = (Breaker::default(), Timestamp::UNIX_EPOCH);
/// breaker.record_failure(&config, now);
/// assert_eq!(breaker.admit(&config, now), Admission::Allowed);
/// assert_eq!(breaker.record_failure(&config, now), CircuitState::Open);
/// let retry_at = now + config.reset_timeout;
/// assert_eq!(breaker.admit(&config, now), Admission::Refused { retry_at });
/// assert_eq!(breaker.admit(&config, retry_at), Admission::Probe);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Breaker(Phase);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Phase {
    Closed {
        /// Oldest first.
        #[serde(default)]
        failures: VecDeque<Tally>,
    },
    Open {
        since: Timestamp,
    },
    HalfOpen {
        #[serde(default)]
        successes: u32,
        /// When each permit that is out was given, oldest first.
        #[serde(default)]
        probes: VecDeque<Timestamp>,
    },
}

/// Failures counted as of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Tally {
    at: Timestamp,
    count: u32,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Closed {
            failures: VecDeque::new(),
        }
    }
}

impl Breaker {
    /// Where it stands. An open one turns half open only when it is asked ([`Breaker::admit`]).
    #[must_use]
    pub const fn state(&self) -> CircuitState {
        match self.0 {
            Phase::Closed { .. } => CircuitState::Closed,
            Phase::Open { .. } => CircuitState::Open,
            Phase::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// When it opened, while it is open.
    #[must_use]
    pub const fn opened_at(&self) -> Option<Timestamp> {
        match self.0 {
            Phase::Open { since } => Some(since),
            _ => None,
        }
    }

    /// Failures that count at `now`; 0 unless closed.
    #[must_use]
    pub fn failure_count(&self, config: &CircuitBreakerConfig, now: Timestamp) -> u64 {
        match &self.0 {
            Phase::Closed { failures } => failures
                .iter()
                .filter(|tally| now.duration_since(tally.at) < config.window())
                .map(|tally| u64::from(tally.count))
                .sum(),
            _ => 0,
        }
    }

    /// Successes since it is half open; 0 in the other states.
    #[must_use]
    pub const fn success_count(&self) -> u32 {
        match self.0 {
            Phase::HalfOpen { successes, .. } => successes,
            _ => 0,
        }
    }

    /// Probes that hold a permit.
    #[must_use]
    pub fn probes_out(&self) -> usize {
        match &self.0 {
            Phase::HalfOpen { probes, .. } => probes.len(),
            _ => 0,
        }
    }

    /// Decides about one call, and gives it a permit if it is a probe.
    pub fn admit(&mut self, config: &CircuitBreakerConfig, now: Timestamp) -> Admission {
        self.settle(config, now);
        if let Phase::Open { since } = self.0 {
            let retry_at = after(since, config.reset_timeout());
            if now < retry_at {
                return Admission::Refused { retry_at };
            }
            self.0 = Phase::HalfOpen {
                successes: 0,
                probes: VecDeque::new(),
            };
        }
        let Phase::HalfOpen { probes, .. } = &mut self.0 else {
            return Admission::Allowed;
        };
        if probes.len() < config.probes_permitted() {
            probes.push_back(now);
            return Admission::Probe;
        }
        // The list holds at least one: zero permits are never configured.
        let oldest = probes.iter().min().copied().unwrap_or(now);
        Admission::Refused {
            retry_at: after(oldest, config.reset_timeout()),
        }
    }

    /// A call that was let through succeeded. Answers where the breaker stands now.
    pub fn record_success(
        &mut self,
        config: &CircuitBreakerConfig,
        now: Timestamp,
    ) -> CircuitState {
        self.settle(config, now);
        if let Phase::HalfOpen { successes, probes } = &mut self.0 {
            probes.pop_front();
            *successes = successes.saturating_add(1);
            if *successes >= config.success_threshold.max(1) {
                self.reset();
            }
        }
        self.state()
    }

    /// A call that was let through failed. Answers where the breaker stands now.
    pub fn record_failure(
        &mut self,
        config: &CircuitBreakerConfig,
        now: Timestamp,
    ) -> CircuitState {
        self.settle(config, now);
        match &mut self.0 {
            Phase::Open { .. } => {}
            Phase::HalfOpen { .. } => self.0 = Phase::Open { since: now },
            Phase::Closed { failures } => {
                tally(failures, config, now);
                if self.failure_count(config, now) >= config.failures_needed() {
                    self.0 = Phase::Open { since: now };
                }
            }
        }
        self.state()
    }

    /// A probe ended without telling anything about the other side: its permit is free again.
    pub fn give_back(&mut self) {
        if let Phase::HalfOpen { probes, .. } = &mut self.0 {
            probes.pop_front();
        }
    }

    /// Closes it and forgets every failure: an operator's decision.
    pub fn reset(&mut self) {
        self.0 = Phase::default();
    }

    /// Brings it to `now`: permits that nobody reported on in time are free again, and every instant
    /// after `now` is taken as `now`: without that, a clock that once ran ahead would keep
    /// failures in the window, or the breaker open, until time has caught up.
    fn settle(&mut self, config: &CircuitBreakerConfig, now: Timestamp) {
        match &mut self.0 {
            Phase::Closed { failures } => {
                for tally in failures {
                    tally.at = tally.at.min(now);
                }
            }
            Phase::Open { since } => *since = (*since).min(now),
            Phase::HalfOpen { probes, .. } => {
                for given in probes.iter_mut() {
                    *given = (*given).min(now);
                }
                probes.retain(|given| now < after(*given, config.reset_timeout()));
            }
        }
    }
}

/// Counts a failure, and forgets what has left the window or exceeds the bound.
fn tally(failures: &mut VecDeque<Tally>, config: &CircuitBreakerConfig, now: Timestamp) {
    failures.retain(|tally| now.duration_since(tally.at) < config.window());
    match failures.back_mut() {
        Some(last) if now.duration_since(last.at) < config.resolution() => {
            last.count = last.count.saturating_add(1);
        }
        _ => failures.push_back(Tally { at: now, count: 1 }),
    }
    while failures.len() > TALLIES_MAX {
        failures.pop_front();
    }
}
