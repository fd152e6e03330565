//! Starts and what is sent to runs.

use std::time::Duration;

use everruns_durable::persistence::model::{
    Attributes, ReusePolicy, SendSignal, SendUpdate, StartRun, TerminateRun,
};
use uuid::Uuid;

use super::super::intent::Intent;
use super::super::request::Request;
use super::super::universe::{
    ATTRIBUTES, BUSINESS_IDS, KEYS, VERSIONS, WORKFLOWS, ms, payload, payload_too_large, trace,
};
use super::Generator;

impl Generator {
    pub(super) fn start_runs(&mut self) -> Intent {
        let mut starts = self.several(|g| {
            let run = g.run_to_start();
            g.start(run)
        });
        if let Some(start) = starts.first_mut()
            && self.random.one_in(400)
        {
            start.input = payload_too_large();
        }
        Intent::Plain(Request::StartRuns { starts })
    }

    /// A start of this run id.
    pub(super) fn start(&mut self, run_id: Uuid) -> StartRun {
        let mut start = StartRun::new(
            run_id,
            self.name_or_refused(WORKFLOWS),
            payload(self.random.below(2)),
        );
        start.version = self.name(VERSIONS);
        if self.random.percent(35) {
            start.business_id = Some(self.name(BUSINESS_IDS));
            start.reuse_policy = self.random.pick(&[
                ReusePolicy::AllowDuplicate,
                ReusePolicy::RejectDuplicate,
                ReusePolicy::AllowDuplicateFailedOnly,
                ReusePolicy::TerminateIfRunning,
            ]);
        }
        if self.random.percent(25) {
            start.idempotency_key = Some(self.name_or_refused(KEYS));
        }
        start.attributes = self.attributes();
        start.memo = self.payload();
        start.trace = trace(self.random.below(16));
        start.execution_timeout = self.run_time();
        start.run_timeout = self.run_time();
        if self.random.percent(15) {
            start.signals = self.several(Self::signal);
        }
        if self.random.percent(8) {
            start.updates = self.several(Self::update);
        }
        start.owner = self.owner();
        start
    }

    fn run_time(&mut self) -> Option<Duration> {
        match self.random.below(20) {
            0 => Some(ms(700)),
            1 => Some(ms(30_000)),
            2..4 => Some(ms(600_000)),
            _ => None,
        }
    }

    fn attributes(&mut self) -> Attributes {
        let count = self.random.below(3);
        (0..count)
            .map(|_| (self.name_or_refused(ATTRIBUTES), self.attribute()))
            .collect()
    }

    pub(super) fn send_signals(&mut self) -> Intent {
        let signals = self.several(|g| SendSignal {
            run_id: g.run(),
            signal: g.signal(),
        });
        Intent::Plain(Request::SendSignals { signals })
    }

    pub(super) fn send_updates(&mut self) -> Intent {
        let updates = self.several(|g| SendUpdate {
            run_id: g.run(),
            update: g.update(),
        });
        Intent::Plain(Request::SendUpdates { updates })
    }

    pub(super) fn terminate_runs(&mut self) -> Intent {
        let runs = self.several(|g| TerminateRun {
            run_id: if g.random.percent(60) {
                g.retired()
            } else {
                g.run()
            },
            reason: "enough".into(),
        });
        Intent::Plain(Request::TerminateRuns { runs })
    }
}
