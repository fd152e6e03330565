//! A run's history: which events may follow which, and which of them count.

mod effective;
mod error;
mod late;
mod ledger;
mod open_items;
mod state;
mod stopping;

pub use effective::{EffectiveHistory, effective_history};
pub use error::{HistoryError, HistoryProblem, Subject};
pub use open_items::PendingActivity;
pub use state::HistoryState;
pub(crate) use stopping::cancel_reason;

use crate::event::WorkflowEvent;

/// An event with its place in the history.
pub type NumberedEvent = (i64, WorkflowEvent);
