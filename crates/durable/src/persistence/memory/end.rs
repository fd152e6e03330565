//! Runs that the store itself ends: terminated, or out of time.

use durable_core::{Failure, Timestamp, WorkflowError, WorkflowEvent, error_types};
use uuid::Uuid;

use super::state::State;
use crate::persistence::model::{Next, TerminateOutcome, TerminateRun, TurnCommit};

impl State {
    pub(super) fn terminate_run(
        &mut self,
        request: &TerminateRun,
        now: Timestamp,
    ) -> TerminateOutcome {
        match self.find(request.run_id).map(|run| run.run().status) {
            None => TerminateOutcome::NotFound,
            Some(status) if status.is_terminal() => TerminateOutcome::AlreadyFinished(status),
            Some(_) => {
                self.terminate(request.run_id, &request.reason, now);
                TerminateOutcome::Terminated
            }
        }
    }

    /// Terminates a run that has not ended.
    pub(super) fn terminate(&mut self, run_id: Uuid, reason: &str, now: Timestamp) {
        let error = Failure::new(error_types::WORKFLOW_TERMINATED, reason).non_retryable();
        self.end_by_store(run_id, error, now);
    }

    /// A turn that takes no fact and fails the run. Signals that wait go into the history as
    /// unread, so that none is lost; and no turn of the run's own is forgotten, since its sender
    /// may still ask about it.
    pub(super) fn end_by_store(&mut self, run_id: Uuid, error: Failure, now: Timestamp) {
        let run = self.at(run_id);
        let last_turn = run.run().last_turn;
        let mut turn = TurnCommit::new(run.run(), Uuid::nil());
        turn.unread_rest = true;
        turn.events.push(WorkflowEvent::WorkflowFailed {
            error: WorkflowError::from(error.clone()),
        });
        turn.next = Next::Fail { error };
        self.write_turn(turn, last_turn, now);
    }
}
