//! I10: every history can be replayed.

use crate::persistence::model::{Dump, RunDump};
use durable_core::{HistoryState, WorkflowEvent, effective_history};

use super::Findings;

/// Every event survives being stored.
pub(super) fn decodable(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        for event in &run.events {
            let stored = event.event.encode();
            let read = WorkflowEvent::decode(stored.event_type, &stored.data, stored.payload);
            findings.expect(
                read.as_ref() == Ok(&event.event),
                run.run.id,
                format!(
                    "event {} cannot be stored and read back",
                    event.sequence_num
                ),
            );
        }
    }
}

/// What counts of every history is one that a run can have.
pub(super) fn replayable(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        if let Err(problem) = replay(run) {
            findings.add(run.run.id, problem);
        }
    }
}

fn replay(run: &RunDump) -> Result<(), String> {
    let log = run
        .events
        .iter()
        .map(|event| (event.sequence_num, event.event.clone()));
    let history = effective_history(log).map_err(|problem| problem.to_string())?;
    if history.epoch != run.run.epoch || history.iteration != run.run.iteration {
        return Err(format!(
            "its history is in epoch {} and iteration {}",
            history.epoch, history.iteration
        ));
    }
    let mut state = HistoryState::after(run.run.history_start);
    // A run may be ended from outside before its first turn: signals and the end are all it has.
    let never_turned = run.run.last_turn.is_none() && run.run.status.is_terminal();
    if never_turned {
        return Ok(());
    }
    for (number, event) in &history.events {
        state
            .accept(*number, event)
            .map_err(|problem| problem.to_string())?;
    }
    Ok(())
}
