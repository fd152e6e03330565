//! The turn that takes a run back: what it forgets, what it queues again, and what would be lost.

use std::collections::{BTreeMap, BTreeSet};

use durable_core::{
    ActivityOptions, Failure, NumberedEvent, Payload, WorkflowEvent, WorkflowSignal, error_types,
    signal_types,
};
use uuid::Uuid;

use crate::persistence::model::{
    DeadLetter, NewSignal, NewTask, NewTimer, Next, OutSignal, RunRecord, TurnCommit, UpdateAnswer,
    WorkflowStatus,
};
use crate::runtime::Runtime;

/// A run's current history, cut at an event.
pub(super) struct Cut<'a> {
    pub(super) run: &'a RunRecord,
    /// Events that still count.
    kept: &'a [NumberedEvent],
    /// Events that no longer do.
    forgotten: &'a [NumberedEvent],
}

impl<'a> Cut<'a> {
    /// After the event at index `last`.
    pub(super) fn after(run: &'a RunRecord, events: &'a [NumberedEvent], last: usize) -> Self {
        let (kept, forgotten) = events.split_at(last + 1);
        Self {
            run,
            kept,
            forgotten,
        }
    }

    /// Index of the start of something that would not go on as it was: a child or a person's task that ended in the part that is forgotten, or a
    /// child that the end of a failed run took along (the run would wait for their ends for ever); a child that was asked to stop there (its end by
    /// that request would pass for its own).
    pub(super) fn lost(&self) -> Option<usize> {
        use WorkflowEvent as E;
        let had_failed = self.run.status == WorkflowStatus::Failed;
        let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (index, (_, event)) in self.kept.iter().enumerate() {
            match event {
                E::ChildWorkflowStarted { child_id, .. } => {
                    open.insert(("child", child_id), index);
                }
                E::HumanTaskOpened { task_id, .. } => {
                    open.insert(("person", task_id), index);
                }
                event => {
                    ended(event).map(|ended| open.remove(&ended));
                }
            }
        }
        let gone: BTreeSet<(&str, &str)> = self
            .forgotten
            .iter()
            .filter_map(|(_, event)| ended(event).or_else(|| asked_to_stop(event)))
            .collect();
        open.into_iter()
            .filter(|(key, _)| gone.contains(key) || (had_failed && key.0 == "child"))
            .map(|(_, index)| index)
            .min()
    }

    /// Activities whose final failure is forgotten: they are tried again.
    fn failed_activities(&self) -> BTreeSet<&'a str> {
        let failed = self.forgotten.iter().filter_map(|(_, event)| match event {
            WorkflowEvent::ActivityFailed {
                activity_id,
                will_retry: false,
                ..
            }
            | WorkflowEvent::ActivityTimedOut { activity_id, .. } => Some(activity_id.as_str()),
            _ => None,
        });
        failed.collect()
    }

    /// The turn. The epoch rises with it, so that nothing older counts any more.
    ///
    /// `letters` are those of the run that nobody has decided about.
    pub(super) fn turn(
        &self,
        runtime: &Runtime,
        reason: String,
        letters: &[DeadLetter],
    ) -> TurnCommit {
        let to_sequence = self.kept.last().map_or(0, |(number, _)| *number);
        let mut turn = TurnCommit::new(self.run, runtime.new_id());
        turn.events = vec![WorkflowEvent::WorkflowReset {
            to_sequence,
            epoch: self.run.epoch + 1,
            reason,
        }];
        turn.next = Next::Reset { to_sequence };
        let mut under_way = UnderWay::default();
        for (_, event) in self.kept {
            under_way.follow(event);
        }
        let tasks = under_way.tasks.into_values().map(|mut task| {
            task.task_id = runtime.new_id();
            task.trace.clone_from(&self.run.trace);
            task
        });
        turn.tasks = tasks.collect();
        turn.timers = under_way.timers.into_values().collect();
        turn.signals = self.signals(runtime);
        turn.updates = self.unanswered_updates();
        turn.requeued_letters = self.requeued(letters, &turn.tasks);
        turn
    }

    /// Letters of what is tried again have done their work; the new attempts leave letters of their own if they fail.
    fn requeued(&self, letters: &[DeadLetter], tasks: &[NewTask]) -> Vec<Uuid> {
        let failed = self.failed_activities();
        let under_way: BTreeSet<&str> = tasks.iter().map(|task| &*task.activity_id).collect();
        let tried_again = letters.iter().filter(|letter| {
            // A run that waits for a letter has not seen the failure: its activity is still under way.
            let activities = if letter.parked { &under_way } else { &failed };
            letter.epoch <= self.run.epoch && activities.contains(&*letter.activity_id)
        });
        tried_again.map(|letter| letter.id).collect()
    }

    /// Signals that are forgotten come again, as the run's own; children that are forgotten are asked to stop.
    fn signals(&self, runtime: &Runtime) -> Vec<OutSignal> {
        let ended: BTreeSet<(&str, &str)> = self
            .forgotten
            .iter()
            .filter_map(|(_, event)| ended(event))
            .collect();
        let out = |run_id, signal_type: &str, payload: &Payload| OutSignal {
            run_id,
            signal: NewSignal {
                signal_id: runtime.new_id(),
                signal_type: signal_type.to_owned(),
                payload: payload.clone(),
            },
        };
        let reason = Payload::from_value("its parent was reset").expect("a string has a JSON form");
        let signals = self.forgotten.iter().filter_map(|(_, event)| match event {
            WorkflowEvent::SignalReceived { signal, .. } if is_the_users(signal) => {
                Some(out(self.run.id, &signal.signal_type, &signal.payload))
            }
            WorkflowEvent::ChildWorkflowStarted {
                workflow_id,
                child_id,
                ..
            } if !ended.contains(&("child", child_id.as_str())) => {
                Some(out(*workflow_id, signal_types::CANCEL, &reason))
            }
            _ => None,
        });
        signals.collect()
    }

    /// Their senders are told, instead of waiting for what is forgotten.
    fn unanswered_updates(&self) -> Vec<UpdateAnswer> {
        let message =
            "the run was reset to before it took the update; send it again under another id";
        let failure = Failure::new(error_types::UPDATE_FAILED, message);
        // Answers to updates that were answered before are passed over by the store.
        let taken = self.forgotten.iter().filter_map(|(_, event)| match event {
            WorkflowEvent::UpdateAccepted { update_id, .. } => Some(UpdateAnswer {
                update_id: update_id.clone(),
                result: Err(failure.clone()),
            }),
            _ => None,
        });
        taken.collect()
    }
}

/// The child or person's task whose end the event tells.
fn ended(event: &WorkflowEvent) -> Option<(&'static str, &str)> {
    match event {
        WorkflowEvent::ChildWorkflowCompleted { child_id, .. }
        | WorkflowEvent::ChildWorkflowFailed { child_id, .. } => Some(("child", child_id)),
        WorkflowEvent::HumanTaskDecided { task_id, .. } => Some(("person", task_id)),
        _ => None,
    }
}

/// The child that the run no longer wants with this event.
fn asked_to_stop(event: &WorkflowEvent) -> Option<(&'static str, &str)> {
    match event {
        WorkflowEvent::ChildWorkflowCancelRequested { child_id, .. } => Some(("child", child_id)),
        _ => None,
    }
}

/// Requests to stop are not repeated: whoever resets a run wants it to go on.
fn is_the_users(signal: &WorkflowSignal) -> bool {
    ![signal_types::CANCEL, signal_types::SHUTDOWN].contains(&signal.signal_type.as_str())
}

/// Activities and timers that were asked for and not over, in the order in which they were asked for.
#[derive(Default)]
struct UnderWay {
    asked: usize,
    tasks: BTreeMap<usize, NewTask>,
    timers: BTreeMap<usize, NewTimer>,
}

impl UnderWay {
    fn follow(&mut self, event: &WorkflowEvent) {
        use WorkflowEvent as E;
        self.asked += 1;
        match event {
            E::ActivityScheduled {
                activity_id,
                activity_type,
                input,
                options,
            } => {
                let task = new_task(activity_id, activity_type, input, options);
                self.tasks.insert(self.asked, task);
            }
            E::ActivityCompleted { activity_id, .. }
            | E::ActivityTimedOut { activity_id, .. }
            | E::ActivityCancelled { activity_id, .. }
            | E::ActivityFailed {
                activity_id,
                will_retry: false,
                ..
            } => self
                .tasks
                .retain(|_, task| task.activity_id != *activity_id),
            E::TimerStarted {
                timer_id,
                duration_ms,
            } => {
                let timer = NewTimer {
                    timer_id: timer_id.clone(),
                    after: std::time::Duration::from_millis(*duration_ms),
                };
                self.timers.insert(self.asked, timer);
            }
            E::TimerFired { timer_id } | E::TimerCancelled { timer_id } => {
                self.timers.retain(|_, timer| timer.timer_id != *timer_id);
            }
            _ => {}
        }
    }
}

fn new_task(
    activity_id: &str,
    activity_type: &str,
    input: &Payload,
    options: &ActivityOptions,
) -> NewTask {
    NewTask {
        task_id: Uuid::nil(),
        activity_id: activity_id.to_owned(),
        activity_type: activity_type.to_owned(),
        input: input.clone(),
        options: options.clone(),
        delay: None,
        lease: false,
        trace: None,
    }
}
