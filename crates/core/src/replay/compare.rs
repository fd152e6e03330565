//! The strict comparison: an action's contents, in the form they are stored in.

use super::error::DeterminismError;
use crate::event::WorkflowEvent;
use crate::request::Request;

/// Compares what two events of the same kind, id and type hold. Stored forms are compared, since that
/// is what a replay reads: a duration below a millisecond, say, is already gone in the recorded one.
pub(super) fn contents(
    sequence_num: i64,
    recorded: &WorkflowEvent,
    mut found: WorkflowEvent,
) -> Result<(), Box<DeterminismError>> {
    take_over_given_fields(recorded, &mut found);
    let expected = Request::of_event(recorded);
    let requested = Request::of_event(&found);
    let (recorded, found) = (recorded.encode(), found.encode());
    if recorded == found {
        return Ok(());
    }
    let difference = if recorded.data == found.data {
        clip(&format!(
            "history has the payload {:?}, the code {:?}",
            recorded.payload, found.payload
        ))
    } else {
        clip(&format!(
            "history has {}, the code {}",
            String::from_utf8_lossy(&recorded.data),
            String::from_utf8_lossy(&found.data)
        ))
    };
    let error = DeterminismError::new(sequence_num, expected, requested);
    Err(Box::new(error.with_difference(difference)))
}

/// What the engine fills in, not the program, is no difference.
fn take_over_given_fields(recorded: &WorkflowEvent, found: &mut WorkflowEvent) {
    use WorkflowEvent as E;
    match (recorded, found) {
        (
            E::ChildWorkflowStarted { workflow_id, .. },
            E::ChildWorkflowStarted {
                workflow_id: own, ..
            },
        ) => *own = *workflow_id,
        (
            E::WorkflowContinuedAsNew { iteration, .. },
            E::WorkflowContinuedAsNew { iteration: own, .. },
        ) => *own = *iteration,
        (E::ActivityCancelled { reason, .. }, E::ActivityCancelled { reason: own, .. }) => {
            own.clone_from(reason);
        }
        _ => {}
    }
}

/// Payloads may be megabytes; an error message may not.
const DIFFERENCE_CHARS_MAX: usize = 600;

fn clip(text: &str) -> String {
    match text.char_indices().nth(DIFFERENCE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
