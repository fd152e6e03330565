//! Tells listeners what runs and activities came to, after the commit that holds it.
//!
//! A listener is called on a task of its own, one event after the other, so that a slow one delays nobody's commit. The queue to it is
//! bounded: what does not fit is dropped and counted in the log. Events are told by the process that committed them, at
//! most once, and those of one run in order; a process that dies does not tell what was in its queue. What must not be missed is in the history.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use durable_core::{Failure, Payload, WorkflowEvent};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use crate::engine::panic_text;
use crate::persistence::model::{Next, RunRecord, TurnCommit};
use crate::runtime::Runtime;

/// Events that may wait for the listeners.
pub const QUEUE_EVENTS_MAX: usize = 10_000;

/// Something that became of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LifecycleEvent {
    /// The run.
    pub run_id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// Sequence number of the event in the history that tells of it; for `run.suspended`, of the last one that was recorded: a turn that
    /// records nothing, such as one that refuses an update, has the number of the turn before.
    pub sequence: i64,
    /// What became of it.
    pub what: Lifecycle,
}

/// What became of a run, or of one of its activities.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// `run.started`: it took its first turn. Told once, not for every iteration.
    RunStarted,
    /// `run.suspended`: a turn is over and it waits for what comes.
    RunSuspended,
    /// `run.completed`.
    RunCompleted {
        /// Its result.
        result: Payload,
    },
    /// `run.failed`.
    RunFailed {
        /// Why.
        error: Failure,
    },
    /// `run.cancelled`.
    RunCancelled {
        /// Why.
        reason: String,
    },
    /// `activity.scheduled`.
    ActivityScheduled {
        /// Unique within the run.
        activity_id: String,
        /// Which activity.
        activity_type: String,
    },
    /// `activity.completed`.
    ActivityCompleted {
        /// Which activity.
        activity_id: String,
        /// Number of the attempt that succeeded, from 1.
        attempt: u32,
    },
    /// `activity.failed`: an attempt failed. Attempts that were retried are told together with the activity's end, in whose commit they are recorded.
    ActivityFailed {
        /// Which activity.
        activity_id: String,
        /// Number of the attempt, from 1; 0 for one that ran out of time before any began.
        attempt: u32,
        /// Why.
        error: Failure,
        /// Whether another attempt followed.
        will_retry: bool,
    },
}

impl LifecycleEvent {
    /// The event's name, such as `run.started`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.what {
            Lifecycle::RunStarted => "run.started",
            Lifecycle::RunSuspended => "run.suspended",
            Lifecycle::RunCompleted { .. } => "run.completed",
            Lifecycle::RunFailed { .. } => "run.failed",
            Lifecycle::RunCancelled { .. } => "run.cancelled",
            Lifecycle::ActivityScheduled { .. } => "activity.scheduled",
            Lifecycle::ActivityCompleted { .. } => "activity.completed",
            Lifecycle::ActivityFailed { .. } => "activity.failed",
        }
    }
}

/// Somebody who wants to know.
pub(crate) type Listener = Box<dyn Fn(&LifecycleEvent) + Send + Sync>;

/// The listeners of one process, and the queue to them.
pub(crate) struct Listeners {
    /// None: nobody listens, or no more.
    queue: Mutex<Option<mpsc::Sender<LifecycleEvent>>>,
    /// Runs with turns that are being committed. Locked before the queue.
    held: Mutex<HashMap<Uuid, Held>>,
    dropped: AtomicU64,
    told: CancellationToken,
}

/// A run with turns whose commit is under way, and ends of it from outside that are told behind them.
#[derive(Default)]
struct Held {
    turns: usize,
    ends: Vec<LifecycleEvent>,
}

/// While it is there, that a run was ended from outside waits for what its turns under way came to.
pub(crate) struct Hold<'a> {
    listeners: &'a Listeners,
    runs: Vec<Uuid>,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.runs.iter().for_each(|run| self.listeners.release(run));
    }
}

impl Listeners {
    pub(crate) fn start(listeners: Vec<Listener>, runtime: &Runtime) -> Arc<Self> {
        let told = CancellationToken::new();
        if listeners.is_empty() {
            told.cancel();
            return Arc::new(Self {
                queue: Mutex::new(None),
                held: Mutex::default(),
                dropped: AtomicU64::new(0),
                told,
            });
        }
        let (queue, events) = mpsc::channel(QUEUE_EVENTS_MAX);
        let done = told.clone();
        runtime.spawn(async move {
            tell(&listeners, events).await;
            done.cancel();
        });
        Arc::new(Self {
            queue: Mutex::new(Some(queue)),
            held: Mutex::default(),
            dropped: AtomicU64::new(0),
            told,
        })
    }

    pub(crate) fn is_anybody_there(&self) -> bool {
        self.queue.lock().is_some()
    }

    /// From before turns of these runs are committed until they were told of: the store may have a turn, and a client here end the run,
    /// while the answer to the commit is still on its way.
    pub(crate) fn hold(&self, runs: impl Iterator<Item = Uuid>) -> Hold<'_> {
        let runs: Vec<Uuid> = if self.is_anybody_there() {
            runs.collect()
        } else {
            Vec::new()
        };
        if !runs.is_empty() {
            let mut held = self.held.lock();
            for run in &runs {
                held.entry(*run).or_default().turns += 1;
            }
        }
        Hold {
            listeners: self,
            runs,
        }
    }

    fn release(&self, run: &Uuid) {
        let mut held = self.held.lock();
        let Some(of_run) = held.get_mut(run) else {
            return;
        };
        of_run.turns -= 1;
        if of_run.turns == 0 {
            let ends = held.remove(run).map(|of_run| of_run.ends);
            for end in ends.into_iter().flatten() {
                self.queue(end);
            }
        }
    }

    /// Tells what a turn came to. To be called after its commit, before the run's next turn. `last`
    /// is the number of the run's last event after the commit: of an end before which the store has
    /// put unread signals, the turn itself does not know the number.
    pub(crate) fn turned(
        &self,
        workflow_type: &str,
        iteration: u32,
        commit: &TurnCommit,
        last: Option<i64>,
    ) {
        if !self.is_anybody_there() {
            return;
        }
        let event = |sequence, what| LifecycleEvent {
            run_id: commit.run_id,
            workflow_type: workflow_type.to_owned(),
            sequence,
            what,
        };
        let mut attempt = 0;
        let mut sequence = commit.expected_sequence;
        for recorded in &commit.events {
            sequence += 1;
            if let Some(last) = last
                && commit.leaves_rest_unread()
                && recorded.is_terminal()
            {
                sequence = last;
            }
            if let WorkflowEvent::ActivityStarted { attempt: began, .. } = recorded {
                attempt = *began;
                continue;
            }
            if let Some(what) = lifecycle(recorded, attempt, iteration) {
                self.queue(event(sequence, what));
            }
            attempt = 0;
        }
        if matches!(commit.next, Next::Wait) {
            self.queue(event(sequence, Lifecycle::RunSuspended));
        }
    }

    /// Tells of a run that was ended from outside.
    pub(crate) fn ended(&self, run: &RunRecord) {
        if let Some(error) = run.error.clone() {
            self.queue_end(LifecycleEvent {
                run_id: run.id,
                workflow_type: run.workflow_type.clone(),
                sequence: run.sequence,
                what: Lifecycle::RunFailed { error },
            });
        }
    }

    fn queue_end(&self, end: LifecycleEvent) {
        let mut held = self.held.lock();
        match held.get_mut(&end.run_id) {
            Some(of_run) => of_run.ends.push(end),
            None => self.queue(end),
        }
    }

    fn queue(&self, event: LifecycleEvent) {
        let queue = self.queue.lock();
        let Some(queue) = queue.as_ref() else { return };
        if queue.try_send(event).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                warn!(dropped, "listeners are too slow: events are not told");
            }
        }
    }

    /// Takes nothing more and waits until all is told, but not for longer than that.
    pub(crate) async fn close(&self, runtime: &Runtime, longest: Duration) {
        self.queue.lock().take();
        tokio::select! {
            biased;
            () = self.told.cancelled() => {}
            () = runtime.sleep(longest) => warn!("listeners are too slow: the engine stops without them"),
        }
    }
}

async fn tell(listeners: &[Listener], mut events: mpsc::Receiver<LifecycleEvent>) {
    while let Some(event) = events.recv().await {
        for listener in listeners {
            let told = catch_unwind(AssertUnwindSafe(|| listener(&event)));
            if let Err(panic) = told {
                let text = panic_text(&*panic);
                warn!(event = event.name(), run_id = %event.run_id, text, "a listener panicked");
            }
        }
    }
}

fn lifecycle(event: &WorkflowEvent, attempt: u32, iteration: u32) -> Option<Lifecycle> {
    use WorkflowEvent as E;
    Some(match event {
        E::WorkflowStarted { .. } if iteration == 0 => Lifecycle::RunStarted,
        E::WorkflowCompleted { result } => Lifecycle::RunCompleted {
            result: result.clone(),
        },
        E::WorkflowFailed { error } => Lifecycle::RunFailed {
            error: error.clone().into_failure(),
        },
        E::WorkflowCancelled { reason } => Lifecycle::RunCancelled {
            reason: reason.clone(),
        },
        E::ActivityScheduled {
            activity_id,
            activity_type,
            ..
        } => Lifecycle::ActivityScheduled {
            activity_id: activity_id.clone(),
            activity_type: activity_type.clone(),
        },
        E::ActivityCompleted { activity_id, .. } => Lifecycle::ActivityCompleted {
            activity_id: activity_id.clone(),
            attempt,
        },
        E::ActivityFailed {
            activity_id,
            error,
            will_retry,
        } => Lifecycle::ActivityFailed {
            activity_id: activity_id.clone(),
            attempt,
            error: error.clone(),
            will_retry: *will_retry,
        },
        E::ActivityTimedOut {
            activity_id,
            timeout_type,
        } => Lifecycle::ActivityFailed {
            activity_id: activity_id.clone(),
            attempt,
            error: timeout_type.failure(),
            will_retry: false,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspended(sequence: i64) -> LifecycleEvent {
        LifecycleEvent {
            run_id: Uuid::nil(),
            workflow_type: "w".to_owned(),
            sequence,
            what: Lifecycle::RunSuspended,
        }
    }

    fn noting(heard: &Arc<Mutex<Vec<i64>>>) -> Listener {
        let heard = Arc::clone(heard);
        Box::new(move |event| heard.lock().push(event.sequence))
    }

    #[tokio::test]
    async fn an_end_from_outside_is_told_behind_the_turns_under_way() {
        let runtime = Runtime::real();
        let heard = Arc::default();
        let listeners = Listeners::start(vec![noting(&heard)], &runtime);
        let run = || [Uuid::nil()].into_iter();
        let first = listeners.hold(run());
        let again = listeners.hold(run());
        listeners.queue_end(suspended(9));
        listeners.queue(suspended(3));
        drop(first);
        listeners.queue(suspended(6));
        drop(again);
        listeners.queue_end(suspended(12));
        listeners.close(&runtime, Duration::from_secs(60)).await;
        assert_eq!(*heard.lock(), [3, 6, 9, 12]);
        assert!(listeners.held.lock().is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_caught_and_a_full_queue_drops() {
        let runtime = Runtime::real();
        let heard = Arc::default();
        let listeners: Vec<Listener> =
            vec![Box::new(|_| panic!("as the test says")), noting(&heard)];
        let listeners = Listeners::start(listeners, &runtime);
        // On one thread nobody takes anything out before the first await.
        let more = i64::try_from(QUEUE_EVENTS_MAX).expect("fits") + 5;
        for sequence in 0..more {
            listeners.queue(suspended(sequence));
        }
        listeners.close(&runtime, Duration::from_secs(60)).await;
        assert_eq!(*heard.lock(), (0..more - 5).collect::<Vec<_>>());
        assert_eq!(listeners.dropped.load(Ordering::Relaxed), 5);
    }
}
