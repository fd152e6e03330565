//! A limited activity is not begun more often than its limit allows, by all nodes together.

use super::Scene;
use crate::sim::activities::LIMITED;
use crate::sim::weather::Climate;

/// The limit's permits a second, and its burst.
const PER_SECOND: u64 = 5;
const BURST: u64 = 2;
/// A permit is used this long after it was given at the latest, where nothing goes wrong.
const SLACK_MS: u64 = 500;

pub(super) fn check(scene: &Scene<'_>) {
    // Elsewhere a permit may be given and be used much later.
    if scene.world.climate != Climate::Calm {
        return;
    }
    let limited = scene
        .executions
        .iter()
        .filter(|execution| execution.activity_type == LIMITED);
    let mut began: Vec<u64> = limited.map(|execution| execution.began_ms).collect();
    began.sort_unstable();
    for (first, from) in began.iter().enumerate() {
        for (number, until) in began.iter().enumerate().skip(first) {
            let count = u64::try_from(number - first + 1).unwrap_or(u64::MAX);
            let allowed = BURST + 1 + (until - from + SLACK_MS) * PER_SECOND / 1000;
            if count > allowed {
                scene.world.violated(format!(
                    "{count} limited activities began from {from} ms to {until} ms, {allowed} may"
                ));
                return;
            }
        }
    }
}
