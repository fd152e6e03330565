//! Claims, results, leases, and what becomes due.

use std::time::Duration;

use everruns_durable::persistence::limits::DELIVERIES_MAX;
use everruns_durable::persistence::model::{
    ClaimTasks, ClaimTurns, FireDue, HostedType, ReapLeases, RelayMessages, TaskOutcome,
};
use uuid::Uuid;

use super::super::intent::{ExtendIntent, FinishIntent, Intent};
use super::super::request::Request;
use super::super::session::Session;
use super::super::universe::{ACTIVITIES, BUILDS, CRASHING, VERSIONS, WORKFLOWS, ms};
use super::Generator;

impl Generator {
    pub(super) fn claim_tasks(&mut self) -> Intent {
        let mut activity_types: Vec<String> =
            ACTIVITIES.iter().map(|name| (*name).to_owned()).collect();
        match self.random.below(6) {
            0 => activity_types.truncate(1),
            1 => activity_types.push(CRASHING.into()),
            2 => activity_types = vec!["nobody's".into()],
            _ => {}
        }
        Intent::Plain(Request::ClaimTasks {
            claim: ClaimTasks {
                worker_id: self.worker(),
                activity_types,
                max: self.max(),
                lease: self.lease_length(),
                token: self.new_id(14),
                first_shard: self.shard(),
                now: None,
            },
        })
    }

    pub(super) fn claim_turns(&mut self) -> Intent {
        let hosted = WORKFLOWS
            .iter()
            .flat_map(|kind| VERSIONS[2..].iter().map(move |version| (kind, version)))
            .filter(|_| self.random.percent(75))
            .map(|(kind, version)| HostedType {
                workflow_type: (*kind).to_owned(),
                version: (*version).to_owned(),
            })
            .collect();
        Intent::Plain(Request::ClaimTurns {
            claim: ClaimTurns {
                worker_id: self.worker(),
                build: self.name(BUILDS),
                hosted,
                max: self.max(),
                lease: self.lease_length(),
                first_shard: self.shard(),
                now: None,
            },
        })
    }

    pub(super) fn finish_tasks(&mut self, session: &Session) -> Intent {
        Intent::Finish(self.several(|g| {
            let any = g.random.one_in(20);
            let lease = g.last_use(session, |_, kind| any || kind != CRASHING);
            let run = session.leases.get(&(lease.step, lease.index));
            let step_logs = match run {
                Some((lease, _)) if g.random.percent(15) => vec![g.step_log(lease.run_id)],
                _ => Vec::new(),
            };
            FinishIntent {
                lease,
                outcome: g.outcome(),
                jitter: g.random.unit(),
                step_logs,
            }
        }))
    }

    fn outcome(&mut self) -> TaskOutcome {
        match self.random.below(100) {
            0..35 => TaskOutcome::Completed {
                result: self.payload(),
            },
            35..90 => TaskOutcome::Failed {
                failure: self.failure(),
            },
            90..98 => TaskOutcome::Cancelled {
                reason: "asked to".into(),
            },
            _ => TaskOutcome::Cancelled {
                reason: "a \0 in a text".into(),
            },
        }
    }

    pub(super) fn extend_leases(&mut self, session: &Session) -> Intent {
        Intent::Extend(self.several(|g| ExtendIntent {
            lease: g.lease(session, |_, _| true),
            extend: g.lease_length(),
            heartbeat: g.random.percent(50).then(|| g.payload()),
        }))
    }

    pub(super) fn release_tasks(&mut self, session: &Session) -> Intent {
        Intent::Release(self.several(|g| {
            let lease = g.last_use(session, |_, kind| kind != CRASHING);
            (lease, g.parking())
        }))
    }

    /// For how long a task is parked, if it is.
    fn parking(&mut self) -> Option<Duration> {
        match self.random.below(40) {
            0..14 => None,
            14..18 => Some(Duration::ZERO),
            18..24 => Some(ms(1)),
            24..31 => Some(ms(200)),
            31..36 => Some(ms(5_000)),
            36..39 => Some(Duration::from_nanos(1_234_567)),
            _ => Some(Duration::MAX),
        }
    }

    /// Blocks, renewals and releases of runs.
    pub(super) fn ownership(&mut self) -> Intent {
        let (worker, runs) = self.owned();
        match self.random.below(4) {
            0 => Intent::Plain(Request::RenewRuns {
                worker,
                runs,
                lease: if self.random.one_in(8) {
                    ms(0)
                } else {
                    self.lease_length()
                },
            }),
            1 => Intent::Plain(Request::ReleaseRuns { worker, runs }),
            _ => Intent::Block {
                run: self.run(),
                ahead: self.random.pick(&[0, 0, 0, 1]),
                build: self.name(BUILDS),
            },
        }
    }

    /// A worker and runs: often its own, with nothing due.
    fn owned(&mut self) -> (String, Vec<Uuid>) {
        if self.random.percent(50) {
            return (self.worker(), self.several(Self::run));
        }
        let run = self.run_with(|run| run.owner.is_some() && run.ready_at.is_none());
        let owner = self.view.get(&run).and_then(|run| run.owner.as_ref());
        let owner = owner.map(|owner| owner.worker_id.clone());
        (owner.unwrap_or_else(|| self.worker()), vec![run])
    }

    pub(super) fn fire_due(&mut self) -> Intent {
        let max = self.random.pick(&[0, 1, 3, 100, 100]);
        self.due(max)
    }

    fn due(&mut self, max: usize) -> Intent {
        Intent::Plain(Request::FireDue {
            due: FireDue {
                max,
                first_shard: self.shard(),
                jitter: self.random.unit(),
                now: None,
            },
        })
    }

    pub(super) fn reap_leases(&mut self) -> Intent {
        Intent::Plain(Request::ReapLeases {
            reap: ReapLeases {
                max: self.max(),
                first_shard: self.shard(),
                now: None,
            },
        })
    }

    pub(super) fn relay_messages(&mut self) -> Intent {
        Intent::Plain(Request::RelayMessages {
            relay: RelayMessages {
                max: self.max(),
                first_shard: self.shard(),
                now: None,
            },
        })
    }

    /// Steps that take a task through all its deliveries without an answer.
    pub(super) fn write_script(&mut self) {
        if !self.script.is_empty() {
            return;
        }
        for _ in 0..=DELIVERIES_MAX {
            let claim = Intent::Plain(Request::ClaimTasks {
                claim: ClaimTasks {
                    worker_id: self.worker(),
                    activity_types: vec![CRASHING.into()],
                    max: 100,
                    lease: ms(1),
                    token: self.new_id(14),
                    first_shard: self.shard(),
                    now: None,
                },
            });
            let reap = Intent::Plain(Request::ReapLeases {
                reap: ReapLeases {
                    max: 100,
                    first_shard: self.shard(),
                    now: None,
                },
            });
            self.script.push_back((ms(0), claim));
            self.script.push_back((ms(2), reap));
        }
    }
}
