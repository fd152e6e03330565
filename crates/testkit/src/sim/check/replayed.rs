//! Every history, iteration by iteration, replays strictly to the state that is stored.

use std::sync::Arc;

use durable_core::function::{Birth, RunInfo};
use durable_core::{
    HistoryState, NumberedEvent, Program, ReplayMode, Replayer, RunIdentity, WorkflowEvent,
    effective_history,
};
use everruns_durable::persistence::model::{RunDump, RunRecord};
use everruns_durable::workflow::WorkflowDefinition;

use super::Scene;
use crate::engine_suite::Scripted;
use crate::sim::plan::planned;
use crate::sim::tally::Happening;

pub(super) fn check(scene: &Scene<'_>) {
    for run in &scene.dump.runs {
        // Ended from outside before its first turn: there is nothing to replay. Questions to runs are runs of the engine's own.
        if run.run.last_turn.is_none() || run.run.workflow_type.starts_with("durable.") {
            continue;
        }
        for (iteration, events) in (0..).zip(iterations(run)) {
            match replay(run, iteration, events) {
                Ok(()) => scene.world.count(Happening::Replayed, 1),
                Err(problem) => {
                    scene.violated(
                        run,
                        format!("iteration {iteration} does not replay: {problem}"),
                    );
                }
            }
        }
    }
}

/// The log, cut behind every continuation.
fn iterations(run: &RunDump) -> Vec<Vec<NumberedEvent>> {
    let mut all = vec![Vec::new()];
    for event in &run.events {
        let numbered = (event.sequence_num, event.event.clone());
        let current = all.last_mut().expect("there is always one");
        current.push(numbered);
        if matches!(event.event, WorkflowEvent::WorkflowContinuedAsNew { .. }) {
            all.push(Vec::new());
        }
    }
    all
}

fn replay(run: &RunDump, iteration: u32, mut log: Vec<NumberedEvent>) -> Result<(), String> {
    let before = log.first().map_or(0, |(number, _)| number - 1);
    // What counts of a log is its last iteration: what comes after this one's end does not count here.
    let is_continued = |(_, event): &mut NumberedEvent| {
        matches!(event, WorkflowEvent::WorkflowContinuedAsNew { .. })
    };
    let continued = log.pop_if(is_continued);
    let events = effective_history(log).map_err(|problem| problem.to_string())?;
    let mut events = events.events;
    events.extend(continued);
    let ends = events.last().is_some_and(|(_, event)| {
        event.is_terminal() || matches!(event, WorkflowEvent::WorkflowContinuedAsNew { .. })
    });
    if !ends {
        return Err("it has no end".to_owned());
    }
    // Ended from outside before the first turn of the iteration.
    if !matches!(
        events.first(),
        Some((_, WorkflowEvent::WorkflowStarted { .. }))
    ) {
        return Ok(());
    }
    let identity = RunIdentity {
        run_id: run.run.id,
        epoch: run.run.epoch,
        iteration,
    };
    let program = program(&run.run, iteration);
    let mut replayer = Replayer::new(identity, program, ReplayMode::Strict);
    let mut state = HistoryState::after(before);
    for (number, event) in events {
        state
            .accept(number, &event)
            .map_err(|problem| problem.to_string())?;
        replayer
            .push(number, event)
            .map_err(|problem| problem.to_string())?;
    }
    replayer.finish().map_err(|problem| problem.to_string())?;
    Ok(())
}

/// Its code, born anew.
fn program(run: &RunRecord, iteration: u32) -> Box<dyn Program> {
    let created = run.created_at;
    let birth = Birth {
        info: RunInfo {
            run_id: run.id,
            workflow_type: run.workflow_type.clone(),
            version: run.version.clone(),
            parent_run_id: run.parent.as_ref().map(|parent| parent.run_id),
            attempt: run.epoch + 1,
            iteration,
            workflow_id: run.business_id.clone(),
            memo: run.memo.clone(),
        },
        clock: Arc::new(move || created),
    };
    if run.workflow_type == <Scripted as WorkflowDefinition>::TYPE {
        <Scripted as WorkflowDefinition>::program(birth)
    } else {
        planned::program(birth)
    }
}
