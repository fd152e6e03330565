//! I3: an activity ends once.

use std::collections::BTreeMap;

use crate::persistence::model::{Dump, RunDump, TaskStatus};
use durable_core::WorkflowEvent;

use super::Findings;
use super::history::effective;

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        let ends = ends(run);
        for (activity, count) in &ends {
            findings.expect(
                *count <= 1,
                run.run.id,
                format!("activity {activity} has ended {count} times"),
            );
        }
        for task in &run.tasks {
            findings.expect(
                !ends.contains_key(task.activity_id.as_str()),
                run.run.id,
                format!("activity {} has ended and has a task", task.activity_id),
            );
        }
        attempts_rise(run, findings);
        let leased = run.tasks.iter().filter(|t| t.status == TaskStatus::Claimed);
        for task in leased {
            findings.expect(
                task.attempts.iter().all(|a| a.attempt <= task.attempt) || task.requeue_count > 0,
                run.run.id,
                format!(
                    "activity {} runs an attempt that failed before",
                    task.activity_id
                ),
            );
        }
    }
}

/// Ends of activities, in the history that counts and in the inbox.
fn ends(run: &RunDump) -> BTreeMap<&str, usize> {
    let history = effective(run).into_iter().map(|event| &event.event);
    let inbox = run.facts.iter().map(|fact| &fact.event);
    let mut ends = BTreeMap::new();
    for activity in history.chain(inbox).filter_map(ended_activity) {
        *ends.entry(activity).or_default() += 1;
    }
    ends
}

/// The activity that an event ends for good.
pub(super) fn ended_activity(event: &WorkflowEvent) -> Option<&str> {
    match event {
        WorkflowEvent::ActivityCompleted { activity_id, .. }
        | WorkflowEvent::ActivityFailed {
            activity_id,
            will_retry: false,
            ..
        }
        | WorkflowEvent::ActivityTimedOut { activity_id, .. }
        | WorkflowEvent::ActivityCancelled { activity_id, .. } => Some(activity_id),
        _ => None,
    }
}

/// Attempts are numbered upwards; a requeued dead letter begins at one again.
fn attempts_rise(run: &RunDump, findings: &mut Findings) {
    let mut last: BTreeMap<&str, u32> = BTreeMap::new();
    for event in effective(run) {
        let WorkflowEvent::ActivityStarted {
            activity_id,
            attempt,
            ..
        } = &event.event
        else {
            continue;
        };
        let before = last.insert(activity_id, *attempt).unwrap_or_default();
        findings.expect(
            *attempt == 1 || *attempt > before,
            run.run.id,
            format!("activity {activity_id}: attempt {attempt} follows attempt {before}"),
        );
    }
}
