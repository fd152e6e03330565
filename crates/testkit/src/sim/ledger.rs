//! What activities did in the world outside, noted by themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use everruns_durable::activity::ActivityContext;
use parking_lot::Mutex;
use uuid::Uuid;

/// One execution of an activity: a claim of it that some node began to carry out.
#[derive(Debug, Clone)]
pub(super) struct Execution {
    pub(super) run_id: Uuid,
    pub(super) activity_id: String,
    pub(super) activity_type: String,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) node: String,
    pub(super) began_ms: u64,
    pub(super) ended_ms: Option<u64>,
    /// Whether it came to an answer of its own; else it was dropped where it stood.
    pub(super) answered: bool,
}

/// All executions of a seed, by serial number.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    executions: Arc<Mutex<Vec<Execution>>>,
    /// Runs of which a task was taken back from a node that could not renew its lease.
    taken_back: Arc<Mutex<BTreeSet<Uuid>>>,
}

impl Ledger {
    pub(super) fn begin(&self, ctx: &ActivityContext, node: &str, at_ms: u64) -> usize {
        let mut executions = self.executions.lock();
        executions.push(Execution {
            run_id: ctx.workflow_id,
            activity_id: ctx.activity_id.clone(),
            activity_type: ctx.activity_type().to_owned(),
            attempt: ctx.attempt,
            max_attempts: ctx.max_attempts,
            node: node.to_owned(),
            began_ms: at_ms,
            ended_ms: None,
            answered: false,
        });
        executions.len() - 1
    }

    pub(super) fn end(&self, serial: usize, at_ms: u64, answered: bool) {
        if let Some(execution) = self.executions.lock().get_mut(serial) {
            execution.ended_ms = Some(at_ms);
            execution.answered = answered;
        }
    }

    pub(super) fn taken_back(&self, runs: impl IntoIterator<Item = Uuid>) {
        self.taken_back.lock().extend(runs);
    }

    pub(super) fn was_taken_back(&self, run_id: Uuid) -> bool {
        self.taken_back.lock().contains(&run_id)
    }

    pub(super) fn all(&self) -> Vec<Execution> {
        self.executions.lock().clone()
    }
}
