//! I12, the queue: leases are whole, and only the first of a run's line may be worked on.

use crate::persistence::model::{Dump, OutboxState, RunDump, TaskRecord, TaskStatus};

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        for task in &run.tasks {
            lease_is_whole(task, findings);
            findings.expect(
                task.epoch == run.run.epoch,
                run.run.id,
                format!("task {} is of epoch {}", task.id, task.epoch),
            );
        }
        line_is_kept(run, findings);
        outbox_tokens_fit(run, findings);
    }
}

fn lease_is_whole(task: &TaskRecord, findings: &mut Findings) {
    let claimed = task.status == TaskStatus::Claimed;
    let parts = [
        task.token.is_some(),
        task.claimed_by.is_some(),
        task.claimed_at.is_some(),
        task.lease_expires_at.is_some(),
    ];
    findings.expect(
        parts.iter().all(|part| *part == claimed),
        task.run_id,
        format!(
            "task {} is {} and its lease is {parts:?}",
            task.id,
            task.status.as_str()
        ),
    );
    findings.expect(
        !claimed || (task.attempt > 0 && task.deliveries > 0),
        task.run_id,
        format!("task {} was handed out and not counted", task.id),
    );
}

fn line_is_kept(run: &RunDump, findings: &mut Findings) {
    let mut line: Vec<&TaskRecord> = run
        .tasks
        .iter()
        .filter(|task| task.options.sequential)
        .collect();
    line.sort_by_key(|task| task.line);
    for (place, task) in line.iter().enumerate() {
        // A clock can end a task that never got to the head of its line.
        let fits = match task.status {
            TaskStatus::InLine => place > 0,
            TaskStatus::Dead => true,
            _ => place == 0,
        };
        findings.expect(
            fits,
            run.run.id,
            format!(
                "task {} is {} at place {place} of its line",
                task.id,
                task.status.as_str()
            ),
        );
    }
    for pair in line.windows(2) {
        findings.expect(
            pair[0].line < pair[1].line,
            run.run.id,
            format!(
                "tasks {} and {} have one place in the line",
                pair[0].id, pair[1].id
            ),
        );
    }
    let beside = run.tasks.iter().filter(|task| !task.options.sequential);
    for task in beside {
        findings.expect(
            task.status != TaskStatus::InLine,
            run.run.id,
            format!("task {} waits in a line it is not in", task.id),
        );
    }
}

fn outbox_tokens_fit(run: &RunDump, findings: &mut Findings) {
    for event in &run.outbox {
        let in_flight = event.state == OutboxState::InFlight;
        let published = event.state == OutboxState::Published;
        findings.expect(
            event.token.is_some() == in_flight && event.published_at.is_some() == published,
            run.run.id,
            format!("outbox event {} does not fit its state", event.id),
        );
    }
}
