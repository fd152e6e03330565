//! I14: nothing is stuck. What is overdue by the clock is found by [`super::walk`]; here is what no
//! clock would ever bring on.

use crate::persistence::model::{Dump, WorkflowStatus};

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        findings.expect(
            run.run.status != WorkflowStatus::Pending || run.run.ready_at.is_some(),
            run.run.id,
            "it has not begun and no turn is due",
        );
    }
}
