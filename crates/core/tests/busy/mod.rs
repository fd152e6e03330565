//! A program that asks for something of everything, by a rule of its own, and histories made with it.

use std::time::Duration;

use durable_core::{
    AttributeValue, Fact, Failure, HistoryState, NumberedEvent, Payload, Program, ProgramError,
    ProgramState, RunIdentity, TimeoutType, Timestamp, Turn, WorkflowAction as A, WorkflowError,
    WorkflowEvent, WorkflowSignal,
};
use uuid::Uuid;

/// What it asks for depends on all facts so far, and on nothing else.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    mood: u64,
    next_id: u32,
    activities: Vec<String>,
    timers: Vec<String>,
    children: Vec<String>,
}

pub(crate) fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(42))
}

impl Program for Busy {
    fn workflow_type(&self) -> &str {
        "busy"
    }

    fn apply(&mut self, fact: &Fact) -> Result<Vec<A>, ProgramError> {
        for byte in format!("{fact:?}").bytes() {
            self.mood = (self.mood ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut actions = Vec::new();
        if let Fact::UpdateAccepted { update_id, .. } = fact {
            actions.push(answer(update_id.clone(), self.roll(2)));
        }
        for _ in 0..self.roll(4) {
            actions.push(self.ask());
        }
        if self.roll(24) == 0 {
            actions.push(self.end());
        }
        Ok(actions)
    }
}

impl Busy {
    fn roll(&mut self, sides: u64) -> u64 {
        self.mood = self
            .mood
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.mood >> 33) % sides
    }

    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        format!("id-{}", self.next_id)
    }

    fn ask(&mut self) -> A {
        let id = self.fresh_id();
        match self.roll(10) {
            0 | 1 => {
                self.activities.push(id.clone());
                A::schedule_activity(id, "work", Payload::null())
            }
            2 => {
                self.timers.push(id.clone());
                let duration = Duration::from_micros(1500);
                A::StartTimer {
                    timer_id: id,
                    duration,
                }
            }
            3 => {
                self.children.push(id.clone());
                A::ScheduleChildWorkflow {
                    workflow_id: id,
                    workflow_type: "child".into(),
                    input: Payload::null(),
                }
            }
            4 => A::OpenHumanTask {
                task_id: id,
                request: Payload::null(),
            },
            5 => A::UpsertSearchAttributes {
                attributes: [(id, Some(AttributeValue::Double(0.1)))].into(),
            },
            // Often over already: then the request comes to nothing.
            6 => self.pick(
                |busy| &busy.activities,
                |activity_id| A::CancelActivity { activity_id },
            ),
            7 => self.pick(|busy| &busy.timers, |timer_id| A::CancelTimer { timer_id }),
            8 => self.pick(
                |busy| &busy.children,
                |workflow_id| A::CancelChildWorkflow { workflow_id },
            ),
            _ => A::None,
        }
    }

    fn pick(&mut self, list: fn(&Self) -> &Vec<String>, make: fn(String) -> A) -> A {
        let count = list(self).len() as u64;
        if count == 0 {
            return A::None;
        }
        let at = self.roll(count) as usize;
        make(list(self)[at].clone())
    }

    fn end(&mut self) -> A {
        match self.roll(4) {
            0 => A::CompleteWorkflow {
                result: Payload::null(),
            },
            1 => A::FailWorkflow {
                error: WorkflowError::new("Tired", "enough"),
            },
            2 => A::CancelWorkflow {
                reason: "tired".into(),
            },
            _ => A::ContinueAsNew {
                input: Payload::null(),
            },
        }
    }
}

fn answer(update_id: String, outcome: u64) -> A {
    if outcome == 0 {
        return A::CompleteUpdate {
            update_id,
            result: Payload::null(),
        };
    }
    A::FailUpdate {
        update_id,
        error: Failure::new("No", "no"),
    }
}

/// A history made by running [`Busy`]: one entry per turn. `choices` says what happens to it.
pub(crate) fn busy_turns(choices: &[u32]) -> Vec<Vec<NumberedEvent>> {
    let mut run = ProgramState::new(identity(), Box::new(Busy::default()));
    let mut turns = Vec::new();
    let start = Fact::Started {
        input: Payload::null(),
    };
    let facts = std::iter::once(None).chain(choices.iter().copied().map(Some));
    for (number, choice) in facts.enumerate() {
        let mut turn = Turn::default();
        let fact = match choice {
            None => start.clone(),
            Some(choice) => possible_fact(run.history(), choice, number),
        };
        if let Some(note) = note_before(&fact) {
            run.record(note, &mut turn).unwrap();
        }
        run.take(&fact, &mut turn).unwrap();
        turns.push(turn.events);
        if !run.history().is_running() {
            break;
        }
    }
    turns
}

/// An attempt is noted together with its outcome.
fn note_before(fact: &Fact) -> Option<WorkflowEvent> {
    let (Fact::ActivityCompleted { activity_id, .. } | Fact::ActivityFailed { activity_id, .. }) =
        fact
    else {
        return None;
    };
    Some(WorkflowEvent::ActivityStarted {
        activity_id: activity_id.clone(),
        attempt: 1,
        worker_id: "w".into(),
        started_at: None,
    })
}

/// One of the facts that can come next.
fn possible_fact(history: &HistoryState, choice: u32, number: usize) -> Fact {
    let mut facts = vec![
        Fact::SignalReceived {
            signal: WorkflowSignal {
                signal_id: None,
                signal_type: format!("signal-{number}"),
                payload: Payload::null(),
                sent_at: Timestamp::UNIX_EPOCH,
            },
        },
        Fact::CancelRequested {
            reason: format!("reason-{number}"),
        },
        Fact::UpdateAccepted {
            update_id: format!("update-{number}"),
            name: "set".into(),
            input: Payload::null(),
        },
    ];
    for (id, _) in history.pending_activities() {
        let activity_id = id.to_owned();
        facts.push(match choice % 3 {
            0 => Fact::ActivityCompleted {
                activity_id,
                result: Payload::null(),
            },
            1 => Fact::ActivityFailed {
                activity_id,
                error: Failure::new("E", "e"),
            },
            _ => Fact::ActivityTimedOut {
                activity_id,
                timeout_type: TimeoutType::Heartbeat,
            },
        });
    }
    for id in history.pending_timers() {
        facts.push(Fact::TimerFired {
            timer_id: id.to_owned(),
        });
    }
    for (id, workflow_id) in history.pending_children() {
        let child_id = id.to_owned();
        facts.push(match choice % 2 {
            0 => Fact::ChildCompleted {
                workflow_id,
                child_id,
                result: Payload::null(),
            },
            _ => {
                let error = WorkflowError::new("E", "e");
                Fact::ChildFailed {
                    workflow_id,
                    child_id,
                    error,
                }
            }
        });
    }
    for id in history.open_human_tasks() {
        facts.push(Fact::HumanTaskDecided {
            task_id: id.to_owned(),
            decision: "approved".into(),
            actor: "ann".into(),
            answer: Payload::null(),
        });
    }
    let at = choice as usize % facts.len();
    facts.swap_remove(at)
}
