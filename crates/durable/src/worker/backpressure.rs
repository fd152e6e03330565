//! Watermarks: a worker that is nearly full takes nothing until it is well below.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// When a worker stops taking tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct BackpressureConfig {
    /// Stops claiming from this share of its slots in use on.
    pub high_watermark: f64,
    /// Goes on below this share.
    pub low_watermark: f64,
    /// Stops claiming while this much memory, in bytes, is in use.
    pub memory_threshold: Option<usize>,
    /// Stops claiming while the pressure on the CPU, in percent, is above this.
    pub cpu_threshold: Option<f64>,
}

impl Default for BackpressureConfig {
    fn default() -> Self {
        Self {
            high_watermark: 0.9,
            low_watermark: 0.7,
            memory_threshold: None,
            cpu_threshold: None,
        }
    }
}

impl BackpressureConfig {
    /// What is wrong with it, if anything is.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let ordered = 0.0 < self.low_watermark
            && self.low_watermark <= self.high_watermark
            && self.high_watermark <= 1.0;
        (!ordered).then_some("backpressure needs 0 < low_watermark <= high_watermark <= 1")
    }
}

/// Whether a worker takes tasks, by how many it runs, with hysteresis between the two watermarks.
///
/// A worker without a task always takes one, however few slots it has.
#[derive(Debug)]
pub struct BackpressureState {
    config: BackpressureConfig,
    max_concurrency: usize,
    current_load: AtomicUsize,
    accepting_tasks: AtomicBool,
}

impl BackpressureState {
    /// For a worker with that many slots, none of them in use.
    #[must_use]
    pub fn new(config: BackpressureConfig, max_concurrency: usize) -> Self {
        Self {
            config,
            max_concurrency: max_concurrency.max(1),
            current_load: AtomicUsize::new(0),
            accepting_tasks: AtomicBool::new(true),
        }
    }

    /// Whether to take new tasks.
    pub fn should_accept(&self) -> bool {
        self.should_accept_at(self.current_load())
    }

    /// Whether to take new tasks while that many run: for those who count them already.
    #[allow(clippy::cast_precision_loss, reason = "a share of slots")]
    pub(crate) fn should_accept_at(&self, load: usize) -> bool {
        let share = load as f64 / self.max_concurrency as f64;
        let mark = if self.accepting_tasks() {
            self.config.high_watermark
        } else {
            self.config.low_watermark
        };
        let accept = load == 0 || share < mark;
        self.accepting_tasks.store(accept, Ordering::Relaxed);
        accept
    }

    /// A task began.
    pub fn task_started(&self) {
        self.current_load.fetch_add(1, Ordering::Relaxed);
    }

    /// A task ended.
    pub fn task_completed(&self) {
        let less = |load: usize| Some(load.saturating_sub(1));
        // Cannot fail: there is always a new value.
        let _ = self
            .current_load
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Tasks that run, by [`BackpressureState::task_started`] and [`BackpressureState::task_completed`].
    #[must_use]
    pub fn current_load(&self) -> usize {
        self.current_load.load(Ordering::Relaxed)
    }

    /// What [`BackpressureState::should_accept`] last answered.
    #[must_use]
    pub fn accepting_tasks(&self) -> bool {
        self.accepting_tasks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_between_the_high_and_the_low_watermark() {
        let state = BackpressureState::new(BackpressureConfig::default(), 10);
        for _ in 0..8 {
            state.task_started();
            assert!(state.should_accept());
        }
        state.task_started();
        assert!(!state.should_accept(), "nine of ten");
        state.task_completed();
        state.task_completed();
        assert!(
            !state.should_accept(),
            "seven is not below the low watermark"
        );
        state.task_completed();
        assert!(state.should_accept());
        state.task_started();
        assert!(state.should_accept(), "below the high watermark again");
    }

    #[test]
    fn worker_with_few_slots_fills_them_all() {
        for slots in 1..=9 {
            let state = BackpressureState::new(BackpressureConfig::default(), slots);
            for load in 0..slots {
                assert!(state.should_accept_at(load), "{load} of {slots}");
            }
            assert!(!state.should_accept_at(slots));
            assert!(state.should_accept_at(0));
        }
    }

    #[test]
    fn watermarks_out_of_order_are_refused() {
        let fault = |low_watermark, high_watermark| {
            let config = BackpressureConfig {
                low_watermark,
                high_watermark,
                ..BackpressureConfig::default()
            };
            config.fault()
        };
        assert_eq!(fault(0.7, 0.9), None);
        assert_eq!(fault(1.0, 1.0), None);
        assert!(fault(0.9, 0.7).is_some());
        assert!(fault(0.0, 0.9).is_some());
        assert!(fault(0.7, 1.1).is_some());
        assert!(fault(f64::NAN, 0.9).is_some());
    }
}
