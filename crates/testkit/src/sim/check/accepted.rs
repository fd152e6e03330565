//! Whose answers were accepted: each accepted one is told by the log line that was stored with it.

use std::collections::BTreeMap;

use durable_core::WorkflowEvent;
use everruns_durable::persistence::model::{RunDump, WorkflowStatus};

use super::Scene;
use crate::sim::ledger::Execution;

/// Attempts of one activity by number.
type Attempt<'a> = (&'a str, u32);

pub(super) fn check(scene: &Scene<'_>) {
    for run in scene.dump.runs.iter().filter(|run| scene.is_straight(run)) {
        each_has_one(scene, run);
        none_overlap_in_line(scene, run);
    }
}

/// An activity that completed has one execution whose answer was accepted.
fn each_has_one(scene: &Scene<'_>, run: &RunDump) {
    let mut completed: BTreeMap<Attempt<'_>, usize> = BTreeMap::new();
    let mut started: BTreeMap<Attempt<'_>, usize> = BTreeMap::new();
    let mut attempts: BTreeMap<&str, u32> = BTreeMap::new();
    for event in &run.events {
        match &event.event {
            WorkflowEvent::ActivityScheduled { activity_id, .. } => {
                attempts.insert(activity_id, 0);
            }
            WorkflowEvent::ActivityStarted {
                activity_id,
                attempt,
                ..
            } => {
                *started.entry((activity_id, *attempt)).or_default() += 1;
                let before = attempts.insert(activity_id, *attempt).unwrap_or(0);
                if *attempt != before + 1 {
                    scene.violated(
                        run,
                        format!("attempt {attempt} of {activity_id} follows {before}"),
                    );
                }
            }
            // Its answer may have been stored, and have waited when it was given up.
            WorkflowEvent::ActivityCancelled { activity_id, .. } => {
                let attempt = attempts.get(activity_id.as_str()).copied().unwrap_or(0);
                *started.entry((activity_id, attempt + 1)).or_default() += 1;
            }
            WorkflowEvent::ActivityCompleted { activity_id, .. } => {
                let attempt = attempts.get(activity_id.as_str()).copied().unwrap_or(0);
                *completed.entry((activity_id, attempt)).or_default() += 1;
            }
            _ => {}
        }
    }
    let mut logged: BTreeMap<Attempt<'_>, usize> = BTreeMap::new();
    for log in &run.step_logs {
        *logged.entry((&log.activity_id, log.attempt)).or_default() += 1;
    }
    let undisturbed = run.run.status == WorkflowStatus::Completed;
    for ((activity_id, attempt), times) in completed {
        let accepted = logged.get(&(activity_id, attempt)).copied().unwrap_or(0);
        // A failed attempt of the same number, in another iteration, has a line too.
        let most = started.get(&(activity_id, attempt)).copied().unwrap_or(0);
        if accepted < times || (undisturbed && accepted > most) {
            scene.violated(
                run,
                format!("{activity_id} completed {times} times at attempt {attempt}, {accepted} answers were accepted"),
            );
        }
    }
}

/// Of the accepted executions in a run's line, none began before the one ahead had ended.
fn none_overlap_in_line(scene: &Scene<'_>, run: &RunDump) {
    let mut in_line: Vec<&Execution> = run
        .step_logs
        .iter()
        .filter_map(|log| scene.executions.get(log.message.parse::<usize>().ok()?))
        .filter(|execution| is_sequential(run, &execution.activity_id))
        .collect();
    in_line.sort_by_key(|execution| (execution.began_ms, execution.ended_ms));
    for pair in in_line.windows(2) {
        let ended = pair[0].ended_ms.unwrap_or(u64::MAX);
        if ended > pair[1].began_ms {
            scene.violated(
                run,
                format!(
                    "{} and {} are in line and ran at once",
                    pair[0].activity_id, pair[1].activity_id
                ),
            );
        }
    }
}

fn is_sequential(run: &RunDump, id: &str) -> bool {
    // The same id may be used again by the next iteration, in another way: then nothing is claimed about it.
    let mut scheduled = run.events.iter().filter_map(|event| match &event.event {
        WorkflowEvent::ActivityScheduled {
            activity_id,
            options,
            ..
        } if activity_id == id => Some(options.sequential),
        _ => None,
    });
    scheduled.all(|sequential| sequential)
}
