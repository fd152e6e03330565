//! A run's program, live: facts in, events to append out.

use std::fmt;

use crate::action::WorkflowAction;
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::function::ForeignBell;
use crate::history::{HistoryError, HistoryProblem, HistoryState, NumberedEvent};
use crate::identity::RunIdentity;
use crate::local::LocalCall;
use crate::program::{Program, ProgramError};
use crate::request::Request;
use crate::signal::WorkflowSignal;

/// Why an activity that the workflow gave up is recorded as cancelled.
pub const CANCELLED_BY_WORKFLOW: &str = "cancelled by its workflow";

/// What a turn comes to: to be committed as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// What the program asked for, in order, without what turned out to be nothing.
    pub actions: Vec<WorkflowAction>,
    /// What is appended: each fact followed by what it led to.
    pub events: Vec<NumberedEvent>,
}

impl Turn {
    /// Keeps signals that wait while the run ends: as notes, just before the turn's last event, which is numbered anew.
    ///
    /// # Panics
    /// When there are signals and the turn's last event does not end the run: they still wait then, and nobody may take them.
    pub fn keep_unread(&mut self, signals: impl IntoIterator<Item = WorkflowSignal>) {
        let mut signals = signals.into_iter().peekable();
        if signals.peek().is_none() {
            return;
        }
        let (mut sequence_num, end) = self
            .events
            .pop_if(|(_, event)| event.is_terminal())
            .expect("only a turn that ends its run leaves signals unread");
        for signal in signals {
            let event = WorkflowEvent::SignalReceived {
                signal,
                unread: true,
            };
            self.events.push((sequence_num, event));
            sequence_num = sequence_num.saturating_add(1);
        }
        self.events.push((sequence_num, end));
    }
}

/// A run's program together with what its history has come to.
///
/// Valid at [`HistoryState::last_sequence`] only. After an error from any method it stands for no
/// stored history any more: drop it and rebuild the run by replay.
///
/// ```
/// use durable_core::{Fact, Payload, ProgramState, RunIdentity, Turn, WorkflowAction};
/// use durable_core::program::{Program, ProgramError};
/// use uuid::Uuid;
///
/// struct Napping;
/// impl Program for Napping {
///     fn workflow_type(&self) -> &str { "napping" }
///     fn apply(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError> {
///         let duration = std::time::Duration::from_secs(1);
///         Ok(match fact {
///             Fact::Started { .. } => vec![WorkflowAction::StartTimer { timer_id: "nap".into(), duration }],
///             _ => vec![WorkflowAction::CompleteWorkflow { result: Payload::null() }],
///         })
///     }
/// }
///
/// let mut run = ProgramState::new(RunIdentity::new(Uuid::from_u128(1)), Box::new(Napping));
/// let mut turn = Turn::default();
/// run.take(&Fact::Started { input: Payload::null() }, &mut turn)?;
/// run.take(&Fact::TimerFired { timer_id: "nap".into() }, &mut turn)?;
/// let names: Vec<_> = turn.events.iter().map(|(_, event)| event.event_type()).collect();
/// assert_eq!(names, ["workflow.started", "timer.started", "timer.fired", "workflow.completed"]);
/// # Ok::<(), durable_core::TurnError>(())
/// ```
pub struct ProgramState {
    identity: RunIdentity,
    program: Box<dyn Program>,
    /// Boxed: a program is handed from place to place many times a turn.
    history: Box<HistoryState>,
}

impl ProgramState {
    /// A run whose log is empty.
    #[must_use]
    pub fn new(identity: RunIdentity, program: Box<dyn Program>) -> Self {
        Self::after(identity, program, HistoryState::default())
    }

    /// A run, or its next iteration, that stands where `history` stands.
    #[must_use]
    pub fn after(identity: RunIdentity, program: Box<dyn Program>, history: HistoryState) -> Self {
        Self {
            identity,
            program,
            history: Box::new(history),
        }
    }

    /// Who the run is.
    #[must_use]
    pub const fn identity(&self) -> RunIdentity {
        self.identity
    }

    /// What its history has come to.
    #[must_use]
    pub const fn history(&self) -> &HistoryState {
        &self.history
    }

    /// Its code.
    #[must_use]
    pub fn program(&self) -> &dyn Program {
        &*self.program
    }

    /// Whether its code waits for a local activity.
    #[must_use]
    pub fn waits_for_local(&self) -> bool {
        self.program.waits_for_local()
    }

    /// Whether its code can go on; see [`Program::check`].
    ///
    /// # Errors
    /// [`TurnError::Program`] where it cannot.
    pub fn check(&self) -> Result<(), TurnError> {
        Ok(self.program.check()?)
    }

    /// What to ring when something that is no fact wakes its code.
    pub fn on_foreign_wake(&mut self, bell: ForeignBell) {
        self.program.on_foreign_wake(bell);
    }

    /// Local activities that its code asked for since this was last called.
    pub fn take_local_calls(&mut self) -> Vec<LocalCall> {
        self.program.take_local_calls()
    }

    /// Signals that its code was told and did not use.
    pub fn take_unread(&mut self) -> Vec<WorkflowSignal> {
        self.program.take_unread()
    }

    /// Takes a fact; what it leads to is added to `turn`.
    ///
    /// # Errors
    /// [`TurnError`] when the fact cannot follow, the program cannot react to it, or asks for what cannot be.
    pub fn take(&mut self, fact: &Fact, turn: &mut Turn) -> Result<(), TurnError> {
        let event = WorkflowEvent::from(fact.clone());
        self.record(event, turn)?;
        let actions = self.program.apply(fact)?;
        self.remember(turn)?;
        self.decide(actions, turn)
    }

    /// Records the values that the program made and that must not be made again.
    pub(crate) fn remember(&mut self, turn: &mut Turn) -> Result<(), HistoryError> {
        for memory in self.program.take_memories() {
            self.record(memory, turn)?;
        }
        Ok(())
    }

    /// Appends an event that the program has no part in: an attempt's note, a version mark, an ending imposed from outside.
    ///
    /// # Errors
    /// [`HistoryError`] when it cannot follow.
    pub fn record(&mut self, event: WorkflowEvent, turn: &mut Turn) -> Result<(), HistoryError> {
        let sequence_num = self.history.next_sequence();
        self.history.accept(sequence_num, &event)?;
        turn.events.push((sequence_num, event));
        Ok(())
    }

    /// Ends the run as cancelled if it was asked to stop and has met that ([`HistoryState::stop_reason`]), unless its code still cleans up.
    /// Called once, after the last fact of a turn, so that the program has answered all of them.
    ///
    /// # Errors
    /// [`HistoryError`] when the end cannot follow.
    pub fn settle(&mut self, turn: &mut Turn) -> Result<(), HistoryError> {
        if self.program.goes_on() && !self.history.is_shutting_down() {
            return Ok(());
        }
        let Some(reason) = self.history.stop_reason().map(str::to_owned) else {
            return Ok(());
        };
        self.record(WorkflowEvent::WorkflowCancelled { reason }, turn)
    }

    /// Turns actions into events.
    pub(crate) fn decide(
        &mut self,
        actions: Vec<WorkflowAction>,
        turn: &mut Turn,
    ) -> Result<(), TurnError> {
        for action in actions {
            let Some(event) = event_of_action(&action, &self.history, &self.identity)? else {
                continue;
            };
            let request = request_of(&event);
            self.record(event, turn).map_err(|refused| ActionError {
                request,
                problem: refused.problem,
            })?;
            turn.actions.push(action);
        }
        Ok(())
    }
}

impl fmt::Debug for ProgramState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramState")
            .field("workflow_type", &self.program.workflow_type())
            .field("identity", &self.identity)
            .field("history", &self.history)
            .finish()
    }
}

/// Why a turn could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The fact cannot follow what came before: it is late, or was told twice.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The program could not react to the fact.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The program asked for something that cannot be.
    #[error(transparent)]
    Action(#[from] ActionError),
}

/// A program asked for something that cannot be, such as a second activity of the same id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the workflow asked to {request}: {problem}")]
pub struct ActionError {
    /// What it asked for.
    pub request: Request,
    /// Why it cannot be.
    pub problem: HistoryProblem,
}

fn request_of(event: &WorkflowEvent) -> Request {
    Request::of_event(event).expect("an event made of an action records a request")
}

/// The event that records an action. None for no action, and for giving up what is over already:
/// that race is the ordinary one, and both live and on replay it comes to nothing.
pub(crate) fn event_of_action(
    action: &WorkflowAction,
    history: &HistoryState,
    identity: &RunIdentity,
) -> Result<Option<WorkflowEvent>, ActionError> {
    let Some(mut event) = plain_event(action, identity) else {
        return Ok(None);
    };
    let check = match (action, &mut event) {
        (WorkflowAction::CancelActivity { activity_id }, _) => history.check_activity(activity_id),
        (WorkflowAction::CancelTimer { timer_id }, _) => history.check_timer(timer_id),
        (
            WorkflowAction::CancelChildWorkflow {
                workflow_id: child_id,
            },
            WorkflowEvent::ChildWorkflowCancelRequested { workflow_id, .. },
        ) => history.open_child(child_id).map(|started_as| {
            // A reset raises the epoch, by which children are named, and keeps those it does not forget.
            *workflow_id = started_as;
        }),
        _ => Ok(()),
    };
    match check {
        Ok(()) => Ok(Some(event)),
        Err(HistoryProblem::AlreadyOver { .. }) => Ok(None),
        Err(problem) => Err(ActionError {
            request: request_of(&event),
            problem,
        }),
    }
}

fn plain_event(action: &WorkflowAction, identity: &RunIdentity) -> Option<WorkflowEvent> {
    use WorkflowAction as A;
    use WorkflowEvent as E;
    Some(match action.clone() {
        A::None => return None,
        A::ScheduleActivity {
            activity_id,
            activity_type,
            input,
            options,
        } => E::ActivityScheduled {
            activity_id,
            activity_type,
            input,
            options: Box::new(options),
        },
        A::CancelActivity { activity_id } => E::ActivityCancelled {
            activity_id,
            reason: CANCELLED_BY_WORKFLOW.to_owned(),
        },
        A::StartTimer { timer_id, duration } => E::TimerStarted {
            timer_id,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        },
        A::CancelTimer { timer_id } => E::TimerCancelled { timer_id },
        A::ScheduleChildWorkflow {
            workflow_id: child_id,
            workflow_type,
            input,
        }
        | A::StartChildWorkflow {
            workflow_id: child_id,
            workflow_type,
            input,
            options: _,
        } => E::ChildWorkflowStarted {
            workflow_id: identity.child_run_id(&child_id),
            workflow_type,
            child_id,
            input,
        },
        A::CancelChildWorkflow {
            workflow_id: child_id,
        } => E::ChildWorkflowCancelRequested {
            workflow_id: identity.child_run_id(&child_id),
            child_id,
        },
        A::CompleteWorkflow { result } => E::WorkflowCompleted { result },
        A::FailWorkflow { error } => E::WorkflowFailed { error },
        A::CancelWorkflow { reason } => E::WorkflowCancelled { reason },
        A::ContinueAsNew { input } => E::WorkflowContinuedAsNew {
            iteration: identity.iteration.saturating_add(1),
            input,
        },
        A::CompleteUpdate { update_id, result } => E::UpdateCompleted { update_id, result },
        A::FailUpdate { update_id, error } => E::UpdateFailed { update_id, error },
        A::OpenHumanTask { task_id, request } => E::HumanTaskOpened { task_id, request },
        A::UpsertSearchAttributes { attributes } => E::SearchAttributesUpserted { attributes },
    })
}
