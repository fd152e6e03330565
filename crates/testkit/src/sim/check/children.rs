//! Every run that another one started comes to what was foretold of it, unless it was asked to stop.

use std::collections::BTreeMap;

use everruns_durable::persistence::model::{RunDump, WorkflowStatus};
use serde::Deserialize;
use serde_json::Value;

use super::Scene;
use super::outcome::is_terminated;
use crate::sim::oracle::End;
use crate::sim::program::{Foretold, Tie};

/// As much of a plan as is needed to know it.
#[derive(Deserialize)]
struct Numbered {
    number: u32,
}

pub(super) fn check(scene: &Scene<'_>) {
    let foretold = scene
        .told
        .iter()
        .flat_map(|told| &told.plan.program.children);
    let foretold: BTreeMap<u32, &Foretold> = foretold.map(|child| (child.number, child)).collect();
    for run in scene
        .dump
        .runs
        .iter()
        .filter(|run| run.run.parent.is_some())
    {
        let Ok(Numbered { number }) = run.run.input.to_value() else {
            // A script's: its parent's result tells.
            continue;
        };
        let problem = match foretold.get(&number) {
            // A reset stops what was started since, and starts it again.
            Some(_) if was_reset(scene, run) && run.run.status == WorkflowStatus::Cancelled => None,
            Some(child) => differs(child, run),
            None => Some(format!("nobody planned child {number}")),
        };
        if let Some(problem) = problem {
            scene.violated(run, problem);
        }
    }
}

fn was_reset(scene: &Scene<'_>, run: &RunDump) -> bool {
    let parent = run.run.parent.as_ref();
    let parent = parent.and_then(|parent| scene.run(parent.run_id));
    parent.is_some_and(|parent| parent.run.epoch > 0)
}

fn differs(child: &Foretold, run: &RunDump) -> Option<String> {
    let expected = &child.expected;
    match (run.run.status, &expected.end) {
        (WorkflowStatus::Completed, End::Completed) => match run.run.result.to_value::<Value>() {
            Ok(result) => expected.differs(&result),
            Err(error) => Some(format!("its result cannot be read: {error}")),
        },
        (WorkflowStatus::Completed, End::Failed { error_type, .. }) => Some(format!(
            "it completed and should have failed with {error_type}"
        )),
        (WorkflowStatus::Failed, _) if is_terminated(run) => {
            (child.tie == Tie::Abandoned).then(|| "it was on its own and was terminated".to_owned())
        }
        (WorkflowStatus::Failed, End::Failed { error_type, .. }) => {
            let error = run.run.error.as_ref();
            let fits = error.is_some_and(|error| error.error_type == *error_type);
            (!fits).then(|| format!("it failed with {error:?} instead of {error_type}"))
        }
        (WorkflowStatus::Failed, End::Completed) => {
            Some(format!("it failed with {:?}", run.run.error))
        }
        (WorkflowStatus::Cancelled, _) => {
            (child.tie == Tie::Abandoned).then(|| "it was on its own and was cancelled".to_owned())
        }
        (WorkflowStatus::Pending | WorkflowStatus::Running, _) => {
            Some("it has not ended".to_owned())
        }
    }
}
