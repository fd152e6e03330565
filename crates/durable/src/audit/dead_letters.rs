//! I8: a dead task has one dead letter.

use std::collections::{BTreeMap, BTreeSet};

use crate::persistence::model::{DeadLetter, DeadLetterState, Dump, TaskRecord, TaskStatus};
use durable_core::WorkflowEvent;
use uuid::Uuid;

use super::Findings;

pub(super) fn check_rows(dump: &Dump, findings: &mut Findings) {
    let mut letters: BTreeMap<(Uuid, Uuid), Vec<&DeadLetter>> = BTreeMap::new();
    for letter in &dump.dead_letters {
        letters
            .entry((letter.run_id, letter.id))
            .or_default()
            .push(letter);
    }
    for ((run, id), letters) in &letters {
        findings.expect(
            letters.len() == 1,
            *run,
            format!("{} dead letters have the id {id}", letters.len()),
        );
    }
    let runs: BTreeSet<Uuid> = dump.runs.iter().map(|run| run.run.id).collect();
    for letter in &dump.dead_letters {
        findings.expect(
            runs.contains(&letter.run_id),
            letter.run_id,
            format!("dead letter {} belongs to no run", letter.id),
        );
    }
    for task in dump.runs.iter().flat_map(|run| &run.tasks) {
        if task.status == TaskStatus::Dead {
            let letter = letters.get(&(task.run_id, task.id)).and_then(|l| l.first());
            findings.expect(
                letter.is_some_and(|letter| is_of(letter, task)),
                task.run_id,
                format!("task {} is dead and has no dead letter that waits", task.id),
            );
        }
    }
}

fn is_of(letter: &DeadLetter, task: &TaskRecord) -> bool {
    letter.parked
        && letter.state == DeadLetterState::Dead
        && letter.activity_id == task.activity_id
        && letter.activity_type == task.activity_type
}

/// A failure that its run has not even seen yet still has its letter.
pub(super) fn check_facts(dump: &Dump, findings: &mut Findings) {
    let letters: BTreeSet<(Uuid, &str)> = dump
        .dead_letters
        .iter()
        .map(|letter| (letter.run_id, letter.activity_id.as_str()))
        .collect();
    for run in &dump.runs {
        for fact in &run.facts {
            let (WorkflowEvent::ActivityFailed { activity_id, .. }
            | WorkflowEvent::ActivityTimedOut { activity_id, .. }) = &fact.event
            else {
                continue;
            };
            findings.expect(
                letters.contains(&(run.run.id, activity_id.as_str())),
                run.run.id,
                format!("activity {activity_id} failed for good and has no dead letter"),
            );
        }
    }
}
