//! What a host of workflows is asked, and what it answers.

use async_trait::async_trait;
use durable_core::{Fact, Failure, Payload, WorkflowAction, WorkflowEvent};
use uuid::Uuid;

use crate::workflow::RunInfo;

/// Runs workflow code in another process.
#[async_trait]
pub trait WorkflowHost: Send + Sync + 'static {
    /// Tells the run's code what has happened, and answers what it asks for: one step an item, in order; fewer where a step ends the run.
    ///
    /// # Errors
    /// [`HostError`]. The host bounds how long it takes.
    async fn turn(&self, activation: Activation) -> Result<Vec<Step>, HostError>;

    /// The run's instance is not needed any more.
    fn forget(&self, run_id: Uuid);

    /// Whether it has let a turn wait for too long and has answered none since: others with the same code are asked first.
    fn is_stalled(&self) -> bool {
        false
    }
}

/// What has happened to a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Activation {
    /// The run.
    pub run: RunInfo,
    /// Where its code has to begin.
    pub beginning: Beginning,
    /// What has happened, in order.
    pub items: Vec<Item>,
}

/// Where the code of a run has to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Anew: the items tell everything.
    Start,
    /// Anew, and for this once: the instance that is kept, if there is one, stays as it is.
    Apart,
    /// Where it is after so many items.
    After(u64),
}

/// Something that a run's code is told or asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What.
    pub asked: Asked,
    /// Whether it was answered before, and the answer is compared.
    pub replayed: bool,
    /// Values that were made then and must not be made again.
    pub memories: Vec<WorkflowEvent>,
}

/// A fact or a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Something has happened.
    Fact(Fact),
    /// Somebody asks.
    Query {
        /// Which question.
        name: String,
        /// Its input.
        input: Payload,
    },
}

/// What an item led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// What the run asks for, in order.
    pub actions: Vec<WorkflowAction>,
    /// Values that must not be made again: side effects and patch marks.
    pub memories: Vec<WorkflowEvent>,
    /// The answer to a question.
    pub answer: Option<Result<Payload, Failure>>,
    /// Why an update is refused.
    pub refused: Option<Failure>,
    /// Signals that a run which goes on as new was told and did not use.
    pub unread: Vec<Uuid>,
}

/// Why a host did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The instance is not there, or not where it should be: tell everything.
    #[error("the worker does not keep the run")]
    NotKept,
    /// Its code cannot go on; the run waits for other code.
    #[error("{0}")]
    Broken(String),
    /// It went away or took too long. Nothing has happened; another one may be asked.
    #[error("the worker is gone: {0}")]
    Gone(String),
}
