//! Every history, iteration by iteration, replays strictly to the state that is stored.

use durable_core::{
    HistoryState, NumberedEvent, ReplayMode, Replayer, RunIdentity, TraitProgram, WorkflowEvent,
};
use everruns_durable::persistence::model::RunDump;

use super::Scene;
use crate::engine_suite::Scripted;
use crate::sim::tally::Happening;

pub(super) fn check(scene: &Scene<'_>) {
    for run in &scene.dump.runs {
        // Ended from outside before its first turn: there is nothing to replay.
        if run.run.last_turn.is_none() {
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

fn replay(run: &RunDump, iteration: u32, events: Vec<NumberedEvent>) -> Result<(), String> {
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
    let program = Box::new(TraitProgram::<Scripted>::new());
    let mut replayer = Replayer::new(identity, program, ReplayMode::Strict);
    let mut state = HistoryState::after(events.first().map_or(0, |(number, _)| number - 1));
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
