//! A live run of an async function, whose log can be replayed at every prefix.

#![allow(dead_code, reason = "each of the test files uses its own part")]

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use durable_core::function::{Birth, Call, Context, Ending, FunctionProgram, RunInfo};
use durable_core::{
    ActivityOptions, ChildOptions, Fact, NumberedEvent, Payload, Program, ProgramState,
    ReplayError, ReplayMode, Replayer, RunIdentity, Timestamp, Turn, TurnError,
    WorkflowAction as A, WorkflowError, WorkflowEvent as E, WorkflowSignal, replay,
};
use uuid::Uuid;

type Code = Arc<dyn Fn() -> Box<dyn Program>>;

/// A run, its log so far, and the code that made it.
pub(crate) struct Live {
    pub(crate) state: ProgramState,
    code: Code,
    log: Vec<NumberedEvent>,
    resumed: usize,
}

fn code_of<F, Fut>(code: F) -> Code
where
    F: Fn(Context) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Payload, WorkflowError>> + Send + 'static,
{
    Arc::new(move || {
        let code = code.clone();
        let birth = Birth {
            info: RunInfo {
                run_id: Uuid::from_u128(1),
                workflow_type: "wf".into(),
                version: String::new(),
                parent_run_id: None,
                attempt: 1,
                iteration: 0,
                workflow_id: None,
                memo: Payload::ABSENT,
            },
            clock: Arc::new(|| Timestamp::UNIX_EPOCH),
        };
        let program = FunctionProgram::new(
            birth,
            Box::new(move |context, _input| {
                let future = code(context);
                Ok(Box::pin(async move {
                    match future.await {
                        Ok(result) => Ending::Completed(result),
                        Err(error) => Ending::Failed(error),
                    }
                }))
            }),
        );
        Box::new(program)
    })
}

impl Live {
    pub(crate) fn new<F, Fut>(code: F) -> Self
    where
        F: Fn(Context) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<Payload, WorkflowError>> + Send + 'static,
    {
        let code = code_of(code);
        Self {
            state: ProgramState::new(identity(), code()),
            code,
            log: Vec::new(),
            resumed: 0,
        }
    }

    /// A run rebuilt from a log whose last fact may not have been decided.
    pub(crate) fn resumed<F, Fut>(code: F, log: Vec<NumberedEvent>) -> Self
    where
        F: Fn(Context) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<Payload, WorkflowError>> + Send + 'static,
    {
        let code = code_of(code);
        let mut replayer = Replayer::new(identity(), code(), ReplayMode::Normal);
        for (sequence_num, event) in log.clone() {
            replayer.push(sequence_num, event).unwrap();
        }
        let (state, turn) = replayer.resume().unwrap();
        Self {
            state,
            code,
            log,
            resumed: turn.events.len(),
        }
    }

    /// Events that the last fact of a rebuilt run led to only now.
    pub(crate) fn resumed_events(&self) -> usize {
        self.resumed
    }

    pub(crate) fn try_take(&mut self, fact: &Fact) -> Result<Vec<A>, TurnError> {
        let mut turn = Turn::default();
        if !self.state.history().is_late(fact) && self.state.history().is_running()
            || matches!(fact, Fact::Started { .. })
        {
            let known = match fact {
                Fact::ActivityCompleted { activity_id, .. } => {
                    self.state.history().has_pending_activity(activity_id)
                }
                _ => true,
            };
            if known {
                self.state.take(fact, &mut turn)?;
            }
        }
        self.log.extend(turn.events);
        Ok(turn.actions)
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "a script reads better without references"
    )]
    pub(crate) fn take(&mut self, fact: Fact) -> Vec<A> {
        self.try_take(&fact).unwrap()
    }

    pub(crate) fn event_names(&self) -> Vec<&'static str> {
        self.log
            .iter()
            .map(|(_, event)| event.event_type())
            .collect()
    }

    /// The same log under other code.
    pub(crate) fn replay_with<F, Fut>(&self, code: F) -> Result<Self, ReplayError>
    where
        F: Fn(Context) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<Payload, WorkflowError>> + Send + 'static,
    {
        let code = code_of(code);
        let state = replay(identity(), code(), self.log.clone(), ReplayMode::Strict)?;
        Ok(Self {
            state,
            code,
            log: self.log.clone(),
            resumed: 0,
        })
    }

    /// Cut after every fact's decision, the log replays, and what follows is taken as it was.
    pub(crate) fn every_prefix_replays(&self) {
        let mut turns: Vec<Vec<NumberedEvent>> = Vec::new();
        for (sequence_num, event) in &self.log {
            if Fact::from_event(event).is_some() {
                turns.push(Vec::new());
            }
            turns
                .last_mut()
                .expect("a log begins with a fact")
                .push((*sequence_num, event.clone()));
        }
        for cut in 1..=turns.len() {
            let prefix = turns[..cut].concat();
            let state = replay(identity(), (self.code)(), prefix, ReplayMode::Strict);
            let mut state = state.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            for turn in &turns[cut..] {
                let fact = Fact::from_event(&turn[0].1).expect("a turn begins with a fact");
                let mut taken = Turn::default();
                state.take(&fact, &mut taken).unwrap();
                assert_eq!(&taken.events, turn, "cut at {cut}");
            }
        }
    }
}

fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(1))
}

/// Numbered from 1.
pub(crate) fn with_memories(events: Vec<E>) -> Vec<NumberedEvent> {
    (1..).zip(events).collect()
}

#[track_caller]
pub(crate) fn call(ctx: &Context, activity_type: &str) -> Call {
    let ticket = ctx.ticket(Location::caller());
    let activity_id = ticket.id();
    ticket.ask(A::schedule_activity(
        activity_id,
        activity_type,
        Payload::null(),
    ))
}

pub(crate) fn sleep(ctx: &Context, duration: Duration) -> Call {
    let ticket = ctx.ticket(Location::caller());
    let timer_id = ticket.id();
    ticket.ask(A::StartTimer { timer_id, duration })
}

pub(crate) fn start_child(ctx: &Context, workflow_type: &str) -> Call {
    let ticket = ctx.ticket(Location::caller());
    let id = ticket.id();
    ticket.ask(child(id.parse().unwrap(), workflow_type))
}

pub(crate) fn started() -> Fact {
    Fact::Started {
        input: Payload::null(),
    }
}

pub(crate) fn answered(position: u64, result: &str) -> Fact {
    Fact::ActivityCompleted {
        activity_id: position.to_string(),
        result: Payload::from_value(result).unwrap(),
    }
}

pub(crate) fn fired(position: u64) -> Fact {
    Fact::TimerFired {
        timer_id: position.to_string(),
    }
}

pub(crate) fn signal(name: &str, payload: &str) -> Fact {
    Fact::SignalReceived {
        signal: WorkflowSignal {
            signal_id: None,
            signal_type: name.into(),
            payload: Payload::from_value(payload).unwrap(),
            sent_at: Timestamp::UNIX_EPOCH,
        },
    }
}

pub(crate) fn activity(position: u64, activity_type: &str) -> A {
    A::ScheduleActivity {
        activity_id: position.to_string(),
        activity_type: activity_type.into(),
        input: Payload::null(),
        options: ActivityOptions::default(),
    }
}

pub(crate) fn timer(position: u64, seconds: u64) -> A {
    A::StartTimer {
        timer_id: position.to_string(),
        duration: Duration::from_secs(seconds),
    }
}

pub(crate) fn child(position: u64, workflow_type: &str) -> A {
    A::StartChildWorkflow {
        workflow_id: position.to_string(),
        workflow_type: workflow_type.into(),
        input: Payload::null(),
        options: ChildOptions::default(),
    }
}

pub(crate) fn given_up(position: u64) -> A {
    A::CancelActivity {
        activity_id: position.to_string(),
    }
}
