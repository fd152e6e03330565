//! I1: a run that has ended has one end, and nothing of it is left to do.

use crate::persistence::model::{Dump, RunDump, UpdateState, WorkflowStatus};
use durable_core::WorkflowEvent;

use super::Findings;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        status_is_what_the_last_event_says(run, findings);
        fields_fit_the_status(run, findings);
        if run.run.status.is_terminal() {
            nothing_is_left(run, findings);
        }
    }
}

fn status_is_what_the_last_event_says(run: &RunDump, findings: &mut Findings) {
    let told = match run.events.last().map(|event| &event.event) {
        Some(WorkflowEvent::WorkflowCompleted { .. }) => Some(WorkflowStatus::Completed),
        Some(WorkflowEvent::WorkflowFailed { .. }) => Some(WorkflowStatus::Failed),
        Some(WorkflowEvent::WorkflowCancelled { .. }) => Some(WorkflowStatus::Cancelled),
        _ => None,
    };
    let status = run.run.status;
    let fits = match told {
        Some(told) => told == status,
        None => !status.is_terminal(),
    };
    findings.expect(
        fits,
        run.run.id,
        format!("it is {status}, its last event says {told:?}"),
    );
    findings.expect(
        status != WorkflowStatus::Pending || run.events.is_empty(),
        run.run.id,
        "it is pending and has a history",
    );
}

fn fields_fit_the_status(run: &RunDump, findings: &mut Findings) {
    let r = &run.run;
    let ended = r.status.is_terminal();
    let failed = r.status == WorkflowStatus::Failed;
    let checks = [
        (r.completed_at.is_some() == ended, "completed_at"),
        (r.error.is_some() == failed, "error"),
        (
            r.result.is_absent() || r.status == WorkflowStatus::Completed,
            "result",
        ),
    ];
    for (fits, field) in checks {
        findings.expect(fits, r.id, format!("{field} does not fit {}", r.status));
    }
}

fn nothing_is_left(run: &RunDump, findings: &mut Findings) {
    let open_updates = run
        .updates
        .iter()
        .filter(|update| update.state == UpdateState::Pending)
        .count();
    let left = [
        (run.tasks.len(), "tasks"),
        (run.timers.len(), "timers"),
        (run.facts.len(), "facts"),
        (open_updates, "open updates"),
        (usize::from(run.run.ready_at.is_some()), "a turn due"),
        (usize::from(run.run.owner.is_some()), "an owner"),
    ];
    for (count, what) in left {
        findings.expect(
            count == 0,
            run.run.id,
            format!("it has ended and still has {what} ({count})"),
        );
    }
}
