//! A turn that is over a limit because of what the workflow asked for fails its run: no build of
//! the same code would fare better.

use durable_core::{Failure, WorkflowError, WorkflowEvent, error_types};
use uuid::Uuid;

use crate::persistence::StoreError;
use crate::persistence::check::ATTRIBUTES_COUNTED;
use crate::persistence::limits::{
    ATTRIBUTE_TEXT_BYTES_MAX, ATTRIBUTES_MAX, BATCH_BYTES_MAX, ID_BYTES_MAX, NAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX, TURN_EVENTS_MAX, TURN_ITEMS_MAX,
};
use crate::persistence::model::{Next, TurnCommit};

/// The failure of a run whose turn, committed alone, the store refuses with this error. None: the
/// workflow is not to blame. The facts that a turn takes are bounded far below every limit here, so
/// that what is too large or too many is what the workflow asked for.
pub(super) fn failure_of(error: &StoreError) -> Option<Failure> {
    let StoreError::Limit { what, found, limit } = error else {
        return None;
    };
    let error_type = match *limit {
        PAYLOAD_BYTES_MAX => error_types::PAYLOAD_TOO_LARGE,
        ATTRIBUTES_MAX
        | ATTRIBUTE_TEXT_BYTES_MAX
        | ID_BYTES_MAX
        | NAME_BYTES_MAX
        | TURN_ITEMS_MAX
        | TURN_EVENTS_MAX
        | BATCH_BYTES_MAX => error_types::LIMIT_EXCEEDED,
        _ => return None,
    };
    Some(over(error_type, what, *found, *limit))
}

/// The failure of a run that would have so many search attributes with its turn.
pub(super) fn too_many_attributes(found: usize) -> Failure {
    over(
        error_types::LIMIT_EXCEEDED,
        ATTRIBUTES_COUNTED,
        found,
        ATTRIBUTES_MAX,
    )
}

fn over(error_type: &str, what: &str, found: usize, limit: usize) -> Failure {
    let message = format!("{what} is {found}, the limit is {limit}");
    Failure::new(error_type, message).non_retryable()
}

/// The commit that fails the run in place of one that is over a limit. It ends the run as the store
/// does: signals that the turn took are kept in the history, unread, as are those that wait behind
/// it, and nothing else of the turn is.
pub(super) fn failing(refused: &TurnCommit, failure: Failure, turn_id: Uuid) -> TurnCommit {
    let taken = refused.events.iter().filter_map(|event| match event {
        WorkflowEvent::SignalReceived { signal, .. } => Some(signal),
        _ => None,
    });
    let unread = taken.map(|signal| WorkflowEvent::SignalReceived {
        signal: signal.clone(),
        unread: true,
    });
    let mut events: Vec<WorkflowEvent> = unread.collect();
    events.push(WorkflowEvent::WorkflowFailed {
        error: WorkflowError::from(failure.clone()),
    });
    TurnCommit {
        start: refused.start.clone(),
        run_id: refused.run_id,
        turn_id,
        expected_sequence: refused.expected_sequence,
        expected_epoch: refused.expected_epoch,
        facts_through: refused.facts_through,
        unread_rest: true,
        finished_tasks: refused.finished_tasks.clone(),
        fired_timers: Vec::new(),
        events,
        tasks: Vec::new(),
        cancelled_activities: Vec::new(),
        timers: Vec::new(),
        cancelled_timers: Vec::new(),
        children: Vec::new(),
        signals: Vec::new(),
        updates: Vec::new(),
        attributes: std::collections::BTreeMap::new(),
        outbox: Vec::new(),
        step_logs: refused.step_logs.clone(),
        requeued_letters: Vec::new(),
        next: Next::Fail { error: failure },
        lease: None,
        owner: None,
    }
}
