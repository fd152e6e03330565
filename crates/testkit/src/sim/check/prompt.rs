//! Where nothing goes wrong, whoever waits for a run is told of its end at once.

use std::time::Duration;

use super::Scene;
use crate::sim::weather::Climate;
use crate::sim::world::millis_of;

/// A ring, its delay, and a look at the store: far less than the pause between two looks without a ring.
const AT_ONCE: Duration = Duration::from_secs(3);

pub(super) fn check(scene: &Scene<'_>) {
    if scene.world.climate != Climate::Calm {
        return;
    }
    for told in scene.told {
        let (Some(run), Some(ended)) = (scene.run(told.run.id), told.run.completed_at) else {
            continue;
        };
        let (from_ms, told_ms) = told.waited_ms;
        let ended_ms = millis_of(ended).max(from_ms);
        let most = u64::try_from(AT_ONCE.as_millis()).unwrap_or(u64::MAX);
        if told_ms > ended_ms + most {
            scene.violated(
                run,
                format!("it ended at {ended_ms} ms, and who waited was told at {told_ms} ms"),
            );
        }
    }
}
