//! I11: an outbox event belongs to a committed turn, and none to a turn that was rolled back.
//!
//! What a database shows at rest: an event comes with a turn, so that its run has taken one. Instants
//! are not compared: on a database whose clock was set back, a later turn has an earlier one.

use crate::persistence::model::Dump;

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        for event in &run.outbox {
            findings.expect(
                run.run.last_turn.is_some(),
                run.run.id,
                format!(
                    "outbox event {} was written and the run has taken no turn",
                    event.id
                ),
            );
        }
    }
}
