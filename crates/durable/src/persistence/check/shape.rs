//! Whether the parts of a turn fit together.

use durable_core::WorkflowEvent;

use crate::persistence::StoreError;
use crate::persistence::model::{Next, TurnCommit};

/// A turn's status and its events say the same, and whatever other tables refer to has an event.
pub(super) fn turn_shape(turn: &TurnCommit) -> Result<(), StoreError> {
    let last = turn.events.last();
    let fits = match &turn.next {
        Next::Wait => !turn.events.iter().any(WorkflowEvent::is_terminal),
        Next::Complete { .. } => matches!(last, Some(WorkflowEvent::WorkflowCompleted { .. })),
        Next::Fail { .. } => matches!(last, Some(WorkflowEvent::WorkflowFailed { .. })),
        Next::Cancel { .. } => matches!(last, Some(WorkflowEvent::WorkflowCancelled { .. })),
        Next::ContinueAsNew { .. } => {
            matches!(last, Some(WorkflowEvent::WorkflowContinuedAsNew { .. }))
        }
        Next::Reset { to_sequence } => matches!(
            turn.events.first(),
            Some(WorkflowEvent::WorkflowReset { to_sequence: to, .. }) if to == to_sequence
        ),
    };
    if !fits {
        return Err(StoreError::Invalid(format!(
            "the events of turn {} do not say what becomes of the run; append the matching event",
            turn.turn_id
        )));
    }
    let ends = !matches!(turn.next, Next::Wait | Next::Reset { .. });
    if ends && !(turn.tasks.is_empty() && turn.timers.is_empty()) {
        return Err(StoreError::Invalid(
            "a turn that ends the run or continues it as new cannot queue tasks or set timers"
                .into(),
        ));
    }
    if !turn.requeued_letters.is_empty() && !matches!(turn.next, Next::Reset { .. }) {
        return Err(StoreError::Invalid(
            "only a reset puts dead letters back; decide about each of them instead".into(),
        ));
    }
    let writes = !(turn.tasks.is_empty() && turn.children.is_empty() && turn.signals.is_empty());
    if writes && turn.events.is_empty() {
        return Err(StoreError::Invalid(
            "a turn that queues tasks, starts children or sends signals has to append an event"
                .into(),
        ));
    }
    Ok(())
}
