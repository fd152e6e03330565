//! Histories, cut where an iteration or an epoch begins.

use crate::persistence::model::{HistoryEvent, RunDump};
use durable_core::{WorkflowEvent, effective_history};

/// The stretches of a history between continuations and resets; each mark begins the stretch after it.
pub(super) fn stretches(run: &RunDump) -> Vec<&[HistoryEvent]> {
    let mut stretches = Vec::new();
    let mut first = 0;
    for (at, event) in run.events.iter().enumerate() {
        let mark = matches!(
            event.event,
            WorkflowEvent::WorkflowContinuedAsNew { .. } | WorkflowEvent::WorkflowReset { .. }
        );
        if mark {
            stretches.push(&run.events[first..at]);
            first = at + 1;
        }
    }
    stretches.push(&run.events[first..]);
    stretches
}

/// The events that count; none when the log itself is broken, which another check tells.
pub(super) fn effective(run: &RunDump) -> Vec<&HistoryEvent> {
    let log = run
        .events
        .iter()
        .map(|event| (event.sequence_num, event.event.clone()));
    let Ok(history) = effective_history(log) else {
        return Vec::new();
    };
    let mut counts = history.events.iter().map(|(number, _)| *number).peekable();
    run.events
        .iter()
        .filter(|event| counts.next_if_eq(&event.sequence_num).is_some())
        .collect()
}
