//! I6: the ticks that fired are those that had to, each once.

use std::collections::BTreeMap;

use durable_core::Timestamp;
use everruns_durable::persistence::model::{OverlapPolicy, WorkflowStatus};

use super::Scene;
use crate::sim::tally::Happening;
use crate::sim::timetable::{ID, TickMemo};
use crate::sim::weather::Climate;

pub(super) fn check(scene: &Scene<'_>) {
    let Some(timetable) = scene.timetable else {
        return;
    };
    let mut fired: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for run in &scene.dump.runs {
        let Some(memo) = TickMemo::of(&run.run.memo).filter(|memo| memo.schedule_id == ID) else {
            continue;
        };
        *fired.entry(memo.scheduled_at).or_default() += 1;
        let stopped = matches!(
            timetable.overlap,
            OverlapPolicy::Replace | OverlapPolicy::Terminate
        );
        if run.run.status != WorkflowStatus::Completed && !stopped {
            scene.violated(run, format!("a tick's run ended as {}", run.run.status));
        }
    }
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
