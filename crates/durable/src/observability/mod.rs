//! What dashboards and listeners see of an engine.

pub mod listener;

use std::collections::VecDeque;

use durable_core::Timestamp;
use parking_lot::Mutex;

pub use listener::{Lifecycle, LifecycleEvent};
pub(crate) use listener::{Listener, Listeners};

use crate::persistence::model::{StoreCounts, WorkerBeat};

/// Samples kept: an hour of one every ten seconds.
pub const POINTS_MAX: usize = 360;

/// Where the store and this process stood at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsPoint {
    /// When, by this process's clock.
    pub at: Timestamp,
    /// What the store held.
    pub counts: StoreCounts,
    /// What this process's worker did.
    pub worker: WorkerBeat,
}

/// What an engine has measured: the last samples, at most [`POINTS_MAX`]; the oldest makes way for the newest.
#[derive(Debug, Default)]
pub struct DurableMetrics {
    points: Mutex<VecDeque<MetricsPoint>>,
}

impl DurableMetrics {
    /// Adds a sample.
    pub fn push(&self, point: MetricsPoint) {
        let mut points = self.points.lock();
        if points.len() >= POINTS_MAX {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// The samples, oldest first.
    #[must_use]
    pub fn points(&self) -> Vec<MetricsPoint> {
        self.points.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sample_makes_way_for_the_newest() {
        let history = DurableMetrics::default();
        let last = i64::try_from(POINTS_MAX).unwrap() + 4;
        for second in 0..=last {
            history.push(MetricsPoint {
                at: Timestamp::from_second(second).unwrap(),
                counts: StoreCounts::default(),
                worker: WorkerBeat {
                    worker_id: "w".to_owned(),
                    current_load: 0,
                    accepting_tasks: true,
                    backpressure_reason: None,
                    tasks_completed: 0,
                    tasks_failed: 0,
                    avg_task_duration_ms: 0.0,
                },
            });
        }
        let seconds: Vec<i64> = history
            .points()
            .iter()
            .map(|point| point.at.as_second())
            .collect();
        assert_eq!(seconds, (5..=last).collect::<Vec<_>>());
    }
}
