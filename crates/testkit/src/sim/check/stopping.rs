//! Activities that were given up, or taken over by another node, are told in time.

use std::time::Duration;

use durable_core::WorkflowEvent;

use super::Scene;
use crate::sim::activities::PATIENT;
use crate::sim::ledger::Execution;
use crate::sim::node::RENEWAL;
use crate::sim::weather::Climate;
use crate::sim::world::millis_of;

/// A renewal, its delays, and the one before it that was under way.
const IN_TIME: Duration = RENEWAL.saturating_mul(6);
/// A call that was held in the storm comes back this long after it at the latest.
const ECHO_OF_THE_STORM: Duration = Duration::from_secs(9);

pub(super) fn check(scene: &Scene<'_>) {
    let patient = scene
        .executions
        .iter()
        .filter(|one| one.activity_type == PATIENT);
    for execution in patient {
        let Some(given_up_ms) = given_up(scene, execution) else {
            continue;
        };
        let world = scene.world;
        let quiet_ms = match world.climate {
            Climate::Calm => 0,
            _ => world.calm_since_ms() + millis(ECHO_OF_THE_STORM),
        };
        let until = given_up_ms.max(quiet_ms) + millis(IN_TIME);
        let ended = execution.ended_ms.unwrap_or(u64::MAX);
        if until < world.millis() && ended > until {
            world.violated(format!(
                "{} of run {} on {} was given up at {given_up_ms} ms and not told until {until} ms",
                execution.activity_id, execution.run_id, execution.node
            ));
        }
    }
}

/// When an execution lost its purpose: the run gave the activity up or ended, or somebody else began to execute it.
fn given_up(scene: &Scene<'_>, execution: &Execution) -> Option<u64> {
    let run = scene.run(execution.run_id)?;
    let by_its_run = run.events.iter().filter(|event| {
        event.event.is_terminal()
            || matches!(&event.event, WorkflowEvent::ActivityCancelled { activity_id, .. }
                if *activity_id == execution.activity_id)
    });
    let by_its_run = by_its_run.map(|event| millis_of(event.created_at));
    let by_others = scene.executions.iter().filter(|other| {
        other.run_id == execution.run_id && other.activity_id == execution.activity_id
    });
    // One that is told to stop at once began with a lease that was lost before: that one took nothing over.
    let took_over = by_others.filter(|other| {
        let ended = other.ended_ms.unwrap_or(u64::MAX);
        ended > other.began_ms + millis(IN_TIME)
    });
    let by_others = took_over.map(|other| other.began_ms);
    // What happened in the very millisecond in which it began may have been about another of the same name, of the iteration before.
    let later = by_its_run.chain(by_others);
    later.filter(|at| *at > execution.began_ms).min()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
