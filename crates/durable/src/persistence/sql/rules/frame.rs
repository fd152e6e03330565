//! What of a run's row stays as it is while the run goes on.

use durable_core::Timestamp;

use crate::persistence::model::{Blocked, WorkflowStatus};
use crate::persistence::sql::rows::RunHead;

/// The columns by which lists, claims, clocks and retention find a run, and others that seldom change, as they were found.
///
/// While these stay, a turn moves counters only, and a store need not touch an index. SQLite does not see that by itself: an index is written
/// when one of its columns is set, whatever to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    status: WorkflowStatus,
    has_children: bool,
    history_start: i64,
    iteration: u32,
    epoch: u32,
    ready_at: Option<Timestamp>,
    owner_id: Option<String>,
    blocked: Option<Blocked>,
    execution_deadline: Option<Timestamp>,
    run_deadline: Option<Timestamp>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
}

impl Frame {
    pub(super) fn of(run: &RunHead) -> Self {
        Self {
            status: run.status,
            has_children: run.has_children,
            history_start: run.history_start,
            iteration: run.iteration,
            epoch: run.epoch,
            ready_at: run.ready_at,
            owner_id: run.owner.as_ref().map(|owner| owner.worker_id.clone()),
            blocked: run.blocked.clone(),
            execution_deadline: run.execution_deadline,
            run_deadline: run.run_deadline,
            started_at: run.started_at,
            completed_at: run.completed_at,
        }
    }
}
