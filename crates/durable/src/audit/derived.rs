//! I12, the columns that follow from others: task and line counts, deadlines, the clocks of tasks.

use crate::persistence::model::Dump;

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        let (stored, derived) = (&run.derived, run.derive());
        let columns = [
            (
                stored.task_count == derived.task_count,
                format!(
                    "task_count is {}, and {} tasks are queued",
                    stored.task_count, derived.task_count
                ),
            ),
            (
                stored.line_count == derived.line_count,
                format!(
                    "line_count is {}, and {} tasks are in the line",
                    stored.line_count, derived.line_count
                ),
            ),
            (
                stored.deadline_at == derived.deadline_at,
                format!(
                    "deadline_at is {:?}, its deadlines say {:?}",
                    stored.deadline_at, derived.deadline_at
                ),
            ),
        ];
        for (fits, message) in columns {
            findings.expect(fits, run.run.id, message);
        }
        for task in &derived.tasks {
            let found = stored.tasks.iter().find(|found| found.id == task.id);
            findings.expect(
                found == Some(task),
                run.run.id,
                format!("the clocks of task {} are {found:?}, not {task:?}", task.id),
            );
        }
    }
}
