//! Rebuilding a run's program from its history.
//!
//! A *step* is a fact and the events up to the next one. Its fact is applied, and the actions that
//! the program answers with must be those that the step records, in order. Everything else in it is
//! notes: attempts that were retried, signals that nobody read, marks, memories that the program is given before the fact.

mod compare;
mod error;
mod steps;

use std::collections::VecDeque;

pub use error::{DeterminismError, ReplayError};
pub use steps::{RecordedStep, recorded_steps};

use crate::action::WorkflowAction;
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::history::{HistoryState, NumberedEvent};
use crate::identity::RunIdentity;
use crate::program::{Difference, Program, ProgramError, Recorded};
use crate::request::{Request, is_memory, may_be_imposed};
use crate::turn::{ProgramState, Turn, event_of_action};

/// How closely recorded and requested actions are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplayMode {
    /// Kind, id and type: what a live run needs to go on.
    #[default]
    Normal,
    /// Input and options too: what a check of new code against old histories wants to know.
    Strict,
}

/// Replays a whole history (see [`effective_history`](crate::effective_history)).
///
/// # Errors
/// [`ReplayError`] when the history is malformed, or the program is not the one that made it.
pub fn replay(
    identity: RunIdentity,
    program: Box<dyn Program>,
    history: impl IntoIterator<Item = NumberedEvent>,
    mode: ReplayMode,
) -> Result<ProgramState, ReplayError> {
    let mut replayer = Replayer::new(identity, program, mode);
    for (sequence_num, event) in history {
        replayer.push(sequence_num, event)?;
    }
    replayer.finish()
}

/// Replays a history that arrives event by event. After an error it is of no use.
pub struct Replayer {
    identity: RunIdentity,
    program: Box<dyn Program>,
    mode: ReplayMode,
    history: HistoryState,
    step: Option<Step>,
}

/// A fact and what was recorded up to the next one.
struct Step {
    sequence_num: i64,
    event: WorkflowEvent,
    fact: Fact,
    rest: Vec<NumberedEvent>,
}

/// Where in the history a step stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Another fact follows it: it was decided.
    Within,
    /// Nothing follows: it may wait for its decision.
    Last,
}

/// Whether a step's record holds a decision, behind the last reset that cut through it.
fn was_decided(rest: &[NumberedEvent]) -> bool {
    rest.iter()
        .rev()
        .map(|(_, event)| event)
        .take_while(|event| !matches!(event, WorkflowEvent::WorkflowReset { .. }))
        .any(|event| {
            is_memory(event) || (Request::of_event(event).is_some() && !may_be_imposed(event))
        })
}

/// What a step's program asked for beyond what the step records.
struct Unrecorded {
    /// Empty when recorded and requested agree.
    actions: VecDeque<WorkflowAction>,
    first: Option<Request>,
    /// Whether the step may simply not have been decided yet, so that these are new.
    may_be_new: bool,
}

/// How far the comparison of a step has come.
#[derive(Default)]
struct Progress {
    /// Recorded actions that the program repeated.
    matched: usize,
    /// Whether a reset took back the rest of the step's record, and nothing was decided since.
    cut: bool,
}

impl Progress {
    /// Whether the run may have been ended before the step was decided, so that what the program asks for
    /// was never on record. A request to stop is met only after a decision, unless the run had not begun.
    fn may_be_undecided(&self, fact: &Fact, ending: &WorkflowEvent) -> bool {
        match ending {
            WorkflowEvent::WorkflowCancelled { .. } => {
                self.matched == 0 && matches!(fact, Fact::Started { .. })
            }
            _ => self.matched == 0 || self.cut,
        }
    }
}

impl Replayer {
    /// Before the first event.
    #[must_use]
    pub fn new(identity: RunIdentity, program: Box<dyn Program>, mode: ReplayMode) -> Self {
        Self {
            identity,
            program,
            mode,
            history: HistoryState::default(),
            step: None,
        }
    }

    /// Takes the next event. A difference within a step shows when the step is complete: at the next fact or at the end.
    ///
    /// # Errors
    /// [`ReplayError`] for the step that this event completes.
    pub fn push(&mut self, sequence_num: i64, event: WorkflowEvent) -> Result<(), ReplayError> {
        if let Some(fact) = Fact::from_event(&event) {
            let unrecorded = self.close_step(Place::Within)?;
            self.refuse_unrecorded(sequence_num, unrecorded)?;
            self.step = Some(Step {
                sequence_num,
                event,
                fact,
                rest: Vec::new(),
            });
        } else if let Some(step) = &mut self.step {
            step.rest.push((sequence_num, event));
        } else {
            self.history.accept(sequence_num, &event)?;
        }
        Ok(())
    }

    /// The end of a history whose every fact has been decided.
    ///
    /// # Errors
    /// [`ReplayError`] for the last step.
    pub fn finish(mut self) -> Result<ProgramState, ReplayError> {
        let unrecorded = self.close_step(Place::Last)?;
        self.refuse_unrecorded(self.history.next_sequence(), unrecorded)?;
        Ok(self.into_state())
    }

    /// The end of a history whose last fact may wait for its decision: a start written ahead of the
    /// first turn, or a reset that cut through a step. The turn holds what that fact leads to.
    ///
    /// # Errors
    /// [`ReplayError`] for the last step.
    pub fn resume(mut self) -> Result<(ProgramState, Turn), ReplayError> {
        let unrecorded = self.close_step(Place::Last)?;
        let sequence_num = self.history.next_sequence();
        let mut turn = Turn::default();
        if !unrecorded.may_be_new {
            self.refuse_unrecorded(sequence_num, unrecorded)?;
            return Ok((self.into_state(), turn));
        }
        let mut state = self.into_state();
        state.remember(&mut turn)?;
        state
            .decide(unrecorded.actions.into(), &mut turn)
            .map_err(|error| ReplayError::turn(sequence_num, error))?;
        Ok((state, turn))
    }

    fn into_state(self) -> ProgramState {
        ProgramState::after(self.identity, self.program, self.history)
    }

    fn refuse_unrecorded(
        &self,
        sequence_num: i64,
        unrecorded: Unrecorded,
    ) -> Result<(), ReplayError> {
        match unrecorded.first {
            None => Ok(()),
            Some(found) => Err(self.divergence(sequence_num, None, Some(found))),
        }
    }

    fn divergence(
        &self,
        sequence_num: i64,
        expected: Option<Request>,
        found: Option<Request>,
    ) -> ReplayError {
        let location = self.program.locate(found.as_ref());
        DeterminismError::new(sequence_num, expected, found)
            .at(location)
            .into()
    }

    fn close_step(&mut self, place: Place) -> Result<Unrecorded, ReplayError> {
        let Some(step) = self.step.take() else {
            return Ok(Unrecorded {
                actions: VecDeque::new(),
                first: None,
                may_be_new: false,
            });
        };
        self.history.accept(step.sequence_num, &step.event)?;
        let mut actions = VecDeque::from(self.apply(&step, place)?);
        let mut progress = Progress::default();
        for (sequence_num, event) in &step.rest {
            if let Some(expected) = Request::of_event(event) {
                let found = self.next_requested(*sequence_num, &mut actions)?;
                if found.as_ref().and_then(Request::of_event).as_ref() == Some(&expected) {
                    self.compare_strictly(*sequence_num, event, found)?;
                    actions.pop_front();
                    progress.matched += 1;
                    progress.cut = false;
                } else if may_be_imposed(event)
                    && (found.is_none() || progress.may_be_undecided(&step.fact, event))
                {
                    actions.clear();
                } else {
                    let found = found.as_ref().and_then(Request::of_event);
                    return Err(self.divergence(*sequence_num, Some(expected), found));
                }
            }
            progress.cut |= matches!(event, WorkflowEvent::WorkflowReset { .. });
            self.history.accept(*sequence_num, event)?;
        }
        let at = self.history.next_sequence();
        let first = self.next_requested(at, &mut actions)?;
        Ok(Unrecorded {
            first: first.as_ref().and_then(Request::of_event),
            actions,
            may_be_new: progress.matched == 0 || progress.cut,
        })
    }

    fn apply(&mut self, step: &Step, place: Place) -> Result<Vec<WorkflowAction>, ReplayError> {
        let memories: Vec<&WorkflowEvent> = step
            .rest
            .iter()
            .map(|(_, event)| event)
            .filter(|event| is_memory(event))
            .collect();
        self.program.recall(&Recorded {
            memories: &memories,
            complete: place == Place::Within || was_decided(&step.rest),
        });
        self.program.apply(&step.fact).or_else(|error| {
            // The engine may have failed the run for this very reason; then that is what is on record.
            let failed_for_it = step.rest.iter().any(|(_, event)| {
                matches!(event, WorkflowEvent::WorkflowFailed { error: recorded }
                    if recorded.error_type == error.error_type())
            });
            match error {
                ProgramError::Diverged { difference, .. } => {
                    let Difference { expected, found } = *difference;
                    Err(self.divergence(step.sequence_num, expected, found))
                }
                error if failed_for_it => {
                    let error = error.to_workflow_error();
                    Ok(vec![WorkflowAction::FailWorkflow { error }])
                }
                error => Err(ReplayError::Program {
                    sequence_num: step.sequence_num,
                    source: error,
                }),
            }
        })
    }

    /// The event of the next action that is one; those that come to nothing are passed over.
    fn next_requested(
        &self,
        sequence_num: i64,
        actions: &mut VecDeque<WorkflowAction>,
    ) -> Result<Option<WorkflowEvent>, ReplayError> {
        while let Some(action) = actions.front() {
            let event =
                event_of_action(action, &self.history, &self.identity).map_err(|source| {
                    ReplayError::Action {
                        sequence_num,
                        source,
                    }
                })?;
            if event.is_some() {
                return Ok(event);
            }
            actions.pop_front();
        }
        Ok(None)
    }

    fn compare_strictly(
        &self,
        sequence_num: i64,
        recorded: &WorkflowEvent,
        found: Option<WorkflowEvent>,
    ) -> Result<(), ReplayError> {
        match (self.mode, found) {
            (ReplayMode::Strict, Some(found)) => {
                let requested = Request::of_event(&found);
                compare::contents(sequence_num, recorded, found).map_err(|error| {
                    let location = self.program.locate(requested.as_ref());
                    (*error).at(location).into()
                })
            }
            _ => Ok(()),
        }
    }
}
