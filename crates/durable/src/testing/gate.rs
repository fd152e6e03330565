//! Holds commits back until they are let through by hand.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;

/// A commit that [`Driver::step`](super::Driver::step) let through.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A run's turn: facts in, actions out.
    Turn {
        /// The run.
        run_id: Uuid,
        /// The events that it adds to the history, by type.
        events: Vec<&'static str>,
    },
    /// Results of activities that are stored without a turn: failures to be retried, or runs that are busy.
    Results {
        /// How many.
        tasks: usize,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn { events, .. } => write!(f, "turn: {}", events.join(", ")),
            Self::Results { tasks } => write!(f, "results of {tasks} activities"),
        }
    }
}

/// The gate; open unless a driver closed it.
#[derive(Default)]
pub(super) struct Gate {
    /// None: open.
    queue: Mutex<Option<VecDeque<Waiting>>>,
}

struct Waiting {
    step: Step,
    pass: oneshot::Sender<()>,
}

impl Gate {
    /// A gate that lets nobody through by itself.
    pub(super) fn closed() -> Self {
        Self {
            queue: Mutex::new(Some(VecDeque::new())),
        }
    }

    /// Ends when it is let through.
    pub(super) async fn pass(&self, step: impl FnOnce() -> Step) {
        let passed = {
            let mut queue = self.queue.lock();
            let Some(queue) = &mut *queue else { return };
            let (pass, passed) = oneshot::channel();
            queue.push_back(Waiting { step: step(), pass });
            passed
        };
        // An error: the world is gone, and with it whoever waits here.
        let _ = passed.await;
    }

    /// Lets the first one through that still lives.
    pub(super) fn let_one_through(&self) -> Option<Step> {
        let mut queue = self.queue.lock();
        let queue = queue.as_mut()?;
        while let Some(Waiting { step, pass }) = queue.pop_front() {
            if pass.send(()).is_ok() {
                return Some(step);
            }
        }
        None
    }
}
