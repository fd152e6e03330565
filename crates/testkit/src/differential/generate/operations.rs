//! Schedules, workers, dead letters, outbox, breakers, retention.

use durable_core::{CircuitState, Payload};
use everruns_durable::persistence::model::{
    BreakerRecord, ClaimOutbox, DeadLetterDecision, OutboxResult, OverlapPolicy, PurgeOld,
    PurgeRuns, ScheduleRecord, WorkerBeat, WorkerInfo, WorkerStatus, after,
};
use jiff::{SignedDuration, Timestamp};

use super::super::intent::{Intent, LeaseRef, OutboxRef, ReportIntent, TickIntent};
use super::super::request::Request;
use super::super::session::Session;
use super::super::universe::{
    ACTIVITIES, BREAKERS, ONCE, REFUSED_IDS, SCHEDULES, WORKERS, WORKFLOWS, ms, payload_too_large,
    whole_seconds,
};
use super::Generator;

impl Generator {
    /// An instant so long ago.
    pub(super) fn ago(&self, millis: i64) -> Timestamp {
        self.now
            .checked_sub(SignedDuration::from_millis(millis))
            .map_or(self.now, whole_millis)
    }

    pub(super) fn schedules(&mut self) -> Intent {
        let id = self.name(SCHEDULES);
        match self.random.below(20) {
            0..3 => Intent::Plain(Request::PutSchedule {
                schedule: self.schedule(id),
            }),
            3..5 => Intent::Swap {
                schedule: self.schedule(id),
                stale: self.random.one_in(3),
            },
            5..7 => Intent::Plain(Request::DeleteSchedule { id }),
            7 => Intent::Plain(Request::GetSchedule { id }),
            8..10 => Intent::Plain(Request::ListSchedules {
                filter: self.schedule_filter(),
                page: self.page(),
            }),
            10..12 => Intent::Plain(Request::DueSchedules { max: self.max() }),
            _ => Intent::Tick(self.several(Self::tick)),
        }
    }

    fn schedule(&mut self, id: String) -> ScheduleRecord {
        let instant = whole_seconds(self.now);
        ScheduleRecord {
            id,
            workflow_type: self.name(WORKFLOWS),
            version: String::new(),
            input: self.payload(),
            cron: "* * * * *".into(),
            time_zone: "Europe/Berlin".into(),
            overlap: self.random.pick(&OverlapPolicy::ALL),
            catchup_window_ms: 60_000,
            paused: self.random.one_in(5),
            next_fire_at: (!self.random.one_in(6))
                .then(|| after(instant, ms(self.random.pick(&[0, 1_000, 60_000])))),
            last_fire_at: None,
            last_run: None,
            created_at: instant,
            updated_at: instant,
        }
    }

    fn tick(&mut self) -> TickIntent {
        let start = self.random.percent(75).then(|| {
            let run = self.run_to_start();
            self.start(run)
        });
        TickIntent {
            schedule: self.name(SCHEDULES),
            beside_ms: self.random.pick(&[0, 0, 0, 0, 1_000, -60_000]),
            next_after: self
                .random
                .pick(&[Some(ms(60_000)), Some(ms(60_000)), None]),
            start,
        }
    }

    fn beat(&mut self) -> WorkerBeat {
        WorkerBeat {
            worker_id: self.name(WORKERS),
            current_load: 3,
            accepting_tasks: self.random.percent(50),
            backpressure_reason: self.random.percent(50).then(|| "full".into()),
            tasks_completed: self.random.below(1 << 40),
            tasks_failed: 1,
            avg_task_duration_ms: 0.1 + self.random.unit(),
        }
    }

    pub(super) fn workers(&mut self) -> Intent {
        let worker = self.name(WORKERS);
        Intent::Plain(match self.random.below(12) {
            10..12 | 0..2 => Request::RegisterWorker {
                worker: self.worker_info(worker),
            },
            2..6 => Request::WorkerHeartbeats {
                beats: (0..=self.random.below(3)).map(|_| self.beat()).collect(),
            },
            6..8 => Request::SetWorkerStatus {
                worker,
                status: self.random.pick(&[
                    WorkerStatus::Active,
                    WorkerStatus::Draining,
                    WorkerStatus::Draining,
                    WorkerStatus::Stopped,
                ]),
            },
            8 => Request::DeregisterWorker { worker },
            _ => Request::StopSilentWorkers {
                silent_since: self.ago(60_000),
            },
        })
    }

    fn worker_info(&mut self, id: String) -> WorkerInfo {
        WorkerInfo {
            id,
            worker_group: self.random.pick(&["default", "gpu"]).into(),
            activity_types: ACTIVITIES.iter().map(|name| (*name).to_owned()).collect(),
            max_concurrency: 8,
            current_load: 0,
            status: WorkerStatus::Active,
            accepting_tasks: true,
            backpressure_reason: None,
            started_at: Timestamp::UNIX_EPOCH,
            last_heartbeat_at: Timestamp::UNIX_EPOCH,
            hostname: self.random.percent(50).then(|| "höst".into()),
            version: Some("1.0".into()),
            metadata: self.payload(),
            tasks_completed: 0,
            tasks_failed: 0,
            avg_task_duration_ms: 0.0,
        }
    }

    pub(super) fn dead_letters(&mut self, session: &Session) -> Intent {
        let max = self.max();
        match self.random.below(12) {
            0 => Intent::Plain(Request::PurgeDlq {
                filter: self.dlq_filter(session),
                max,
            }),
            1 => Intent::Plain(Request::GetDeadLetter {
                id: self.letter(session),
            }),
            2 => Intent::Plain(Request::ListDlq {
                filter: self.dlq_filter(session),
                page: self.page(),
            }),
            _ => Intent::Decide {
                task: self.task_of_any_lease(session),
                decision: match self.random.below(3) {
                    0 => DeadLetterDecision::Requeue,
                    1 => DeadLetterDecision::Complete {
                        result: self.payload(),
                    },
                    _ => DeadLetterDecision::Discard,
                },
            },
        }
    }

    /// Any lease of the last few hundred steps: its task may be dead by now.
    fn task_of_any_lease(&mut self, session: &Session) -> LeaseRef {
        let recent: Vec<(usize, usize)> = session.leases.keys().rev().take(25).copied().collect();
        let made_up = (self.step, 0);
        let (step, index) = if recent.is_empty() || self.random.one_in(12) {
            made_up
        } else {
            self.random.pick(&recent)
        };
        LeaseRef {
            step,
            index,
            altered: super::super::intent::Altered::No,
        }
    }

    pub(super) fn outbox(&mut self, session: &Session) -> Intent {
        if self.random.percent(50) {
            return Intent::Plain(Request::ClaimOutbox {
                claim: ClaimOutbox {
                    max: self.max(),
                    lease: self.lease_length(),
                    token: self.new_id(15),
                    first_shard: self.shard(),
                    now: None,
                },
            });
        }
        let recent: Vec<(usize, usize)> = session.outbox.keys().rev().take(6).copied().collect();
        Intent::Report(self.several(|g| {
            let (step, index) = if recent.is_empty() {
                (g.step, 0)
            } else {
                g.random.pick(&recent)
            };
            ReportIntent {
                event: OutboxRef { step, index },
                result: match g.random.below(4) {
                    0 => OutboxResult::Retry {
                        after: ms(300),
                        error: "no answer".into(),
                    },
                    1 => OutboxResult::Failed {
                        error: "gone".into(),
                    },
                    _ => OutboxResult::Published,
                },
            }
        }))
    }

    pub(super) fn breakers_and_once(&mut self) -> Intent {
        let key = self.name(BREAKERS);
        let once = self.name_or_refused(ONCE);
        Intent::Plain(match self.random.below(18) {
            0..2 => Request::GetBreaker { key },
            2..5 => Request::ListBreakers {},
            5..9 => Request::ResetBreaker { key },
            9..11 => Request::GetOnce { key: once },
            11..14 => Request::PutOnce {
                key: once,
                result: self.payload(),
            },
            14 => Request::PutOnce {
                key: self.name(REFUSED_IDS),
                result: Payload::null(),
            },
            15 if self.random.one_in(8) => Request::PutOnce {
                key: once,
                result: payload_too_large(),
            },
            _ => {
                return Intent::SaveBreaker {
                    breaker: self.breaker(key),
                    ahead: self.random.pick(&[0, 0, 0, 1]),
                };
            }
        })
    }

    fn breaker(&mut self, key: String) -> BreakerRecord {
        BreakerRecord {
            key,
            state: self.random.pick(&[
                CircuitState::Closed,
                CircuitState::Open,
                CircuitState::HalfOpen,
            ]),
            failure_count: 2,
            success_count: 1,
            opened_at: self.random.percent(50).then(|| whole_seconds(self.now)),
            data: self.payload(),
            version: 0,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Details by their age, all of them: with a limit the store chooses which go.
    pub(super) fn purge_old(&mut self) -> Intent {
        let mut before = |age| self.random.percent(50).then_some(age);
        let ages = [(); 7].map(|()| before(30_000));
        let [history, updates, logs, outbox, letters, results, workers] =
            ages.map(|age| age.map(|age| self.ago(age)));
        Intent::Plain(Request::PurgeOld {
            purge: PurgeOld {
                history_before: history,
                // The audit misses a young signal in the ledger; conformance covers its deletion.
                signals_before: None,
                updates_before: updates,
                logs_before: logs,
                outbox_before: outbox,
                letters_before: letters,
                results_before: results,
                workers_before: workers,
                // Shards count the same hour, each for itself.
                rollups_before: None,
                max: 100_000,
                now: None,
            },
        })
    }

    pub(super) fn delete_run(&mut self) -> Intent {
        let again = self.random.percent(30) && !self.retired.is_empty();
        let run = if again { self.retired() } else { self.run() };
        Intent::Plain(Request::DeleteRun { run })
    }

    pub(super) fn purge_runs(&mut self) -> Intent {
        Intent::Plain(Request::PurgeRuns {
            purge: PurgeRuns {
                finished_before: self.ago(self.random.clone().pick(&[-1_000, 0, 30_000])),
                max: self.random.pick(&[0, 1, 4, 100]),
                first_shard: self.shard(),
                now: None,
            },
        })
    }
}

fn whole_millis(instant: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(instant.as_millisecond()).expect("the same millisecond exists")
}
