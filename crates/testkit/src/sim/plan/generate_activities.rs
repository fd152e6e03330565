//! Random activities and waits of plans.

use std::time::Duration;

use durable_core::{
    ActivityOptions, CircuitBreakerConfig, RateLimitConfig, TimeoutType, error_types,
};
use serde_json::json;

use super::generate::{Draft, Generator, Stage};
use super::{Deed, Race};
use crate::sim::activities::LIMITED;
use crate::sim::oracle::Part;

fn with(mut deed: Deed, change: impl FnOnce(&mut ActivityOptions)) -> Deed {
    if let Deed::Activity { options, .. } = &mut deed {
        change(options);
    }
    deed
}

fn tolerated(mut deed: Deed) -> Deed {
    if let Deed::Activity { tolerates, .. } = &mut deed {
        *tolerates = true;
    }
    deed
}

impl Generator<'_> {
    pub(super) fn some_activity(&mut self, draft: &mut Draft, stage: Stage) {
        match self.random.below(28) {
            0..6 => {
                let value = json!(self.random.below(1000));
                draft.push(self.activity("echo", value.clone(), 3), value);
            }
            6..9 => {
                let succeeds_at = 1 + self.random.below(3);
                let deed = self.activity("flaky", json!(succeeds_at), 4);
                draft.push(deed, succeeds_at);
            }
            9..12 => {
                let millis = json!(300 + self.random.below(2000));
                draft.push(self.activity("slow", millis.clone(), 3), millis);
            }
            12..14 => {
                let pages = json!(2 + self.random.below(3));
                let deed = self.activity("pages", pages.clone(), 100);
                let beats = Some(Duration::from_millis(1500));
                let deed = with(deed, |options| options.heartbeat_timeout = beats);
                draft.push(deed, pages);
            }
            14..17 => self.fails(draft, stage),
            17..21 => self.times_out(draft),
            21..23 => draft.push(self.activity("once", json!(null), 100), "once"),
            23..26 => self.guarded(draft),
            _ => self.limited(draft),
        }
    }

    fn fails(&mut self, draft: &mut Draft, stage: Stage) {
        let (name, root) = self
            .random
            .pick(&[("fatal", "Fatal"), ("broken", "Broken")]);
        let deed = self.activity(name, json!(null), 2);
        if stage == Stage::Branch || self.random.one_in(2) {
            draft.push(tolerated(deed), json!({ "failed": root }));
        } else {
            draft.fail(deed, error_types::ACTIVITY_FAILED, root);
        }
    }

    fn times_out(&mut self, draft: &mut Draft) {
        let soon = Duration::from_millis(500 + self.random.below(700));
        let (deed, timeout) = match self.random.below(4) {
            0 => {
                let deed = self.activity("nobody's", json!(null), 3);
                let deed = with(deed, |options| options.schedule_to_start_timeout = soon);
                (deed, TimeoutType::ScheduleToStart)
            }
            1 => {
                let deed = self.activity("broken", json!(null), 1_000_000);
                let all = Some(soon);
                let deed = with(deed, |options| options.schedule_to_close_timeout = all);
                (deed, TimeoutType::ScheduleToClose)
            }
            2 => {
                let deed = self.activity("hangs", json!(null), 2);
                let beats = Some(soon);
                let deed = with(deed, |options| options.heartbeat_timeout = beats);
                (deed, TimeoutType::Heartbeat)
            }
            _ => {
                let deed = self.activity("hangs", json!(null), 2);
                let deed = with(deed, |options| options.start_to_close_timeout = soon);
                (deed, TimeoutType::StartToClose)
            }
        };
        Self::timed_out(draft, tolerated(deed), timeout);
    }

    /// Fails often enough to open the breaker that guards it; a parked attempt is not burned.
    fn guarded(&mut self, draft: &mut Draft) {
        let breaker = CircuitBreakerConfig {
            key: Some("fuse".to_owned()),
            failure_threshold: 2,
            success_threshold: 1,
            reset_timeout: Duration::from_millis(600),
            window_size: Duration::from_secs(5),
        };
        let deed = self.activity("flaky", json!(4), 4);
        let deed = with(deed, |options| options.circuit_breaker = Some(breaker));
        draft.push(deed, 4);
    }

    fn limited(&mut self, draft: &mut Draft) {
        let limit = RateLimitConfig::per_second(5)
            .with_burst(2)
            .with_key(LIMITED);
        let branches: Vec<Vec<Deed>> = (0..3)
            .map(|n| {
                let deed = self.activity(LIMITED, json!(n), 3);
                vec![with(deed, |options| {
                    options.rate_limit = Some(limit.clone());
                })]
            })
            .collect();
        let parts = (0..3).map(|n| vec![Part::Exactly(json!(n))]).collect();
        draft.add(Deed::Gather { branches }, Part::Branches(parts));
    }

    pub(super) fn awaits_signal(&mut self, draft: &mut Draft) {
        let millis = 1 + self.random.below(2500);
        match self.random.below(6) {
            0 => {
                let (name, payload) = self.signal();
                draft.push(Deed::Signal { name }, payload);
            }
            1 => {
                let (name, payload) = self.signal();
                draft.push(Deed::SignalTwice { name, millis }, payload);
            }
            2 => {
                let (name, first) = self.signal();
                let mut all = vec![first];
                for _ in 0..self.random.below(3) {
                    let next = json!(self.random.below(1000));
                    self.send(&name, &next);
                    all.push(next);
                }
                let count = all.len();
                self.has_order |= count > 1;
                draft.push(Deed::Handle { name, count }, json!(all));
            }
            3 => {
                let (name, payload) = self.signal();
                draft.push(Deed::Race(Race::SignalFirst { name }), payload);
            }
            4 => {
                let (signal, _) = self.signal();
                draft.push(Deed::Scope { signal }, "abandoned");
            }
            _ => {
                let (name, payload) = self.signal();
                let race = Race::SignalOrTimer { name, millis };
                draft.push(Deed::Race(race), payload);
            }
        }
    }
}
