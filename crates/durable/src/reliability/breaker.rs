//! A circuit breaker whose state is in the store.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Admission, Breaker, CircuitBreakerConfig, CircuitState, Timestamp};
use tracing::{info, warn};

use super::kept::{CONFLICTS_MAX, Kept};
use crate::persistence::model::cut;
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};
use crate::runtime::Runtime;

/// A circuit breaker that all processes on a store share.
///
/// While it is half open, only its probes decide: a call that was let through before it opened and reports late changes nothing, and
/// neither does a probe of an earlier opening. A probe that never reports is given up after the reset timeout. Time is the store's: processes
/// whose own clocks disagree, or jump, see the same breaker.
pub struct DistributedCircuitBreaker {
    store: Arc<dyn WorkflowEventStore>,
    runtime: Runtime,
    key: String,
    config: CircuitBreakerConfig,
}

/// How many of the calls that wanted to may go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// So many.
    pub granted: usize,
    /// What their reports have to bring along where they are probes.
    pub probe: Option<Probe>,
    /// After how long the others should ask again; none if all may.
    pub retry_after: Option<Duration>,
}

/// A probe's mark: which opening of the breaker it is to bring to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    opened_at: Option<Timestamp>,
}

/// How a call that was let through ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Succeeded,
    /// Not well.
    Failed,
    /// It told nothing about the other side, such as one that was cancelled.
    GivenBack,
}

/// What one call has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Its mark, where it was a probe.
    pub probe: Option<Probe>,
    /// How it ended.
    pub ending: Ending,
}

/// Shortest wait that is answered.
const WAIT_MIN: Duration = Duration::from_millis(5);
/// Longest wait while probes are out: nobody rings when they report.
const HALF_OPEN_WAIT_MAX: Duration = Duration::from_secs(5);

impl DistributedCircuitBreaker {
    /// The breaker of a key, such as `activity:charge` or `external:openai`.
    #[must_use]
    pub fn new(
        store: Arc<dyn WorkflowEventStore>,
        runtime: Runtime,
        key: impl Into<String>,
        config: CircuitBreakerConfig,
    ) -> Self {
        Self {
            store,
            runtime,
            key: key.into(),
            config,
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Where it stands.
    ///
    /// # Errors
    /// The store's.
    pub async fn state(&self) -> StoreResult<CircuitState> {
        Ok(self.read().await?.machine.state())
    }

    /// Decides about a batch of calls, by what the store says now.
    ///
    /// # Errors
    /// The store's; [`StoreError::Conflict`] where others were faster again and again. Nothing may go through then.
    pub async fn admit(&self, wanted: usize) -> StoreResult<Admitted> {
        for _ in 0..CONFLICTS_MAX {
            let mut kept = self.read().await?;
            if kept.machine.state() == CircuitState::Closed {
                return Ok(Admitted {
                    granted: wanted,
                    probe: None,
                    retry_after: None,
                });
            }
            let before = kept.machine.clone();
            let now = self.store.clock(None).await?;
            let answer = self.give_probes(&mut kept, wanted, now);
            // What changes nothing is not written. A refusal does where the store's clock went back: unwritten, the breaker would stay
            // open until time has caught up.
            if kept.machine == before || kept.save(&*self.store).await? {
                return Ok(answer);
            }
        }
        Err(self.contended())
    }

    /// One call: may it go through?
    ///
    /// # Errors
    /// [`CircuitBreakerError::Open`] if not; the store's.
    pub async fn allow(&self) -> Result<CircuitBreakerPermit<'_>, CircuitBreakerError> {
        let admitted = self.admit(1).await?;
        match admitted.retry_after {
            Some(retry_after) => Err(CircuitBreakerError::Open { retry_after }),
            None => Ok(CircuitBreakerPermit {
                breaker: self,
                probe: admitted.probe,
            }),
        }
    }

    /// A call succeeded whose permit is not at hand; while half open it is taken as a probe's.
    ///
    /// # Errors
    /// The store's.
    pub async fn record_success(&self) -> StoreResult<()> {
        self.record_unmarked(Ending::Succeeded).await
    }

    /// A call failed whose permit is not at hand; while half open it is taken as a probe's.
    ///
    /// # Errors
    /// The store's.
    pub async fn record_failure(&self) -> StoreResult<()> {
        self.record_unmarked(Ending::Failed).await
    }

    async fn record_unmarked(&self, ending: Ending) -> StoreResult<()> {
        let opened_at = self.read().await?.record.opened_at;
        let probe = Some(Probe { opened_at });
        self.record(&[Report { probe, ending }]).await
    }

    /// Takes reports in: one save for all of them, none where they change nothing.
    ///
    /// # Errors
    /// The store's; [`StoreError::Conflict`] where others were faster again and again. Nothing was counted then.
    pub async fn record(&self, reports: &[Report]) -> StoreResult<()> {
        let now = self.store.clock(None).await?;
        let mut unsure = None;
        for _ in 0..CONFLICTS_MAX {
            let mut kept = self.read().await?;
            let version = kept.record.version;
            // A save of unknown outcome that moved the version is taken as ours: better a report lost than one counted twice.
            if unsure.is_some_and(|unsure| unsure != version) {
                return Ok(());
            }
            if !self.apply(&mut kept, reports, now) {
                return Ok(());
            }
            match kept.save(&*self.store).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.is_outcome_unknown() => unsure = Some(version),
                Err(error) => return Err(error),
            }
        }
        Err(self.contended())
    }

    async fn read(&self) -> StoreResult<Kept<Breaker>> {
        Kept::read(&*self.store, &self.key).await
    }

    fn contended(&self) -> StoreError {
        StoreError::Conflict(format!("breaker {} is asked by too many at once", self.key))
    }

    fn give_probes(&self, kept: &mut Kept<Breaker>, wanted: usize, now: Timestamp) -> Admitted {
        let mut granted = 0;
        let mut retry_after = None;
        while granted < wanted {
            match kept.machine.admit(&self.config, now) {
                Admission::Refused { retry_at } => {
                    retry_after = Some(self.wait(kept.machine.state(), now, retry_at));
                    break;
                }
                Admission::Allowed | Admission::Probe => granted += 1,
            }
        }
        let record = &mut kept.record;
        record.state = kept.machine.state();
        record.success_count = kept.machine.success_count();
        Admitted {
            granted,
            probe: Some(Probe {
                opened_at: record.opened_at,
            }),
            retry_after,
        }
    }

    /// Spread over a tenth, so that what was refused together does not come back together.
    fn wait(&self, state: CircuitState, now: Timestamp, retry_at: Timestamp) -> Duration {
        let until = Duration::try_from(retry_at.duration_since(now)).unwrap_or_default();
        let most = if state == CircuitState::HalfOpen {
            (self.config.reset_timeout / 4).min(HALF_OPEN_WAIT_MAX)
        } else {
            Duration::MAX
        };
        let wait = until.min(most).max(WAIT_MIN);
        wait + (wait / 10).mul_f64(self.runtime.fraction())
    }

    /// Hands the machine its reports. False: they change nothing.
    fn apply(&self, kept: &mut Kept<Breaker>, reports: &[Report], now: Timestamp) -> bool {
        let mut changed = false;
        for report in reports {
            let Kept { record, machine } = kept;
            let marked = report
                .probe
                .is_some_and(|probe| probe.opened_at == record.opened_at);
            match (machine.state(), report.ending) {
                (CircuitState::Closed, Ending::Failed) => {
                    let failures = machine.failure_count(&self.config, now) + 1;
                    record.failure_count = u32::try_from(failures).unwrap_or(u32::MAX);
                    machine.record_failure(&self.config, now);
                }
                (CircuitState::HalfOpen, Ending::Failed) if marked => {
                    machine.record_failure(&self.config, now);
                }
                (CircuitState::HalfOpen, Ending::Succeeded) if marked => {
                    machine.record_success(&self.config, now);
                }
                (CircuitState::HalfOpen, Ending::GivenBack) if marked => machine.give_back(),
                _ => continue,
            }
            changed = true;
            self.note(kept, now);
        }
        changed
    }

    /// Keeps what people see of the record in step with the machine.
    fn note(&self, kept: &mut Kept<Breaker>, now: Timestamp) {
        let Kept { record, machine } = kept;
        let before = std::mem::replace(&mut record.state, machine.state());
        record.success_count = machine.success_count();
        match (before, record.state) {
            (CircuitState::Closed | CircuitState::HalfOpen, CircuitState::Open) => {
                record.opened_at = Some(cut(now));
                warn!(key = %self.key, failures = record.failure_count, "the breaker opens");
            }
            (CircuitState::HalfOpen | CircuitState::Open, CircuitState::Closed) => {
                record.failure_count = 0;
                info!(key = %self.key, "the breaker closes");
            }
            _ => {}
        }
    }
}

/// The right to make one call. Report on it; one that is dropped without a word counts as lost and, where it was a probe, is free again
/// after the reset timeout.
#[must_use = "the breaker learns nothing from a permit that is dropped"]
pub struct CircuitBreakerPermit<'a> {
    breaker: &'a DistributedCircuitBreaker,
    probe: Option<Probe>,
}

impl CircuitBreakerPermit<'_> {
    /// The call ended.
    ///
    /// # Errors
    /// The store's.
    pub async fn report(self, ending: Ending) -> StoreResult<()> {
        let probe = self.probe;
        self.breaker.record(&[Report { probe, ending }]).await
    }
}

/// Why a call may not go through.
#[derive(Debug, thiserror::Error)]
pub enum CircuitBreakerError {
    /// The breaker is open, or half open with all its probes out.
    #[error("the circuit breaker is open; ask again in {} ms", retry_after.as_millis())]
    Open {
        /// When asking again may be of use.
        retry_after: Duration,
    },
    /// The store could not say.
    #[error(transparent)]
    Store(#[from] StoreError),
}
