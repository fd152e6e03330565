//! Reads.

use everruns_durable::persistence::model::{
    CountLimit, DeadLetterState, DlqFilter, LetterRank, RunFilter, ScheduleFilter, StepLogFilter,
    TaskFilter, TaskRank, TaskStatus, WorkerFilter, WorkerStatus, WorkflowStatus,
};
use jiff::Timestamp;
use uuid::Uuid;

use super::super::intent::Intent;
use super::super::request::Request;
use super::super::session::Session;
use super::super::universe::{ATTRIBUTES, BUSINESS_IDS, SCHEDULES, UPDATES, WORKFLOWS, id};
use super::Generator;

impl Generator {
    pub(super) fn read(&mut self) -> Intent {
        let run = if self.random.one_in(6) {
            id(0, 9)
        } else {
            self.run()
        };
        Intent::Plain(match self.random.below(17) {
            0 => Request::LoadTurns {
                runs: vec![run, self.run()],
            },
            1 => Request::LoadHistory {
                run,
                after: self.random.pick(&[0, 0, 3, -1, 1_000_000]),
            },
            2 => Request::GetUpdate {
                run,
                update: self.name(UPDATES),
            },
            3 => Request::ListWorkers {
                filter: self.worker_filter(),
            },
            4 if self.random.percent(50) => Request::SummarizeRuns {
                runs: vec![run, self.run(), run],
            },
            4 => Request::GetRun { run },
            5..8 => Request::ListRuns {
                filter: self.run_filter(),
                page: self.page(),
            },
            8 => Request::CountRuns {
                filter: self.run_filter(),
                limit: if self.random.percent(50) {
                    CountLimit::Capped
                } else {
                    CountLimit::Exact
                },
            },
            9 => Request::GetAttributes { run },
            10 => Request::ListTasks {
                filter: self.task_filter(),
                page: self.page(),
            },
            11 => Request::ListStepLogs {
                filter: StepLogFilter {
                    run_id: run,
                    // Any id will do: some lines are before it, some behind.
                    after: self.random.percent(25).then(|| self.run()),
                },
                page: self.page(),
            },
            12 => Request::ListEvents {
                run,
                after: self.random.pick(&[0, 0, 3, -1, 1_000_000]),
                limit: self.random.pick(&[0, 1, 5, 1_000_000]),
            },
            13 => Request::Counts {},
            15 => Request::RunMarks {
                runs: vec![run, self.run(), run],
            },
            14 => Request::CountWaiting {
                at_most: self.random.pick(&[0, 1, 3, 1_000_000, u64::MAX]),
            },
            _ => Request::Rollups {
                from: self
                    .random
                    .pick(&[Timestamp::UNIX_EPOCH, self.now, Timestamp::MAX]),
            },
        })
    }

    fn run_filter(&mut self) -> RunFilter {
        let mut filter = RunFilter::default();
        match self.random.below(9) {
            0 => filter.statuses = vec![self.random.pick(&WorkflowStatus::ALL)],
            1 => filter.statuses = vec![WorkflowStatus::Running, WorkflowStatus::Failed],
            2 => filter.workflow_type = Some(self.name(WORKFLOWS)),
            3 => filter.business_id = Some(self.name(BUSINESS_IDS)),
            4 => {
                let value = self.attribute();
                filter.attributes.insert(self.name(ATTRIBUTES), value);
            }
            5 => filter.parent = Some(self.run_with(|run| run.has_children)),
            6 => {
                filter.created_from = Some(self.ago(60_000));
                filter.created_until = Some(self.ago(1_000));
            }
            7 => filter.blocked = true,
            _ => {}
        }
        if self.random.one_in(4) {
            filter.before = Some(self.run());
        }
        filter
    }

    fn task_filter(&mut self) -> TaskFilter {
        TaskFilter {
            run_id: self.random.percent(25).then(|| self.run()),
            activity_type: self.random.percent(25).then(|| self.activity_type()),
            status: self
                .random
                .percent(25)
                .then(|| self.random.pick(&TaskStatus::ALL)),
            after: self.random.percent(25).then(|| TaskRank {
                priority: self.random.pick(&[-1, 0, 0, 5]),
                visible_at: self.ago(5_000),
                id: self.run(),
                run_id: self.run(),
            }),
        }
    }

    pub(super) fn schedule_filter(&mut self) -> ScheduleFilter {
        ScheduleFilter {
            after: self.random.percent(25).then(|| self.name(SCHEDULES)),
        }
    }

    /// A task that was leased lately: some are dead by now.
    pub(super) fn letter(&mut self, session: &Session) -> Uuid {
        let leases = session.leases.values().rev().take(25);
        let letters: Vec<Uuid> = leases.map(|(lease, _)| lease.task_id).collect();
        if letters.is_empty() {
            return id(0, 9);
        }
        self.random.pick(&letters)
    }

    pub(super) fn dlq_filter(&mut self, session: &Session) -> DlqFilter {
        let letter = self.letter(session);
        DlqFilter {
            id: self.random.percent(20).then_some(letter),
            run_id: self.random.percent(25).then(|| self.run()),
            activity_type: self.random.percent(25).then(|| self.activity_type()),
            state: self
                .random
                .percent(25)
                .then(|| self.random.pick(&DeadLetterState::ALL)),
            dead_before: self.random.percent(25).then(|| self.ago(5_000)),
            after: self.random.percent(25).then(|| LetterRank {
                dead_at: self.ago(5_000),
                id: self.run(),
                run_id: self.run(),
            }),
        }
    }

    fn worker_filter(&mut self) -> WorkerFilter {
        WorkerFilter {
            worker_group: self.random.percent(30).then(|| "gpu".into()),
            status: self
                .random
                .percent(30)
                .then(|| self.random.pick(&WorkerStatus::ALL)),
            heartbeat_since: self.random.percent(30).then(|| self.ago(5_000)),
        }
    }
}
