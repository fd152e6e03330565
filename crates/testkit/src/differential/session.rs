//! What one replay has learnt from the first store's answers, and intents made concrete with it.

use std::collections::{BTreeMap, HashMap};

use durable_core::{Timestamp, WorkflowEvent};
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{
    BlockRun, BreakerRecord, ClaimedTurn, Fact, FinishedTask, LeaseExtension, NewSignal, Next,
    OutboxReport, ScheduleFire, ScheduleRecord, SendSignal, TaskLease, TaskPlace, TaskRelease,
    TaskResult, TurnCommit, TurnOutcome, after,
};
use uuid::Uuid;

use super::intent::{
    Altered, Ending, FactsTaken, Flaw, Intent, LeaseRef, OutboxRef, Step, TickIntent, TurnIntent,
};
use super::request::{Answer, Request};
use super::universe;

/// What one replay has learnt.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Leases granted, by step and place in the answer, with the activity's type where it is known.
    pub(crate) leases: BTreeMap<(usize, usize), (TaskLease, String)>,
    /// Sets of turns sent, by step.
    pub(crate) turns: BTreeMap<usize, Vec<TurnCommit>>,
    /// Outbox events claimed: run, id, token.
    pub(crate) outbox: BTreeMap<(usize, usize), (Uuid, Uuid, Uuid)>,
    /// The next instant at which something is due, as last told.
    pub(crate) next_due: Option<Timestamp>,
}

impl Session {
    /// Learns from an answer of the first store.
    pub(crate) fn learn(&mut self, step: usize, request: &Request, answer: &Answer) {
        match (request, answer) {
            (Request::CommitTurns { turns }, Answer::CommitTurns(outcomes)) => {
                self.learn_placed(step, turns, outcomes);
                self.turns.insert(step, turns.clone());
            }
            (_, Answer::ClaimTasks(tasks)) => {
                for (index, task) in tasks.iter().enumerate() {
                    let lease = (task.lease.clone(), task.activity_type.clone());
                    self.leases.insert((step, index), lease);
                }
            }
            (Request::ClaimOutbox { claim }, Answer::ClaimOutbox(events)) => {
                for (index, event) in events.iter().enumerate() {
                    let claimed = (event.run_id, event.id, claim.token);
                    self.outbox.insert((step, index), claimed);
                }
            }
            (_, Answer::FireDue(fired)) => self.next_due = fired.next_due,
            _ => {}
        }
    }

    fn learn_placed(&mut self, step: usize, turns: &[TurnCommit], outcomes: &[TurnOutcome]) {
        let types: HashMap<Uuid, &str> = turns
            .iter()
            .flat_map(|turn| &turn.tasks)
            .map(|task| (task.task_id, task.activity_type.as_str()))
            .collect();
        let placed = outcomes.iter().filter_map(|outcome| match outcome {
            TurnOutcome::Committed(committed) => Some(&committed.tasks),
            TurnOutcome::Rejected(_) => None,
        });
        for (index, task) in placed.flatten().enumerate() {
            if let TaskPlace::Leased { lease, .. } = &task.place {
                let activity_type = types.get(&task.task_id).copied().unwrap_or_default();
                let lease = (lease.clone(), activity_type.to_owned());
                self.leases.insert((step, index), lease);
            }
        }
    }

    fn lease(&self, lease: LeaseRef) -> TaskLease {
        let mut found = self
            .leases
            .get(&(lease.step, lease.index))
            .map_or_else(|| made_up_lease(lease), |(lease, _)| lease.clone());
        match lease.altered {
            Altered::No => {}
            Altered::Attempt => found.attempt += 1,
            Altered::Token => found.token = universe::id(u64::MAX, 2),
        }
        found
    }

    fn outbox(&self, event: OutboxRef) -> (Uuid, Uuid, Uuid) {
        let made_up = universe::id(event.step as u64, 3);
        self.outbox
            .get(&(event.step, event.index))
            .copied()
            .unwrap_or((made_up, made_up, made_up))
    }

    /// The call that an intent stands for, with the runs as the first store has them.
    pub(crate) async fn resolve(&self, step: &Step, first: &dyn WorkflowEventStore) -> Request {
        match step.intent.clone() {
            Intent::Plain(request) => request,
            Intent::Turns(turns) => {
                let runs: Vec<Uuid> = turns.iter().map(|turn| turn.content.run_id).collect();
                let stand = first.load_turns(&runs).await.unwrap_or_default();
                let mut stand = stand.into_iter();
                let turns = turns
                    .into_iter()
                    .map(|turn| self.turn(turn, stand.next().flatten()))
                    .collect();
                Request::CommitTurns { turns }
            }
            Intent::SameTurns { step } => Request::CommitTurns {
                turns: self.turns.get(&step).cloned().unwrap_or_default(),
            },
            Intent::Finish(items) => Request::FinishTasks {
                results: items
                    .into_iter()
                    .map(|item| TaskResult {
                        lease: self.lease(item.lease),
                        outcome: item.outcome,
                        jitter: item.jitter,
                        step_logs: item.step_logs,
                    })
                    .collect(),
            },
            Intent::Extend(items) => Request::ExtendLeases {
                extensions: items
                    .into_iter()
                    .map(|item| LeaseExtension {
                        lease: self.lease(item.lease),
                        extend: item.extend,
                        heartbeat: item.heartbeat,
                    })
                    .collect(),
            },
            Intent::Release(items) => Request::ReleaseTasks {
                releases: items
                    .into_iter()
                    .map(|(lease, park)| TaskRelease {
                        lease: self.lease(lease),
                        park,
                    })
                    .collect(),
            },
            Intent::Block { run, ahead, build } => block(first, run, ahead, build).await,
            Intent::Decide { task, decision } => {
                let lease = self.lease(task);
                Request::DecideDeadLetter {
                    run: lease.run_id,
                    id: lease.task_id,
                    decision,
                }
            }
            Intent::Tick(ticks) => ticks_of(first, ticks, step.now).await,
            Intent::Swap { schedule, stale } => swap(first, schedule, stale).await,
            Intent::SaveBreaker { breaker, ahead } => save(first, breaker, ahead).await,
            Intent::Report(reports) => Request::FinishOutbox {
                reports: reports
                    .into_iter()
                    .map(|report| {
                        let (run_id, id, token) = self.outbox(report.event);
                        OutboxReport {
                            run_id,
                            id,
                            token,
                            result: report.result,
                        }
                    })
                    .collect(),
            },
            Intent::Flood { run, first, count } => flood(run, first, count),
        }
    }

    fn turn(&self, intent: TurnIntent, stand: Option<ClaimedTurn>) -> TurnCommit {
        let mut turn = intent.content;
        turn.finished_tasks = intent
            .finished
            .into_iter()
            .map(|(lease, end)| FinishedTask {
                lease: self.lease(lease),
                end,
            })
            .collect();
        let Some(ClaimedTurn { run, facts, .. }) = stand else {
            end(&mut turn, intent.ending, (0, 0), (0, 0));
            return turn;
        };
        turn.expected_sequence = run.sequence;
        turn.expected_epoch = run.epoch;
        turn.facts_through = match intent.facts {
            FactsTaken::All => run.arrivals,
            FactsTaken::None => run.consumed,
            FactsTaken::AllBut(count) => (run.arrivals - count).max(run.consumed),
        };
        let taken = facts.iter().filter(|f| f.arrival <= turn.facts_through);
        let events: Vec<WorkflowEvent> = taken.flat_map(events_of).collect();
        turn.events.splice(0..0, events);
        let history = (run.history_start, run.sequence);
        end(
            &mut turn,
            intent.ending,
            history,
            (run.epoch, run.iteration),
        );
        match intent.flaw {
            Flaw::None => {}
            Flaw::Sequence(ahead) => turn.expected_sequence += ahead,
            Flaw::Epoch => turn.expected_epoch += 1,
            // So far that it stays wrong when the turn is sent again later.
            Flaw::FactsBeyond => turn.facts_through = run.arrivals + 1_000_000,
            Flaw::FactsBehind => turn.facts_through = run.consumed - 1,
            Flaw::NoEvent => {
                turn.events.clear();
                turn.facts_through = run.consumed;
            }
        }
        turn
    }
}

/// The events by which a turn takes a fact: the attempts of an activity, then the fact itself.
pub(crate) fn events_of(fact: &Fact) -> Vec<WorkflowEvent> {
    let activity_id = match &fact.event {
        WorkflowEvent::ActivityCompleted { activity_id, .. }
        | WorkflowEvent::ActivityFailed { activity_id, .. }
        | WorkflowEvent::ActivityTimedOut { activity_id, .. }
        | WorkflowEvent::ActivityCancelled { activity_id, .. } => activity_id.clone(),
        other => return vec![other.clone()],
    };
    let mut events = Vec::new();
    for attempt in &fact.attempts {
        events.push(WorkflowEvent::ActivityStarted {
            activity_id: activity_id.clone(),
            attempt: attempt.attempt,
            worker_id: attempt.worker_id.clone(),
            started_at: attempt.started_at,
        });
        events.push(WorkflowEvent::ActivityFailed {
            activity_id: activity_id.clone(),
            error: attempt.failure.clone(),
            will_retry: true,
        });
    }
    if let Some(last) = &fact.last_attempt {
        events.push(WorkflowEvent::ActivityStarted {
            activity_id,
            attempt: last.attempt,
            worker_id: last.worker_id.clone(),
            started_at: Some(last.started_at),
        });
    }
    events.push(fact.event.clone());
    events
}

/// Makes the turn end as wanted, on a history from `.0` (not included) to `.1`.
fn end(
    turn: &mut TurnCommit,
    ending: Ending,
    (history_start, sequence): (i64, i64),
    (epoch, iteration): (u32, u32),
) {
    let (event, next) = match ending {
        Ending::Wait => return,
        Ending::Complete(result) => (
            WorkflowEvent::WorkflowCompleted {
                result: result.clone(),
            },
            Next::Complete { result },
        ),
        Ending::Fail(error) => (
            WorkflowEvent::WorkflowFailed {
                error: error.clone().into(),
            },
            Next::Fail { error },
        ),
        Ending::Cancel(reason) => (
            WorkflowEvent::WorkflowCancelled {
                reason: reason.clone(),
            },
            Next::Cancel { reason },
        ),
        Ending::ContinueAsNew { input, carried } => (
            WorkflowEvent::WorkflowContinuedAsNew {
                iteration: iteration + 1,
                input: input.clone(),
            },
            Next::ContinueAsNew {
                input,
                carried: carried.into_iter().map(signal).collect(),
            },
        ),
        Ending::Reset { place } => {
            let to_sequence = history_start + place % (sequence - history_start + 2);
            turn.events.insert(
                0,
                WorkflowEvent::WorkflowReset {
                    to_sequence,
                    epoch: epoch + 1,
                    reason: "back".into(),
                },
            );
            turn.next = Next::Reset { to_sequence };
            return;
        }
    };
    turn.events.push(event);
    turn.next = next;
}

/// The signal of a number.
pub(crate) fn signal(number: u64) -> NewSignal {
    NewSignal {
        signal_id: universe::id(number, 4),
        signal_type: if number.is_multiple_of(3) {
            "cancel"
        } else {
            "Poke"
        }
        .into(),
        payload: universe::payload(number),
    }
}

fn made_up_lease(lease: LeaseRef) -> TaskLease {
    let number = (lease.step as u64) << 8 | lease.index as u64;
    TaskLease {
        run_id: universe::id(number, 5),
        task_id: universe::id(number, 6),
        attempt: 1,
        token: universe::id(number, 7),
    }
}

fn flood(run_id: Uuid, first: u64, count: u64) -> Request {
    let signals = (first..first + count)
        .map(|number| SendSignal {
            run_id,
            signal: signal(number),
        })
        .collect();
    Request::SendSignals { signals }
}

async fn block(first: &dyn WorkflowEventStore, run_id: Uuid, ahead: i64, build: String) -> Request {
    let run = first.get_run(run_id).await.ok().flatten();
    Request::BlockRuns {
        blocks: vec![BlockRun {
            run_id,
            expected_sequence: run.map_or(0, |run| run.sequence) + ahead,
            build,
            reason: "the code asks for something else".into(),
        }],
    }
}

async fn ticks_of(
    first: &dyn WorkflowEventStore,
    ticks: Vec<TickIntent>,
    now: Timestamp,
) -> Request {
    let mut fires = Vec::new();
    for tick in ticks {
        let schedule = first.get_schedule(&tick.schedule).await.ok().flatten();
        let due = schedule.and_then(|s| s.next_fire_at);
        let due = due.unwrap_or_else(|| universe::whole_seconds(now));
        let nominal = due
            .checked_add(jiff::SignedDuration::from_millis(tick.beside_ms))
            .unwrap_or(due);
        fires.push(ScheduleFire {
            schedule_id: tick.schedule,
            nominal,
            next_fire_at: tick.next_after.map(|d| after(nominal, d)),
            start: tick.start,
        });
    }
    Request::FireSchedules { fires }
}

async fn swap(first: &dyn WorkflowEventStore, schedule: ScheduleRecord, stale: bool) -> Request {
    let mut seen = first.get_schedule(&schedule.id).await.ok().flatten();
    if stale {
        seen = match seen {
            Some(mut seen) => {
                seen.paused = !seen.paused;
                Some(seen)
            }
            None => Some(schedule.clone()),
        };
    }
    Request::SwapSchedule {
        seen: seen.map(Box::new),
        schedule: Box::new(schedule),
    }
}

async fn save(first: &dyn WorkflowEventStore, mut breaker: BreakerRecord, ahead: i64) -> Request {
    let stored = first.get_breaker(&breaker.key).await.ok().flatten();
    breaker.version = stored.map_or(0, |stored| stored.version) + ahead;
    Request::SaveBreaker { breaker }
}
