//! Turns a decision into a commit: which tasks to queue, timers to set, children to start, and what becomes of the run.

use std::collections::BTreeSet;

use durable_core::{
    ChildOptions, Payload, RunIdentity, WorkflowAction, WorkflowEvent, signal_types,
};
use uuid::Uuid;

use super::cache::Place;
use super::decide::Decision;
use crate::persistence::model::{
    NewChild, NewSignal, NewTask, NewTimer, Next, OutSignal, StartRun, TurnCommit, UpdateAnswer,
};
use crate::runtime::Runtime;
use crate::workflow::WorkflowRegistry;

/// What assembling needs besides the decision.
pub(crate) struct Assembly<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) workflows: &'a WorkflowRegistry,
    pub(crate) identity: RunIdentity,
    pub(crate) place: &'a Place,
    /// Facts up to this arrival were taken.
    pub(crate) facts_through: i64,
    /// Facts wait behind those, and a run that ends leaves them unread.
    pub(crate) leaves_rest: bool,
}

impl Assembly<'_> {
    /// The commit, without what the committer adds: leases and ownership.
    pub(crate) fn commit(&self, decision: Decision) -> TurnCommit {
        let mut commit = self.empty();
        commit.finished_tasks = decision.finished_tasks;
        commit.step_logs = decision.step_logs;
        commit.events = decision
            .turn
            .events
            .into_iter()
            .map(|(_, event)| event)
            .collect();
        for action in decision.turn.actions {
            self.act(&mut commit, action);
        }
        let carried = decision.carried.into_iter().map(|signal| NewSignal {
            signal_id: signal.signal_id.unwrap_or_else(|| self.runtime.new_id()),
            signal_type: signal.signal_type,
            payload: signal.payload,
        });
        commit.next = next(&commit.events, carried.collect());
        if !matches!(commit.next, Next::Wait) {
            // The store drops what belongs to a run that is over; queueing it first would be in vain.
            commit.tasks.clear();
            commit.timers.clear();
        }
        commit.unread_rest = self.leaves_rest && commit.next.ends_run();
        let refused = decision.refused.into_iter();
        commit
            .updates
            .extend(refused.map(|(update_id, why)| UpdateAnswer {
                update_id,
                result: Err(why),
            }));
        drop_what_was_given_up(&mut commit);
        commit
    }

    fn empty(&self) -> TurnCommit {
        TurnCommit {
            start: None,
            run_id: self.place.run_id,
            turn_id: self.runtime.new_id(),
            expected_sequence: self.place.sequence,
            expected_epoch: self.place.epoch,
            facts_through: self.facts_through,
            unread_rest: false,
            finished_tasks: Vec::new(),
            fired_timers: Vec::new(),
            events: Vec::new(),
            tasks: Vec::new(),
            cancelled_activities: Vec::new(),
            timers: Vec::new(),
            cancelled_timers: Vec::new(),
            children: Vec::new(),
            signals: Vec::new(),
            updates: Vec::new(),
            attributes: std::collections::BTreeMap::new(),
            outbox: Vec::new(),
            step_logs: Vec::new(),
            requeued_letters: Vec::new(),
            next: Next::Wait,
            lease: None,
            owner: None,
        }
    }

    fn act(&self, commit: &mut TurnCommit, action: WorkflowAction) {
        use WorkflowAction as A;
        match action {
            A::ScheduleActivity {
                activity_id,
                activity_type,
                input,
                options,
            } => commit.tasks.push(NewTask {
                task_id: self.runtime.new_id(),
                activity_id,
                activity_type,
                input,
                options,
                delay: None,
                lease: false,
                trace: self.place.trace.clone(),
            }),
            A::StartTimer { timer_id, duration } => commit.timers.push(NewTimer {
                timer_id,
                after: duration,
            }),
            A::CancelTimer { timer_id } => commit.cancelled_timers.push(timer_id),
            A::CancelActivity { activity_id } => commit.cancelled_activities.push(activity_id),
            A::ScheduleChildWorkflow {
                workflow_id: child_id,
                workflow_type,
                input,
            } => {
                let child = self.child(child_id, &workflow_type, input, &ChildOptions::default());
                commit.children.push(child);
            }
            A::StartChildWorkflow {
                workflow_id: child_id,
                workflow_type,
                input,
                options,
            } => {
                let child = self.child(child_id, &workflow_type, input, &options);
                commit.children.push(child);
            }
            A::CancelChildWorkflow {
                workflow_id: child_id,
            } => commit.signals.extend(self.cancel_child(commit, &child_id)),
            A::CompleteUpdate { update_id, result } => commit.updates.push(UpdateAnswer {
                update_id,
                result: Ok(result),
            }),
            A::FailUpdate { update_id, error } => commit.updates.push(UpdateAnswer {
                update_id,
                result: Err(error),
            }),
            A::UpsertSearchAttributes { attributes } => commit.attributes.extend(attributes),
            // The event alone says it: what becomes of the run, and that a person is asked.
            A::CompleteWorkflow { .. }
            | A::FailWorkflow { .. }
            | A::CancelWorkflow { .. }
            | A::ContinueAsNew { .. }
            | A::OpenHumanTask { .. }
            | A::None => {}
        }
    }

    fn child(
        &self,
        child_id: String,
        workflow_type: &str,
        input: Payload,
        options: &ChildOptions,
    ) -> NewChild {
        let run_id = self.identity.child_run_id(&child_id);
        let version = options.version.clone();
        let version = version.or_else(|| self.workflows.newest(workflow_type));
        let mut start = StartRun::new(run_id, workflow_type, input);
        start.version = version.unwrap_or_default();
        start.trace.clone_from(&self.place.trace);
        start.business_id.clone_from(&options.workflow_id);
        start.execution_timeout = options.execution_timeout;
        start.run_timeout = options.run_timeout;
        NewChild {
            child_id,
            close_policy: options.close_policy,
            start,
        }
    }

    /// The same signal however often it is asked for: its id is the child's.
    fn cancel_child(&self, commit: &TurnCommit, name: &str) -> Option<OutSignal> {
        // As the run that it was started as, which may have been in an earlier epoch. Without the event it is over already.
        let run_id = commit.events.iter().find_map(|event| match event {
            WorkflowEvent::ChildWorkflowCancelRequested {
                workflow_id,
                child_id,
            } if child_id == name => Some(*workflow_id),
            _ => None,
        })?;
        let reason = format!("cancelled by its parent {}", self.identity.run_id);
        Some(OutSignal {
            run_id,
            signal: NewSignal {
                signal_id: Uuid::new_v5(&run_id, b"cancelled by its parent"),
                signal_type: signal_types::CANCEL.to_owned(),
                payload: Payload::from_value(&reason).unwrap_or_default(),
            },
        })
    }
}

fn next(events: &[WorkflowEvent], carried: Vec<NewSignal>) -> Next {
    use WorkflowEvent as E;
    match events.last() {
        Some(E::WorkflowCompleted { result }) => Next::Complete {
            result: result.clone(),
        },
        Some(E::WorkflowFailed { error }) => Next::Fail {
            error: error.clone().into_failure(),
        },
        Some(E::WorkflowCancelled { reason }) => Next::Cancel {
            reason: reason.clone(),
        },
        Some(E::WorkflowContinuedAsNew { input, .. }) => Next::ContinueAsNew {
            input: input.clone(),
            carried,
        },
        _ => Next::Wait,
    }
}

/// What one turn both asked for and gave up is neither queued nor looked for.
fn drop_what_was_given_up(commit: &mut TurnCommit) {
    if !commit.tasks.is_empty() && !commit.cancelled_activities.is_empty() {
        let cancelled: BTreeSet<&String> = commit.cancelled_activities.iter().collect();
        let tasks = std::mem::take(&mut commit.tasks).into_iter();
        commit.tasks = tasks
            .filter(|task| !cancelled.contains(&task.activity_id))
            .collect();
    }
    if !commit.timers.is_empty() && !commit.cancelled_timers.is_empty() {
        let cancelled: BTreeSet<&String> = commit.cancelled_timers.iter().collect();
        let timers = std::mem::take(&mut commit.timers).into_iter();
        commit.timers = timers
            .filter(|timer| !cancelled.contains(&timer.timer_id))
            .collect();
    }
}
