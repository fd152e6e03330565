//! I13: nothing is left of a run that is gone, and no reserved key without a run.

use crate::persistence::model::Dump;

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for orphan in &dump.orphans {
        let message = match orphan.run_id {
            Some(_) => format!("it is gone and has rows in durable_{}", orphan.table),
            None => format!(
                "a row of durable_{} was reserved and has no run",
                orphan.table
            ),
        };
        findings.add(orphan.run_id, message);
    }
}
