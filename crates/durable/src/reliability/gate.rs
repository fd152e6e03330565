//! The gate that claimed tasks pass before they run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use durable_core::CircuitBreakerConfig;
use tracing::debug;

use super::breaker::DistributedCircuitBreaker;
use super::limiter::DistributedRateLimiter;
use super::reports::Reports;
use crate::persistence::model::ClaimedTask;
use crate::persistence::{StoreError, WorkflowEventStore};
use crate::runtime::Runtime;

/// Whether a task may run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Run,
    /// Not before this has passed.
    Park(Duration),
}

/// Asks breakers and limiters, and tells breakers how it went.
pub(crate) struct Gate {
    store: Arc<dyn WorkflowEventStore>,
    pub(super) runtime: Runtime,
    pub(super) reports: Reports,
}

/// For how long tasks are parked while the store cannot say.
const UNSURE_PAUSE: Duration = Duration::from_secs(1);
/// Farthest apart that tasks refused together by a limiter are spread.
const SPREAD_MAX: Duration = Duration::from_secs(30);

/// Tasks of a batch that ask the same breaker or limiter, by place in the batch.
type Groups<'a, C> = BTreeMap<String, (&'a C, Vec<usize>)>;

impl Gate {
    pub(crate) fn new(store: Arc<dyn WorkflowEventStore>, runtime: Runtime) -> Self {
        Self {
            store,
            runtime,
            reports: Reports::default(),
        }
    }

    /// One verdict a task, in order: its breaker's, then its limiter's.
    pub(crate) async fn admit(&self, tasks: &[ClaimedTask]) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::Run; tasks.len()];
        self.ask_breakers(tasks, &mut verdicts).await;
        self.ask_limiters(tasks, &mut verdicts).await;
        verdicts
    }

    async fn ask_breakers(&self, tasks: &[ClaimedTask], verdicts: &mut [Verdict]) {
        let mut groups: Groups<'_, CircuitBreakerConfig> = BTreeMap::new();
        for (place, task) in tasks.iter().enumerate() {
            if let Some(config) = &task.options.circuit_breaker {
                let key = config.key_for(&task.activity_type);
                groups.entry(key).or_insert((config, vec![])).1.push(place);
            }
        }
        // What failed here counts before what comes next is let through.
        if !groups.is_empty() && self.has_reports() {
            self.flush().await;
        }
        for (key, (config, places)) in groups {
            let answer = match self.breaker(&key, config).admit(places.len()).await {
                Ok(answer) => answer,
                Err(error) => {
                    self.park_unsure(&key, &error, &places, verdicts);
                    continue;
                }
            };
            let (run, wait) = places.split_at(answer.granted.min(places.len()));
            for place in run {
                if let Some(probe) = answer.probe {
                    self.reports.is_probe(&tasks[*place].lease, probe);
                }
            }
            for place in wait {
                verdicts[*place] = Verdict::Park(answer.retry_after.unwrap_or(UNSURE_PAUSE));
            }
        }
    }

    async fn ask_limiters(&self, tasks: &[ClaimedTask], verdicts: &mut [Verdict]) {
        let mut groups: Groups<'_, durable_core::RateLimitConfig> = BTreeMap::new();
        for (place, task) in tasks.iter().enumerate() {
            if let (Some(config), Verdict::Run) = (&task.options.rate_limit, verdicts[place]) {
                let key = config.key_for(&task.activity_type);
                groups.entry(key).or_insert((config, vec![])).1.push(place);
            }
        }
        for (key, (config, places)) in groups {
            let store = Arc::clone(&self.store);
            let limiter = DistributedRateLimiter::new(store, &key, config.clone());
            let wanted = u32::try_from(places.len()).unwrap_or(u32::MAX);
            let refused = match limiter.admit(wanted).await {
                Ok(answer) => {
                    let refused = &places[(answer.granted as usize).min(places.len())..];
                    let first = answer.retry_after.unwrap_or_default();
                    // One after the other at the limiter's rate: together they would be refused together again.
                    for (turn, place) in (0_u32..).zip(refused) {
                        let behind = limiter.interval().saturating_mul(turn).min(SPREAD_MAX);
                        verdicts[*place] = Verdict::Park(first.saturating_add(behind));
                    }
                    refused
                }
                Err(error) => {
                    self.park_unsure(limiter.key(), &error, &places, verdicts);
                    &places[..]
                }
            };
            for place in refused {
                self.give_back(&tasks[*place]);
            }
        }
    }

    /// Nothing goes through blindly; parked, nothing is lost either.
    fn park_unsure(
        &self,
        key: &str,
        error: &StoreError,
        places: &[usize],
        verdicts: &mut [Verdict],
    ) {
        debug!(%key, %error, "a breaker or limiter could not be asked, its tasks wait");
        let pause = self.runtime.jittered(UNSURE_PAUSE);
        for place in places {
            verdicts[*place] = Verdict::Park(pause);
        }
    }

    pub(super) fn breaker(
        &self,
        key: &str,
        config: &CircuitBreakerConfig,
    ) -> DistributedCircuitBreaker {
        let (store, runtime) = (Arc::clone(&self.store), self.runtime.clone());
        DistributedCircuitBreaker::new(store, runtime, key, config.clone())
    }
}

#[cfg(test)]
mod tests;
