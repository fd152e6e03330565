//! Activities run no more often than they must.

use std::collections::BTreeMap;

use durable_core::WorkflowEvent;
use everruns_durable::persistence::model::RunDump;

use super::Scene;
use crate::sim::weather::Climate;

pub(super) fn check(scene: &Scene<'_>) {
    for execution in &scene.executions {
        if execution.attempt > execution.max_attempts {
            scene.world.violated(format!(
                "attempt {} of {} (run {}), {} are allowed",
                execution.attempt, execution.activity_id, execution.run_id, execution.max_attempts
            ));
        }
    }
    for run in scene.dump.runs.iter().filter(|run| scene.is_straight(run)) {
        for (activity_id, attempts) in ended(run) {
            let all = scene
                .executions
                .iter()
                .filter(|execution| execution.run_id == run.run.id)
                .filter(|execution| execution.activity_id == activity_id);
            let executions = all.clone().count();
            // An attempt whose claim's answer was lost may time out before anybody has begun it.
            if scene.world.climate == Climate::Calm && executions < attempts {
                scene.violated(
                    run,
                    format!("{activity_id}: {attempts} attempts, only {executions} executions"),
                );
            }
            // Where no lease was lost, every execution is an attempt.
            let steady = scene.world.climate.is_steady();
            let lost = |execution| scene.world.ledger.was_taken_back(execution);
            if steady && executions > attempts && !all.clone().any(lost) {
                scene.violated(
                    run,
                    format!("{activity_id}: {attempts} attempts and {executions} executions"),
                );
            }
        }
    }
}

/// Activities all of whose instances (one an iteration) have ended by an answer, with their attempts together.
fn ended(run: &RunDump) -> BTreeMap<&str, usize> {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut attempts: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &run.events {
        match &event.event {
            WorkflowEvent::ActivityScheduled { activity_id, .. } => {
                *open.entry(activity_id).or_default() += 1;
            }
            WorkflowEvent::ActivityStarted { activity_id, .. } => {
                *attempts.entry(activity_id).or_default() += 1;
            }
            WorkflowEvent::ActivityCompleted { activity_id, .. }
            | WorkflowEvent::ActivityFailed {
                activity_id,
                will_retry: false,
                ..
            } => {
                if let Some(open) = open.get_mut(activity_id.as_str()) {
                    *open = open.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
    attempts.retain(|activity_id, _| open.get(activity_id) == Some(&0));
    attempts
}
