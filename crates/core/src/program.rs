//! What replay drives: facts in, actions out.

use crate::action::WorkflowAction;
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::failure::{Failure, WorkflowError, error_types};
use crate::function::ForeignBell;
use crate::local::LocalCall;
use crate::payload::{Payload, PayloadError};
use crate::request::Request;
use crate::signal::WorkflowSignal;

/// The code of one run, whichever front door it came through.
///
/// Two adapters: [`TraitProgram`](crate::trait_program::TraitProgram) for the [`Workflow`](crate::Workflow) trait, and
/// [`FunctionProgram`](crate::function::FunctionProgram) for an `async fn`.
///
/// Architecture invariant: what a program asks for is a function of the facts and memories it was given, in order.
/// It knows no store, and never learns whether it is being replayed but through what it is given to recall.
pub trait Program: Send {
    /// Name of the workflow type.
    fn workflow_type(&self) -> &str;

    /// Reacts to a fact.
    ///
    /// # Errors
    /// [`ProgramError`] when a payload does not fit the code, or the code cannot go on. The program is of no use afterwards.
    fn apply(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError>;

    /// Hands over what was recorded while the fact that comes next was first applied. Called before
    /// [`Program::apply`], on replay only.
    fn recall(&mut self, recorded: &Recorded<'_>) {
        let _ = recorded;
    }

    /// Values that the last [`Program::apply`] made and that must not be made again: side effects, patch marks. They are
    /// recorded with its fact, before its actions.
    fn take_memories(&mut self) -> Vec<WorkflowEvent> {
        Vec::new()
    }

    /// Local activities asked for since this was last called. Whoever runs them brings their outcome as a fact.
    fn take_local_calls(&mut self) -> Vec<LocalCall> {
        Vec::new()
    }

    /// Whether the outcome of a local activity is still to come.
    fn waits_for_local(&self) -> bool {
        false
    }

    /// Whether its code, asked to stop, still waits for something, so that the run must not be ended over its head.
    fn goes_on(&self) -> bool {
        self.waits_for_local()
    }

    /// Whether its code can go on, looked at between two facts.
    ///
    /// # Errors
    /// [`ProgramError::Foreign`] when something that is no fact has woken it.
    fn check(&self) -> Result<(), ProgramError> {
        Ok(())
    }

    /// What to ring when something that is no fact wakes the code: only then does anybody look at it before its next fact.
    fn on_foreign_wake(&mut self, bell: ForeignBell) {
        drop(bell);
    }

    /// Signals that it was told and did not use, in order: what a continuation begins with.
    fn take_unread(&mut self) -> Vec<WorkflowSignal> {
        Vec::new()
    }

    /// Where in the code a request of the last [`Program::apply`] was made; without one, where the code waits.
    fn locate(&self, request: Option<&Request>) -> Option<String> {
        let _ = request;
        None
    }

    /// Names of the signals that the code waits for now, by name, each once.
    fn awaited_signals(&self) -> Vec<String> {
        Vec::new()
    }

    /// Conditions over the workflow's own state that the code waits for now, in the order of the waits: what each is, where the code
    /// says so.
    fn awaited_conditions(&self) -> Vec<Option<String>> {
        Vec::new()
    }

    /// Answers a question about the run, changing nothing: what the handler asks for comes to nothing. A panic of the handler's is the
    /// caller's to catch.
    ///
    /// # Errors
    /// [`QueryError`]: no such handler, or what the handler said.
    fn query(&self, name: &str, input: &Payload) -> Result<Payload, QueryError> {
        let _ = input;
        Err(QueryError::NotFound {
            name: name.to_owned(),
            known: Vec::new(),
        })
    }

    /// Whether an update may be taken now; asked before it is recorded. Changes nothing, as [`Program::query`].
    ///
    /// # Errors
    /// Why not.
    fn validate_update(&self, name: &str, input: &Payload) -> Result<(), Failure> {
        let _ = (name, input);
        Ok(())
    }
}

/// What history has and what the code asks for, where they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What history has; nothing when it has nothing there.
    pub expected: Option<Request>,
    /// What the code asks for; nothing when it asks for nothing more.
    pub found: Option<Request>,
}

/// What was recorded of a step that is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// Values that are given back instead of being made again.
    pub memories: &'a [&'a WorkflowEvent],
    /// Whether the step was decided: what is not among the memories was not made then, and cannot be now.
    pub complete: bool,
}

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// No handler of that name.
    #[error("the workflow has no query {name:?}; it has {known:?}")]
    NotFound {
        /// The name.
        name: String,
        /// The names it has.
        known: Vec<String>,
    },
    /// The handler, or reading its input, failed.
    #[error("query {name:?}: {failure}")]
    Failed {
        /// The name.
        name: String,
        /// Why.
        failure: Failure,
    },
}

/// Why a program could not react to a fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The input does not fit the workflow.
    #[error("input of workflow {workflow_type}: {source}")]
    Input {
        /// Which workflow.
        workflow_type: String,
        /// What is wrong.
        source: PayloadError,
    },
    /// The result has no JSON form.
    #[error("result of workflow {workflow_type}: {source}")]
    Output {
        /// Which workflow.
        workflow_type: String,
        /// What is wrong.
        source: PayloadError,
    },
    /// A result, an answer or an update's input cannot be read as JSON.
    #[error("{subject} {id:?} brought a payload that cannot be read: {source}")]
    Payload {
        /// What it belongs to, such as `activity`.
        subject: &'static str,
        /// Which one.
        id: String,
        /// What is wrong.
        source: PayloadError,
    },
    /// The code waits for something that no fact of the run brings.
    #[error(
        "workflow {workflow_type} waits for something outside its context{place}; a workflow may only await what its context \
         gives it: use ctx.sleep for a timer, an activity for input and output, ctx.signal for messages"
    )]
    Foreign {
        /// Which workflow.
        workflow_type: String,
        /// Where its last call to the context was made, if that is known.
        place: String,
    },
    /// The code wakes itself over and over without getting anywhere.
    #[error("workflow {workflow_type} was polled {polls} times in one step and still wakes itself")]
    Restless {
        /// Which workflow.
        workflow_type: String,
        /// How often it was polled.
        polls: u32,
    },
    /// A value that is to be made once was made where history has none, or the other way round.
    #[error("workflow {workflow_type} is not the code that made this history")]
    Diverged {
        /// Which workflow.
        workflow_type: String,
        /// What history has, and what the code asks for.
        difference: Box<Difference>,
    },
    /// The first fact was not the start, or a later one was.
    #[error("workflow {workflow_type} was given its start out of place")]
    OutOfOrder {
        /// Which workflow.
        workflow_type: String,
    },
}

impl ProgramError {
    /// Type of the failure that stands for it.
    #[must_use]
    pub const fn error_type(&self) -> &'static str {
        match self {
            Self::Input { .. } => error_types::INVALID_INPUT,
            Self::Output { .. } => error_types::INVALID_OUTPUT,
            Self::Payload { .. } => error_types::INVALID_PAYLOAD,
            Self::OutOfOrder { .. }
            | Self::Foreign { .. }
            | Self::Restless { .. }
            | Self::Diverged { .. } => error_types::GENERIC,
        }
    }

    /// What the run fails with, where failing it is decided.
    #[must_use]
    pub fn to_workflow_error(&self) -> WorkflowError {
        WorkflowError::new(self.error_type(), self.to_string())
    }

    /// Whether the run fails for it. Otherwise it is the code's trouble: the run waits, blocked, for other code.
    #[must_use]
    pub const fn fails_the_run(&self) -> bool {
        !matches!(
            self,
            Self::Foreign { .. } | Self::Restless { .. } | Self::Diverged { .. }
        )
    }
}
