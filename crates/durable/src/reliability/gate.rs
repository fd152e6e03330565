//! The gate that claimed tasks pass before they run.

use std::sync::Arc;
use std::time::Duration;

use crate::persistence::WorkflowEventStore;
use crate::persistence::model::{ClaimedTask, TaskOutcome};
use crate::runtime::Runtime;

/// Whether a task may run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Run,
    /// Not before this has passed.
    Park(Duration),
}

/// Asks breakers and limiters, and tells breakers how it went.
pub(crate) struct Gate {
    _store: Arc<dyn WorkflowEventStore>,
    _runtime: Runtime,
}

impl Gate {
    pub(crate) fn new(store: Arc<dyn WorkflowEventStore>, runtime: Runtime) -> Self {
        Self {
            _store: store,
            _runtime: runtime,
        }
    }

    /// One verdict a task, in order.
    #[allow(clippy::unused_async, reason = "the breakers' own file comes next")]
    pub(crate) async fn admit(&self, tasks: &[ClaimedTask]) -> Vec<Verdict> {
        vec![Verdict::Run; tasks.len()]
    }

    /// Tells the task's breaker how it went.
    pub(crate) fn record(&self, _task: &ClaimedTask, _outcome: &TaskOutcome) {}
}
