//! I7: an end is final within an epoch: only a reset may follow it.

use crate::persistence::model::Dump;
use durable_core::WorkflowEvent;

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        for pair in run.events.windows(2) {
            let [end, next] = pair else { continue };
            let follows = matches!(next.event, WorkflowEvent::WorkflowReset { .. });
            findings.expect(
                !end.event.is_terminal() || follows,
                run.run.id,
                format!(
                    "{} follows the end at {}",
                    next.event.event_type(),
                    end.sequence_num
                ),
            );
            let reopens = end.event.is_terminal() && follows;
            findings.expect(
                !reopens || matches!(end.event, WorkflowEvent::WorkflowFailed { .. }),
                run.run.id,
                format!(
                    "a run that had not failed was reset at {}",
                    next.sequence_num
                ),
            );
        }
    }
}
