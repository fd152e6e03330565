//! What can be wrong with a history.

use std::fmt;

/// An event that cannot follow what came before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence_num} ({event_type}): {problem}")]
pub struct HistoryError {
    /// Where.
    pub sequence_num: i64,
    /// Name of the event.
    pub event_type: &'static str,
    /// What is wrong with it.
    pub problem: HistoryProblem,
}

/// Why an event, or the action it would be made from, is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryProblem {
    /// Sequence numbers only grow.
    #[error("its number does not follow {last}")]
    SequenceNotIncreasing {
        /// The one before it.
        last: i64,
    },
    /// Nothing comes before the start.
    #[error("the run has not started")]
    NotStarted,
    /// A run starts once.
    #[error("the run has started already")]
    AlreadyStarted,
    /// Nothing follows the end.
    #[error("the run has ended already, with {0}")]
    Ended(&'static str),
    /// An id was used twice.
    #[error("{subject} {id:?} exists already")]
    Duplicate {
        /// What the id names.
        subject: Subject,
        /// The id.
        id: String,
    },
    /// Nothing of that id was asked for.
    #[error("{subject} {id:?} was never asked for")]
    Unknown {
        /// What the id names.
        subject: Subject,
        /// The id.
        id: String,
    },
    /// It is over: the outcome that is there stays.
    #[error("{subject} {id:?} is over already")]
    AlreadyOver {
        /// What the id names.
        subject: Subject,
        /// The id.
        id: String,
    },
    /// A child's outcome names another run than its start.
    #[error("child {id:?} was started as another run")]
    OtherChildRun {
        /// The name the parent gave it.
        id: String,
    },
    /// An id without a character.
    #[error("its id is empty")]
    EmptyId,
    /// Attempts are counted from one.
    #[error("attempts are counted from 1")]
    AttemptZero,
    /// A reset raises the epoch.
    #[error("epoch {epoch} does not follow {current}")]
    EpochNotRaised {
        /// The event's.
        epoch: u32,
        /// The run's.
        current: u32,
    },
    /// A continuation raises the iteration.
    #[error("iteration {iteration} does not follow {current}")]
    IterationNotRaised {
        /// The event's.
        iteration: u32,
        /// The run's.
        current: u32,
    },
    /// A reset names the last event that still counts, and that one does not.
    #[error("it goes back to event {to_sequence}, which does not count")]
    ResetTarget {
        /// The event it names.
        to_sequence: i64,
    },
}

/// What an id within a run names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// An activity, local ones included.
    Activity,
    /// A timer.
    Timer,
    /// A child workflow.
    Child,
    /// An update.
    Update,
    /// A human task.
    HumanTask,
    /// A side effect.
    SideEffect,
    /// A patch.
    Patch,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Child => "child",
            Self::Update => "update",
            Self::HumanTask => "human task",
            Self::SideEffect => "side effect",
            Self::Patch => "patch",
        })
    }
}
