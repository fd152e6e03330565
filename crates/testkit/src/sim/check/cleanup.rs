//! A run that was asked to stop has cleaned up before it ended.

use durable_core::{WorkflowEvent, signal_types};
use everruns_durable::persistence::model::{RunDump, WorkflowStatus};

use super::Scene;
use crate::sim::interference::Interference;
use crate::sim::plan::{Deed, Plan};
use crate::sim::program::Code;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let (Some(run), Code::Plan(plan)) = (scene.run(told.run.id), &told.plan.program.code)
        else {
            continue;
        };
        let asked = told.plan.interference == Interference::Cancel
            && run.run.status == WorkflowStatus::Cancelled
            && run.run.epoch == 0;
        let Some(plan) = nth(plan, run.run.iteration).filter(|_| asked) else {
            continue;
        };
        let tidies = |deed: &&Deed| matches!(deed, Deed::Activity { .. });
        let expected = plan.cleanup.iter().filter(tidies).count();
        let found = tidied(run);
        if took_it(run) && found != expected {
            scene.violated(
                run,
                format!("it cleaned up {found} times instead of {expected}"),
            );
        }
    }
}

/// The plan of an iteration.
fn nth(plan: &Plan, iteration: u32) -> Option<&Plan> {
    if iteration == 0 {
        return Some(plan);
    }
    plan.deeds.iter().find_map(|deed| match deed {
        Deed::ContinueAsNew { plan } => nth(plan, iteration - 1),
        _ => None,
    })
}

fn took_it(run: &RunDump) -> bool {
    run.events.iter().any(|event| {
        matches!(&event.event, WorkflowEvent::SignalReceived { signal, unread: false }
            if signal.signal_type == signal_types::CANCEL)
    })
}

fn tidied(run: &RunDump) -> usize {
    let tidies = run.events.iter().filter_map(|event| match &event.event {
        WorkflowEvent::ActivityScheduled {
            activity_id,
            activity_type,
            ..
        } if activity_type == "tidy" => Some(activity_id),
        _ => None,
    });
    let completed = |id: &String| {
        run.events.iter().any(|event| {
            matches!(&event.event, WorkflowEvent::ActivityCompleted { activity_id, .. }
                if activity_id == id)
        })
    };
    tidies.filter(|id| completed(id)).count()
}
