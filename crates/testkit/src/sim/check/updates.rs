//! Every update is answered as it must be, applied once, and leaves no trace if it was refused.

use durable_core::WorkflowEvent;
use everruns_durable::persistence::model::{RunDump, WorkflowStatus};

use super::Scene;
use crate::sim::client::Told;
use crate::sim::requests::{Replied, Reply};

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let Some(run) = scene.run(told.run.id) else {
            continue;
        };
        for replied in &told.updates {
            if let Some(problem) = differs(told, run, replied) {
                scene.violated(run, format!("update {}: {problem}", replied.update.id));
            }
        }
    }
}

fn differs(told: &Told, run: &RunDump, replied: &Replied) -> Option<String> {
    let update = &replied.update;
    let accepted = count(
        run,
        |event| matches!(event, WorkflowEvent::UpdateAccepted { update_id, .. } if *update_id == update.id),
    );
    let completed = count(
        run,
        |event| matches!(event, WorkflowEvent::UpdateCompleted { update_id, .. } if *update_id == update.id),
    );
    if accepted > 1 || completed > 1 {
        return Some(format!(
            "taken {accepted} times and answered {completed} times"
        ));
    }
    if update.input < 0 {
        return refused(replied, accepted);
    }
    match &replied.reply {
        Reply::Answered(answer) if *answer != update.input * 2 => {
            Some(format!("{} was answered with {answer}", update.input))
        }
        Reply::Answered(_) if completed != 1 => Some("answered, and not in the history".to_owned()),
        Reply::Answered(_) => None,
        // A run that completes has waited for all of them.
        reply if told.run.status == WorkflowStatus::Completed => Some(format!(
            "the run completed with it, and its client was told {reply:?}"
        )),
        Reply::Failed(_) if completed == 1 => Some("answered, and called failed".to_owned()),
        Reply::Failed(_) | Reply::Late => None,
    }
}

fn refused(replied: &Replied, accepted: usize) -> Option<String> {
    if accepted > 0 {
        return Some("refused by its check and taken all the same".to_owned());
    }
    match &replied.reply {
        Reply::Answered(answer) => Some(format!(
            "its check refuses it, and it was answered {answer}"
        )),
        Reply::Failed(_) | Reply::Late => None,
    }
}

fn count(run: &RunDump, is_so: impl Fn(&WorkflowEvent) -> bool) -> usize {
    run.events
        .iter()
        .filter(|event| is_so(&event.event))
        .count()
}
