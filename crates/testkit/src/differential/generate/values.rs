//! Random values of the contract's nouns.

use std::time::Duration;

use durable_core::{
    ActivityOptions, AttributeValue, CircuitBreakerConfig, ExhaustedPolicy, Failure, Payload,
    RetryPolicy,
};
use everruns_durable::persistence::model::{
    LogLevel, NewSignal, NewStepLog, NewUpdate, OwnerRequest, Page,
};
use uuid::Uuid;

use super::super::intent::Altered;
use super::super::session::signal;
use super::super::universe::{
    ACTIVITIES, ACTIVITY_IDS, CRASHING, REFUSED_IDS, UPDATES, WORKERS, failure, id_within, ms,
    payload,
};
use super::Generator;

impl Generator {
    pub(super) fn name(&mut self, of: &[&str]) -> String {
        self.random.pick(of).to_owned()
    }

    /// A name of these, or once in a great while one that is refused.
    pub(super) fn name_or_refused(&mut self, of: &[&str]) -> String {
        if self.random.one_in(60) {
            self.name(REFUSED_IDS)
        } else {
            self.name(of)
        }
    }

    pub(super) fn payload(&mut self) -> Payload {
        // The harmless ones are the first few.
        let range = if self.random.percent(80) { 3 } else { 64 };
        payload(self.random.below(range))
    }

    pub(super) fn failure(&mut self) -> Failure {
        failure(self.random.below(420))
    }

    pub(super) fn altered(&mut self) -> Altered {
        match self.random.below(30) {
            0 => Altered::Attempt,
            1 => Altered::Token,
            _ => Altered::No,
        }
    }

    pub(super) fn worker(&mut self) -> String {
        self.name(WORKERS)
    }

    /// The length of a lease; none at all once in a while, which is refused.
    pub(super) fn lease_length(&mut self) -> Duration {
        match self.random.below(60) {
            0..2 => Duration::ZERO,
            2..15 => ms(1),
            15..35 => ms(200),
            35..50 => ms(5_000),
            _ => ms(60_000),
        }
    }

    pub(super) fn owner(&mut self) -> Option<OwnerRequest> {
        self.random.percent(30).then(|| OwnerRequest {
            worker_id: self.worker(),
            lease: self.lease_length().max(ms(1)),
        })
    }

    /// One of few signals, so that some are sent twice.
    pub(super) fn signal(&mut self) -> NewSignal {
        let mut signal = signal(self.random.below(200));
        if self.random.one_in(60) {
            signal.signal_type = self.name(REFUSED_IDS);
        }
        signal
    }

    pub(super) fn update(&mut self) -> NewUpdate {
        NewUpdate {
            update_id: self.name_or_refused(UPDATES),
            name: "rename".into(),
            input: self.payload(),
        }
    }

    pub(super) fn attribute(&mut self) -> AttributeValue {
        match self.random.below(7) {
            0 => AttributeValue::Text("Łódź'%_".into()),
            1 => AttributeValue::Text("1".into()),
            2 => AttributeValue::Int(1),
            3 => AttributeValue::Int(i64::MIN),
            4 => AttributeValue::Double(0.1),
            5 => AttributeValue::Bool(true),
            _ => AttributeValue::Time(super::super::universe::whole_seconds(self.now)),
        }
    }

    pub(super) fn activity_type(&mut self) -> String {
        if self.random.one_in(6) {
            CRASHING.into()
        } else {
            self.name(ACTIVITIES)
        }
    }

    pub(super) fn options(&mut self, activity_type: &str) -> ActivityOptions {
        let mut options = ActivityOptions {
            retry_policy: RetryPolicy {
                max_attempts: self.random.pick(&[0, 1, 2, 2, 3]),
                initial_interval: ms(self.random.pick(&[0, 3, 100, 1_000])),
                max_interval: ms(2_000),
                backoff_coefficient: self.random.pick(&[2.0, 1.0, 0.3]),
                jitter: self.random.pick(&[0.0, 0.2, 1.0]),
                non_retryable_errors: vec!["CardDeclined".into()],
            },
            schedule_to_start_timeout: ms(self.random.pick(&[50, 2_000, 300_000, 300_000])),
            start_to_close_timeout: ms(self.random.pick(&[50, 3_000, 600_000, 600_000])),
            heartbeat_timeout: self
                .random
                .pick(&[None, None, Some(ms(40)), Some(ms(5_000))]),
            schedule_to_close_timeout: self.random.pick(&[
                None,
                None,
                Some(ms(100)),
                Some(ms(20_000)),
            ]),
            circuit_breaker: None,
            rate_limit: None,
            priority: self.random.pick(&[0, 0, 5, -1]),
            on_exhausted: self
                .random
                .pick(&[ExhaustedPolicy::Fail, ExhaustedPolicy::Park]),
            sequential: self.random.percent(60),
        };
        if self.random.one_in(8) {
            options.circuit_breaker = Some(CircuitBreakerConfig::default());
        }
        if activity_type == CRASHING {
            // Its clocks must not end it before its deliveries do.
            options.schedule_to_start_timeout = Duration::from_hours(24 * 365);
            options.start_to_close_timeout = Duration::from_hours(24 * 365);
            options.heartbeat_timeout = None;
            options.schedule_to_close_timeout = None;
        }
        options
    }

    pub(super) fn step_log(&mut self, run: Uuid) -> NewStepLog {
        NewStepLog {
            id: id_within(run, self.random.below(40), 10),
            activity_id: self.name(ACTIVITY_IDS),
            attempt: 1,
            level: self.random.pick(&LogLevel::ALL),
            message: "wrote a line".into(),
            meta: self.payload(),
        }
    }

    pub(super) fn page(&mut self) -> Page {
        Page {
            limit: self.random.pick(&[0, 1, 3, 50, 5_000]),
            offset: self.random.pick(&[0, 0, 0, 1, 40]),
        }
    }

    pub(super) fn max(&mut self) -> usize {
        self.random.pick(&[0, 1, 2, 5, 100])
    }

    pub(super) fn shard(&mut self) -> u16 {
        u16::try_from(self.random.below(5)).expect("small")
    }
}
