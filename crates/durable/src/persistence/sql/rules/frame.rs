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
    /// Names every field, so that a new one is put where it belongs.
    pub(super) fn of(run: &RunHead) -> Self {
        let RunHead {
            // As the start made them.
            id: _,
            workflow_type: _,
            business_id: _,
            idempotency_key: _,
            fingerprint: _,
            parent: _,
            run_timeout_ms: _,
            created_at: _,
            // Written with every turn.
            sequence: _,
            arrivals: _,
            consumed: _,
            last_turn: _,
            updated_at: _,
            task_count: _,
            line_count: _,
            // Who it is, and until when; the latter is written with every turn.
            owner,
            status,
            has_children,
            history_start,
            iteration,
            epoch,
            ready_at,
            blocked,
            execution_deadline,
            run_deadline,
            started_at,
            completed_at,
        } = run;
        Self {
            status: *status,
            has_children: *has_children,
            history_start: *history_start,
            iteration: *iteration,
            epoch: *epoch,
            ready_at: *ready_at,
            owner_id: owner.as_ref().map(|owner| owner.worker_id.clone()),
            blocked: blocked.clone(),
            execution_deadline: *execution_deadline,
            run_deadline: *run_deadline,
            started_at: *started_at,
            completed_at: *completed_at,
        }
    }
}
