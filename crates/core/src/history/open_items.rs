//! What a history has opened and not closed yet.

use std::time::Duration;

use uuid::Uuid;

use super::error::{HistoryProblem, Subject};
use super::ledger::Ledger;
use super::stopping::Stopping;
use crate::event::WorkflowEvent;

/// An activity that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingActivity {
    /// Which activity.
    pub activity_type: String,
    /// Last attempt on record; 0 while there is none.
    pub attempt: u32,
    /// How long it may wait for a worker once it is the first of its run's line; none: it is not in the line.
    pub at_head_max: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenItems {
    pub(super) activities: Ledger<PendingActivity>,
    pub(super) timers: Ledger<()>,
    pub(super) children: Ledger<Uuid>,
    pub(super) updates: Ledger<()>,
    pub(super) human_tasks: Ledger<()>,
    pub(super) side_effects: Ledger<()>,
    pub(super) patches: Ledger<()>,
}

impl Default for OpenItems {
    fn default() -> Self {
        Self {
            activities: Ledger::new(Subject::Activity),
            timers: Ledger::new(Subject::Timer),
            children: Ledger::new(Subject::Child),
            updates: Ledger::new(Subject::Update),
            human_tasks: Ledger::new(Subject::HumanTask),
            side_effects: Ledger::new(Subject::SideEffect),
            patches: Ledger::new(Subject::Patch),
        }
    }
}

impl OpenItems {
    /// The events that open and close things. Every arm checks before it changes anything.
    pub(super) fn transition(
        &mut self,
        event: &WorkflowEvent,
        stopping: &mut Stopping,
    ) -> Result<(), HistoryProblem> {
        use WorkflowEvent as E;
        match event {
            E::ActivityScheduled {
                activity_id,
                activity_type,
                options,
                ..
            } => {
                let at_head_max = options.schedule_to_start_timeout;
                let pending = PendingActivity {
                    activity_type: activity_type.clone(),
                    attempt: 0,
                    at_head_max: options.sequential.then_some(at_head_max),
                };
                self.activities.open(activity_id, pending)
            }
            E::ActivityStarted {
                activity_id,
                attempt,
                ..
            } => self.attempt(activity_id, *attempt),
            E::ActivityFailed {
                activity_id,
                will_retry: true,
                ..
            } => self.activities.get_open(activity_id).map(|_| ()),
            E::ActivityCompleted { activity_id, .. }
            | E::ActivityFailed { activity_id, .. }
            | E::ActivityTimedOut { activity_id, .. }
            | E::ActivityCancelled { activity_id, .. } => {
                self.activities.close(activity_id)?;
                stopping.activity_ended(activity_id);
                Ok(())
            }
            E::LocalActivityCompleted { activity_id, .. }
            | E::LocalActivityFailed { activity_id, .. } => {
                self.activities.enter_closed(activity_id)
            }
            E::TimerStarted { timer_id, .. } => self.timers.open(timer_id, ()),
            E::TimerFired { timer_id } | E::TimerCancelled { timer_id } => {
                self.timers.close(timer_id)
            }
            E::ChildWorkflowStarted {
                workflow_id,
                child_id,
                ..
            } => self.children.open(child_id, *workflow_id),
            E::ChildWorkflowCompleted {
                workflow_id,
                child_id,
                ..
            }
            | E::ChildWorkflowFailed {
                workflow_id,
                child_id,
                ..
            } => self.child_ended(child_id, *workflow_id),
            E::ChildWorkflowCancelRequested { child_id, .. } => {
                self.children.get_open(child_id).map(|_| ())
            }
            E::UpdateAccepted { update_id, .. } => self.updates.open(update_id, ()),
            E::UpdateCompleted { update_id, .. } | E::UpdateFailed { update_id, .. } => {
                self.updates.close(update_id)
            }
            E::HumanTaskOpened { task_id, .. } => self.human_tasks.open(task_id, ()),
            E::HumanTaskDecided { task_id, .. } => self.human_tasks.close(task_id),
            E::SideEffectRecorded { effect_id, .. } => self.side_effects.enter_closed(effect_id),
            E::PatchMarked { patch_id } => self.patches.enter_closed(patch_id),
            E::WorkflowStarted { .. }
            | E::WorkflowCompleted { .. }
            | E::WorkflowFailed { .. }
            | E::WorkflowCancelled { .. }
            | E::WorkflowContinuedAsNew { .. }
            | E::WorkflowReset { .. }
            | E::SignalReceived { .. }
            | E::CancellationRequested { .. }
            | E::VersionMarked { .. }
            | E::SearchAttributesUpserted { .. } => Ok(()),
        }
    }

    /// Attempts need not grow: a reset or a requeued dead letter begins them again.
    fn attempt(&mut self, activity_id: &str, attempt: u32) -> Result<(), HistoryProblem> {
        let pending = self.activities.get_open_mut(activity_id)?;
        if attempt == 0 {
            return Err(HistoryProblem::AttemptZero);
        }
        pending.attempt = attempt;
        Ok(())
    }

    fn child_ended(&mut self, child_id: &str, run_id: Uuid) -> Result<(), HistoryProblem> {
        if *self.children.get_open(child_id)? != run_id {
            return Err(HistoryProblem::OtherChildRun {
                id: child_id.to_owned(),
            });
        }
        self.children.close(child_id)
    }
}
