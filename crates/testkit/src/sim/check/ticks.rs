//! I6: the ticks that fired are those that had to, each once; a trigger beside them is never lost, and each try starts at most one run.

use std::collections::BTreeMap;

use durable_core::Timestamp;
use everruns_durable::persistence::model::{OverlapPolicy, RunDump, WorkflowStatus};

use super::Scene;
use crate::sim::tally::Happening;
use crate::sim::timetable::{ID, TickMemo, Triggered};
use crate::sim::weather::Climate;

pub(super) fn check(scene: &Scene<'_>) {
    let Some(timetable) = scene.timetable else {
        return;
    };
    let mut triggered = Vec::new();
    let mut fired: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for run in &scene.dump.runs {
        let Some(memo) = TickMemo::of(&run.run.memo).filter(|memo| memo.schedule_id == ID) else {
            continue;
        };
        // One that was triggered in the very instant of a tick looks like it: then there are two, and no more than were tried.
        let beside = fired.contains_key(&memo.scheduled_at) && timetable.triggered.tries > 0;
        let told = timetable.triggered.runs.contains(&run.run.id);
        if !is_whole_minute(memo.scheduled_at) || told || beside {
            triggered.push(run);
            continue;
        }
        *fired.entry(memo.scheduled_at).or_default() += 1;
        let stopped = matches!(
            timetable.overlap,
            OverlapPolicy::Replace | OverlapPolicy::Terminate
        );
        if run.run.status != WorkflowStatus::Completed && !stopped {
            scene.violated(run, format!("a tick's run ended as {}", run.run.status));
        }
    }
    check_triggered(scene, &timetable.triggered, &triggered);
    scene.world.count(Happening::TickFired, fired.len());
    for (tick, runs) in &fired {
        if *runs != 1 || !timetable.ticks.contains(tick) {
            scene.world.violated(format!(
                "the tick of {tick} has {runs} runs, of {timetable:?}"
            ));
        }
    }
    // Elsewhere a run may take so long that the next tick is skipped.
    let sure = timetable.overlap == OverlapPolicy::Allow || scene.world.climate == Climate::Calm;
    for tick in timetable.ticks.iter().filter(|_| sure) {
        if !fired.contains_key(tick) {
            scene
                .world
                .violated(format!("the tick of {tick} never fired, of {timetable:?}"));
        }
    }
}

/// Ticks are; whoever triggers the schedule does so at any time.
fn is_whole_minute(at: Timestamp) -> bool {
    at.as_microsecond() % 60_000_000 == 0
}

fn check_triggered(scene: &Scene<'_>, triggered: &Triggered, found: &[&RunDump]) {
    if found.len() > triggered.tries {
        let found = found.len();
        scene
            .world
            .violated(format!("{found} runs were triggered, by {triggered:?}"));
    }
    for run_id in &triggered.runs {
        if !found.iter().any(|run| run.run.id == *run_id) {
            scene
                .world
                .violated(format!("run {run_id} was triggered and is not there"));
        }
    }
    // The overlap policy is about ticks: nobody stops what was triggered.
    for run in found {
        if run.run.status != WorkflowStatus::Completed {
            scene.violated(run, format!("a triggered run ended as {}", run.run.status));
        }
    }
}
