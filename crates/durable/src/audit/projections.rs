//! I12: what is stored beside the events agrees with them.

use std::collections::{BTreeMap, BTreeSet};

use crate::persistence::model::{
    DeadLetterState, Dump, RollupKind, RollupOutcome, RunDump, WorkflowStatus,
};
use durable_core::WorkflowEvent;
use uuid::Uuid;

use super::Findings;

pub(super) fn check_rows(dump: &Dump, findings: &mut Findings) {
    let parents: BTreeSet<Uuid> = dump
        .runs
        .iter()
        .filter_map(|run| Some(run.run.parent.as_ref()?.run_id))
        .collect();
    for run in &dump.runs {
        ends_alike(run, findings);
        attributes_are_the_last_ones_set(run, findings);
        findings.expect(
            run.run.has_children || !parents.contains(&run.run.id),
            run.run.id,
            "it has a child and does not know of any",
        );
        for message in &run.messages {
            findings.expect(
                message.sequence_num <= run.run.sequence,
                run.run.id,
                "it sent a message that its history does not reach",
            );
        }
    }
}

fn ends_alike(run: &RunDump, findings: &mut Findings) {
    let r = &run.run;
    let alike = match run.events.last().map(|event| &event.event) {
        Some(WorkflowEvent::WorkflowCompleted { result }) => r.result == *result,
        Some(WorkflowEvent::WorkflowFailed { error }) => r.error.as_ref() == Some(&**error),
        _ => true,
    };
    findings.expect(alike, r.id, "its result is not its last event's");
}

fn attributes_are_the_last_ones_set(run: &RunDump, findings: &mut Findings) {
    let mut set = BTreeMap::new();
    for event in &run.events {
        if let WorkflowEvent::SearchAttributesUpserted { attributes } = &event.event {
            set.extend(attributes);
        }
    }
    for (name, value) in set {
        findings.expect(
            run.attributes.get(name) == value.as_ref(),
            run.run.id,
            format!("search attribute {name} is not what the history set last"),
        );
    }
}

/// How often each outcome of a type was counted.
fn counted(dump: &Dump, kind: RollupKind) -> BTreeMap<(&str, RollupOutcome), i64> {
    let mut counts = BTreeMap::new();
    for row in dump.rollups.iter().filter(|row| row.kind == kind) {
        *counts.entry((row.name.as_str(), row.outcome)).or_default() += row.count;
    }
    counts
}

/// Totals outlive runs, so there are at least as many as there are runs that ended.
pub(super) fn check_counts(dump: &Dump, findings: &mut Findings) {
    let counted = counted(dump, RollupKind::Workflow);
    let mut ended: BTreeMap<(&str, RollupOutcome), i64> = BTreeMap::new();
    for run in &dump.runs {
        let outcome = match run.run.status {
            WorkflowStatus::Completed => RollupOutcome::Completed,
            WorkflowStatus::Failed => RollupOutcome::Failed,
            WorkflowStatus::Cancelled => RollupOutcome::Cancelled,
            WorkflowStatus::Pending | WorkflowStatus::Running => continue,
        };
        *ended
            .entry((run.run.workflow_type.as_str(), outcome))
            .or_default() += 1;
    }
    at_least(&ended, &counted, "runs", findings);
}

/// Activities that completed are in the totals, but for those that an operator completed.
pub(super) fn check_totals(dump: &Dump, findings: &mut Findings) {
    let mut counted = counted(dump, RollupKind::Activity);
    for letter in &dump.dead_letters {
        if letter.state == DeadLetterState::Completed {
            let key = (letter.activity_type.as_str(), RollupOutcome::Completed);
            *counted.entry(key).or_default() += 1;
        }
    }
    let mut completed: BTreeMap<(&str, RollupOutcome), i64> = BTreeMap::new();
    for run in &dump.runs {
        let mut types: BTreeMap<&str, &str> = BTreeMap::new();
        for event in &run.events {
            match &event.event {
                WorkflowEvent::ActivityScheduled {
                    activity_id,
                    activity_type,
                    ..
                } => {
                    types.insert(activity_id, activity_type);
                }
                WorkflowEvent::ActivityCompleted { activity_id, .. } => {
                    if let Some(name) = types.get(activity_id.as_str()) {
                        let key = (*name, RollupOutcome::Completed);
                        *completed.entry(key).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }
    at_least(&completed, &counted, "activities", findings);
}

fn at_least(
    found: &BTreeMap<(&str, RollupOutcome), i64>,
    counted: &BTreeMap<(&str, RollupOutcome), i64>,
    what: &str,
    findings: &mut Findings,
) {
    for ((name, outcome), count) in found {
        let total = counted.get(&(*name, *outcome)).copied().unwrap_or_default();
        findings.expect(
            total >= *count,
            None,
            format!(
                "{count} {what} of type {name} are {}, the totals say {total}",
                outcome.as_str()
            ),
        );
    }
}
