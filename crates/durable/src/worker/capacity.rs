//! How much a worker takes on at once.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{BackpressureState, WorkerPool, WorkerSettings};
use crate::runtime::{Resources, Runtime};

/// What tells a worker how much to take on.
pub(super) struct Capacity {
    watermarks: BackpressureState,
    /// Slots held for a claim that is under way: in use, but by no task.
    claiming: AtomicUsize,
    looked: Mutex<Option<(Instant, Resources)>>,
    /// How long the last tasks took.
    latencies: Mutex<VecDeque<Duration>>,
    /// Other live workers that take tasks, by activity type.
    others: Mutex<BTreeMap<String, usize>>,
    /// Tasks were left in the queue for the others.
    left: Notify,
}

/// Why a worker takes no tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pressure {
    Draining,
    Load { used: usize, max: usize },
    Payloads { used: usize, max: usize },
    Memory { used: u64, threshold: u64 },
    Cpu { percent: f64, threshold: f64 },
}

/// Tasks that the latency is taken from.
const LATENCIES_MAX: usize = 128;
/// How old a look at memory and CPU may be.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// From this share of the memory on, claims are halved.
const MEMORY_PERCENT_HIGH: u64 = 80;
/// Fewest tasks claimed at once for the sake of fairness alone.
const SHARE_MIN: usize = 4;

impl Capacity {
    pub(super) fn new(settings: &WorkerSettings, slots: usize) -> Self {
        Self {
            watermarks: BackpressureState::new(settings.backpressure.clone(), slots),
            claiming: AtomicUsize::new(0),
            looked: Mutex::default(),
            latencies: Mutex::default(),
            others: Mutex::default(),
            left: Notify::new(),
        }
    }

    /// A task took that long.
    pub(super) fn took(&self, latency: Duration) {
        let mut latencies = self.latencies.lock();
        if latencies.len() == LATENCIES_MAX {
            latencies.pop_front();
        }
        latencies.push_back(latency);
    }

    /// The time that one task in a hundred takes longer than.
    fn p99(&self) -> Duration {
        let mut latencies: Vec<Duration> = self.latencies.lock().iter().copied().collect();
        let place = (latencies.len() * 99).div_ceil(100).saturating_sub(1);
        if latencies.is_empty() {
            return Duration::ZERO;
        }
        *latencies.select_nth_unstable(place).1
    }

    fn resources(&self, runtime: &Runtime) -> Resources {
        let now = runtime.instant();
        let mut looked = self.looked.lock();
        match *looked {
            Some((at, seen)) if now.duration_since(at) < LOOK_AGAIN => seen,
            _ => {
                let seen = runtime.resources();
                *looked = Some((now, seen));
                seen
            }
        }
    }
}

impl WorkerPool {
    /// How many tasks to claim now, at least one. The caller holds a slot already.
    pub(super) fn claim_size(&self) -> usize {
        let others = self
            .capacity
            .others
            .lock()
            .values()
            .copied()
            .max()
            .unwrap_or(0);
        let batch = self.settings.claim_batch_size;
        let share = batch.div_ceil(others + 1).max(SHARE_MIN);
        let mut size = batch.min(share).min(self.slots.free() + 1);
        let memory = self.capacity.resources(&self.runtime);
        if let (Some(used), Some(limit)) = (memory.memory_used, memory.memory_limit)
            && used.saturating_mul(100) > limit.saturating_mul(MEMORY_PERCENT_HIGH)
        {
            size /= 2;
        }
        if self.capacity.p99() > self.settings.latency_threshold {
            size = size * 7 / 10;
        }
        size.max(1)
    }

    /// Why it claims no tasks, if it claims none.
    pub(super) fn pressure(&self) -> Option<Pressure> {
        if !self.accepting_tasks() {
            return Some(Pressure::Draining);
        }
        let (used, max) = (self.current_load(), self.max_concurrency());
        if !self.capacity.watermarks.should_accept_at(used) {
            return Some(Pressure::Load { used, max });
        }
        let (used, max) = (self.slots.bytes(), self.settings.max_bytes_in_flight);
        if used >= max {
            return Some(Pressure::Payloads { used, max });
        }
        let config = &self.settings.backpressure;
        let resources = self.capacity.resources(&self.runtime);
        if let (Some(used), Some(threshold)) = (resources.memory_used, config.memory_threshold) {
            let threshold = u64::try_from(threshold).unwrap_or(u64::MAX);
            if used >= threshold {
                return Some(Pressure::Memory { used, threshold });
            }
        }
        match (resources.cpu_percent, config.cpu_threshold) {
            (Some(percent), Some(threshold)) if percent > threshold => {
                Some(Pressure::Cpu { percent, threshold })
            }
            _ => None,
        }
    }

    /// Why it takes no tasks from the queue, if it takes none.
    #[must_use]
    pub fn backpressure_reason(&self) -> Option<String> {
        self.pressure().map(|pressure| pressure.to_string())
    }

    /// Slots held for a claim; 0 when it is over.
    pub(super) fn claiming(&self, slots: usize) {
        self.capacity.claiming.store(slots, Ordering::SeqCst);
    }

    /// Slots in use by tasks, from their start until their results are stored.
    #[must_use]
    pub fn current_load(&self) -> usize {
        let claiming = self.capacity.claiming.load(Ordering::SeqCst);
        self.slots.used().saturating_sub(claiming)
    }

    /// Other live workers that take tasks, by activity type.
    pub(crate) fn others_are(&self, others: BTreeMap<String, usize>) {
        *self.capacity.others.lock() = others;
    }

    /// Whether no other live worker takes tasks of any of its types.
    pub(super) fn is_alone(&self) -> bool {
        let others = self.capacity.others.lock();
        let mut shared = others.iter().filter(|(_, others)| **others > 0);
        !shared.any(|(activity_type, _)| self.activities.contains(activity_type))
    }

    /// How many of `count` new tasks of a type this worker takes at once: all while it is alone, else its share, rounded up.
    pub(crate) fn share_of(&self, activity_type: &str, count: usize) -> usize {
        let others = self.capacity.others.lock().get(activity_type).copied();
        count.div_ceil(others.unwrap_or(0) + 1)
    }

    /// Tasks wait in the queue that others should look at first.
    pub(crate) fn leave_to_others(&self) {
        self.capacity.left.notify_one();
    }

    /// Ends when tasks were left to others.
    pub(super) async fn left_to_others(&self) {
        self.capacity.left.notified().await;
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining => f.write_str("draining"),
            Self::Load { used, max } => write!(f, "load: {used} of {max} slots are in use"),
            Self::Payloads { used, max } => write!(
                f,
                "payloads: running activities hold {used} bytes, max_bytes_in_flight is {max}"
            ),
            Self::Memory { used, threshold } => {
                write!(
                    f,
                    "memory: {used} bytes are in use, the threshold is {threshold}"
                )
            }
            Self::Cpu { percent, threshold } => {
                write!(
                    f,
                    "cpu: the pressure is {percent:.0} %, the threshold is {threshold:.0} %"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
