//! What replay drives: facts in, actions out.

use crate::action::WorkflowAction;
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::failure::{WorkflowError, error_types};
use crate::payload::PayloadError;

/// The code of one run, whichever front door it came through.
///
/// Two adapters: [`TraitProgram`](crate::trait_program::TraitProgram) for the [`Workflow`](crate::Workflow) trait, and the one
/// for an `async fn`, whose place is beside it (`async_program.rs`): a fact completes the slot it
/// belongs to, the future is polled until it waits again, the actions its calls made are the answer,
/// and what [`Program::recall`] was given answers its side effects without running them.
///
/// Architecture invariant: a program is a function of the facts and memories it was given, in order.
/// It knows no clock and no store, and never learns whether it is being replayed.
pub trait Program: Send {
    /// Name of the workflow type.
    fn workflow_type(&self) -> &str;

    /// Reacts to a fact.
    ///
    /// # Errors
    /// [`ProgramError`] when a payload does not fit the code. The program is of no use afterwards.
    fn apply(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError>;

    /// Hands over a value recorded while the fact that comes next was first applied: a side
    /// effect, a local activity's outcome, a patch mark. Called before [`Program::apply`], on replay only.
    fn recall(&mut self, memory: &WorkflowEvent) {
        let _ = memory;
    }
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
            Self::OutOfOrder { .. } => error_types::GENERIC,
        }
    }
}

/// What the run fails with, where failing it is decided.
impl From<ProgramError> for WorkflowError {
    fn from(error: ProgramError) -> Self {
        Self::new(error.error_type(), error.to_string())
    }
}
