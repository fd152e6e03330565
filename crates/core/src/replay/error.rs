//! How a replay can fail.

use std::fmt;

use crate::history::HistoryError;
use crate::program::ProgramError;
use crate::request::Request;
use crate::turn::{ActionError, TurnError};

/// Why a history could not be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The history is malformed.
    #[error("the history is malformed: {0}")]
    History(#[from] HistoryError),
    /// The code is not the one that made the history.
    #[error(transparent)]
    Determinism(Box<DeterminismError>),
    /// The program could not react to a fact.
    #[error("event {sequence_num}: {source}")]
    Program {
        /// The fact.
        sequence_num: i64,
        /// Why.
        source: ProgramError,
    },
    /// The program asked for something that cannot be.
    #[error("event {sequence_num}: {source}")]
    Action {
        /// Where it would be recorded.
        sequence_num: i64,
        /// What and why.
        source: ActionError,
    },
}

impl From<DeterminismError> for ReplayError {
    fn from(error: DeterminismError) -> Self {
        Self::Determinism(Box::new(error))
    }
}

impl ReplayError {
    pub(super) fn turn(sequence_num: i64, error: TurnError) -> Self {
        match error {
            TurnError::History(error) => Self::History(error),
            TurnError::Program(source) => Self::Program {
                sequence_num,
                source,
            },
            TurnError::Action(source) => Self::Action {
                sequence_num,
                source,
            },
        }
    }

    /// Whether other code may replay the same history: the run is blocked, not lost.
    #[must_use]
    pub const fn is_determinism(&self) -> bool {
        matches!(self, Self::Determinism(_))
    }
}

/// The first place where the code asks for something else than its history records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeterminismError {
    /// Where in the history.
    pub sequence_num: i64,
    /// What history has there; nothing when it has no action there.
    pub expected: Option<Request>,
    /// What the code asks for; nothing when it asks for nothing more.
    pub found: Option<Request>,
    /// What differs between two that are otherwise equal (strict mode).
    pub difference: Option<String>,
    /// Where in the code that was asked for, or where the code waits.
    pub location: Option<String>,
}

impl DeterminismError {
    pub(super) const fn new(
        sequence_num: i64,
        expected: Option<Request>,
        found: Option<Request>,
    ) -> Self {
        Self {
            sequence_num,
            expected,
            found,
            difference: None,
            location: None,
        }
    }

    pub(super) fn at(mut self, location: Option<String>) -> Self {
        self.location = location;
        self
    }

    pub(super) fn with_difference(mut self, difference: String) -> Self {
        self.difference = Some(difference);
        self
    }
}

impl std::error::Error for DeterminismError {}

impl fmt::Display for DeterminismError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the code is not the one that made this history: at event {} ",
            self.sequence_num
        )?;
        match (&self.expected, &self.difference) {
            (Some(expected), Some(difference)) => {
                write!(f, "both {expected}, but {difference}")?;
                let at = self.location.as_ref();
                return at.map_or(Ok(()), |location| write!(f, " at {location}"));
            }
            (Some(expected), None) => write!(f, "history has \"{expected}\"")?,
            (None, _) => f.write_str("history has no action")?,
        }
        match &self.found {
            Some(found) => write!(f, ", the code asks to \"{found}\"")?,
            None => f.write_str(", the code asks for nothing more")?,
        }
        let Some(location) = &self.location else {
            return Ok(());
        };
        match self.found {
            Some(_) => write!(f, " at {location}")?,
            None => write!(f, " and waits at {location}")?,
        }
        let old = match &self.expected {
            Some(expected) => expected.to_string(),
            None => "nothing here".to_owned(),
        };
        write!(
            f,
            ". Runs that began before the change need the old path: \
             `if ctx.patched(\"name-of-the-change\") {{ /* the new code */ }} else {{ /* as recorded: {old} */ }}`"
        )
    }
}
