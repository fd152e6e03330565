//! Workflow code that computes for long leaves the runtime's threads to others.
//!
//! A decision is a plain function, and most take microseconds: moving each to another thread would cost
//! more than the decision. So decisions move once one of this process has taken long, for a while, and
//! long replays always. What else runs in the process (probes, signals of the system, leases) goes on.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::runtime::Runtime;

/// From so long on, code is slow.
const SLOW: Duration = Duration::from_millis(5);
/// For so long after slow code all code is run apart.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Runs workflow code, on the thread of the caller or beside the runtime.
#[derive(Debug, Default)]
pub(crate) struct OffRuntime {
    slow_until: Mutex<Option<Instant>>,
}

/// What is known about code before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// One turn.
    Turn,
    /// Many turns, one after the other.
    Replay {
        /// Events that are replayed.
        events: usize,
    },
}

/// Replays from this many events on are long.
const LONG_EVENTS: usize = 100;

impl OffRuntime {
    /// Runs code that waits for nothing.
    pub(crate) fn run<T>(&self, runtime: &Runtime, effort: Effort, code: impl FnOnce() -> T) -> T {
        let begun = runtime.instant();
        let is_long = match effort {
            Effort::Turn => false,
            Effort::Replay { events } => events >= LONG_EVENTS,
        };
        let slow_until = *self.slow_until.lock();
        let apart = is_long || slow_until.is_some_and(|until| begun < until);
        let answer = if apart && can_leave() {
            tokio::task::block_in_place(code)
        } else {
            code()
        };
        let ended = runtime.instant();
        if ended.duration_since(begun) >= SLOW {
            *self.slow_until.lock() = Some(ended + REMEMBERED);
        }
        answer
    }
}

/// Only a runtime of several threads can go on without this one.
fn can_leave() -> bool {
    let runtime = Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    /// The only thread of the runtime would wait for itself.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn slow_code_leaves_the_runtime_to_others() {
        let off_runtime = Arc::new(OffRuntime::default());
        let runtime = Runtime::real();
        off_runtime.run(&runtime, Effort::Turn, || std::thread::sleep(SLOW));
        for effort in [Effort::Turn, Effort::Replay { events: 1_000 }] {
            let (told, heard) = mpsc::channel();
            let (slow, runtime) = (Arc::clone(&off_runtime), runtime.clone());
            let waits = tokio::spawn(async move {
                tokio::spawn(async move { told.send(7) });
                slow.run(&runtime, effort, || heard.recv())
            });
            assert_eq!(waits.await.expect("ends"), Ok(7));
        }
    }

    #[tokio::test]
    async fn code_runs_where_it_is_on_a_runtime_of_one_thread() {
        let effort = Effort::Replay { events: 1_000 };
        let runtime = Runtime::real();
        assert_eq!(OffRuntime::default().run(&runtime, effort, || 7), 7);
    }
}
