//! Every run ends as the oracle says, and as its client was told.

use durable_core::{WorkflowEvent, error_types, signal_types};
use everruns_durable::persistence::model::{RunDump, WorkflowStatus};
use serde_json::Value;

use super::Scene;
use crate::sim::client::Told;
use crate::sim::interference::Interference;
use crate::sim::oracle::End;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let Some(stored) = scene.run(told.run.id) else {
            scene
                .world
                .violated(format!("{} was acknowledged and is gone", told.plan.key));
            continue;
        };
        if stored.run.status != told.run.status || stored.run.result != told.run.result {
            let (was, is) = (told.run.status, stored.run.status);
            scene.violated(stored, format!("it had ended as {was} and is {is} now"));
        }
        if let Some(problem) = wrong_end(told, stored) {
            scene.violated(stored, problem);
        }
    }
}

fn wrong_end(told: &Told, stored: &RunDump) -> Option<String> {
    let interference = told.plan.interference;
    if interference == Interference::Terminate && told.interfered.accepted {
        return (!is_terminated(stored)).then(|| {
            format!(
                "its termination was acknowledged and it ended as {}",
                stored.run.status
            )
        });
    }
    if must_be_cancelled(told, stored) && stored.run.status != WorkflowStatus::Cancelled {
        return Some(format!(
            "it took a request to stop and ended as {}",
            stored.run.status
        ));
    }
    match stored.run.status {
        WorkflowStatus::Completed => wrong_result(told, stored),
        WorkflowStatus::Failed if is_terminated(stored) => {
            (interference != Interference::Terminate).then(|| "nobody terminated it".to_owned())
        }
        WorkflowStatus::Failed => wrong_failure(told, stored),
        WorkflowStatus::Cancelled => {
            let asked = matches!(interference, Interference::Cancel | Interference::ShutDown);
            (!asked).then(|| "nobody cancelled it".to_owned())
        }
        WorkflowStatus::Pending | WorkflowStatus::Running => Some("it has not ended".to_owned()),
    }
}

fn wrong_result(told: &Told, stored: &RunDump) -> Option<String> {
    let expected = &told.plan.program.expected;
    if let End::Failed { error_type, .. } = &expected.end {
        return Some(format!(
            "it completed and should have failed with {error_type}"
        ));
    }
    match stored.run.result.to_value::<Value>() {
        // Its children were asked to stop with it, and may have heeded that where it did not.
        Ok(_) if told.interfered.accepted && expected.has_children() => None,
        Ok(result) => expected.differs(&result),
        Err(error) => Some(format!("its result cannot be read: {error}")),
    }
}

fn wrong_failure(told: &Told, stored: &RunDump) -> Option<String> {
    let Some(error) = &stored.run.error else {
        return Some("it failed without an error".to_owned());
    };
    match &told.plan.program.expected.end {
        End::Failed { error_type, .. } if *error_type == error.error_type => None,
        End::Failed { error_type, .. } => Some(format!(
            "it failed with {error} and should have failed with {error_type}"
        )),
        End::Completed => Some(format!("it failed with {error} and should have completed")),
    }
}

pub(super) fn is_terminated(stored: &RunDump) -> bool {
    let error = stored.run.error.as_ref();
    error.is_some_and(|error| error.error_type == error_types::WORKFLOW_TERMINATED)
}

/// Whether the program took a request to stop that it heeds, with nothing in it that could fail first.
fn must_be_cancelled(told: &Told, stored: &RunDump) -> bool {
    let program = &told.plan.program;
    let plain = program.expected.end == End::Completed
        && stored.run.iteration == 0
        && stored.run.epoch == 0;
    plain
        && program.heeds_cancel()
        && told.plan.interference == Interference::Cancel
        && stored.events.iter().any(|event| {
            matches!(&event.event, WorkflowEvent::SignalReceived { signal, unread: false }
                if signal.signal_type == signal_types::CANCEL)
        })
}
