//! What is compared when a history is replayed: the action an event records.

use std::fmt;

use crate::event::WorkflowEvent;
use crate::failure::error_types;

/// What an action asks for, as far as replay compares it: kind, id and type, not input and options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// What is asked for.
    pub kind: RequestKind,
    /// Which one, where the kind has ids.
    pub id: Option<String>,
    /// Of which type, where the kind has types.
    pub type_name: Option<String>,
}

/// The kinds of actions that leave an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Run an activity.
    ScheduleActivity,
    /// Give one up.
    CancelActivity,
    /// Start a timer.
    StartTimer,
    /// Forget one.
    CancelTimer,
    /// Start a child.
    ScheduleChildWorkflow,
    /// Ask one to stop.
    CancelChildWorkflow,
    /// Make a value once.
    RecordSideEffect,
    /// End with a result.
    CompleteWorkflow,
    /// End with an error.
    FailWorkflow,
    /// End as cancelled.
    CancelWorkflow,
    /// Go on with an empty history.
    ContinueAsNew,
    /// Answer an update.
    CompleteUpdate,
    /// Answer an update with an error.
    FailUpdate,
    /// Ask a person.
    OpenHumanTask,
    /// Set search attributes.
    UpsertSearchAttributes,
}

impl Request {
    /// The request that an event records, if it records one.
    #[must_use]
    pub fn of_event(event: &WorkflowEvent) -> Option<Self> {
        use RequestKind as K;
        use WorkflowEvent as E;
        let (kind, id, type_name) = match event {
            E::ActivityScheduled {
                activity_id,
                activity_type,
                ..
            } => (K::ScheduleActivity, Some(activity_id), Some(activity_type)),
            E::ActivityCancelled { activity_id, .. } => {
                (K::CancelActivity, Some(activity_id), None)
            }
            E::TimerStarted { timer_id, .. } => (K::StartTimer, Some(timer_id), None),
            E::TimerCancelled { timer_id } => (K::CancelTimer, Some(timer_id), None),
            E::ChildWorkflowStarted {
                child_id,
                workflow_type,
                ..
            } => (
                K::ScheduleChildWorkflow,
                Some(child_id),
                Some(workflow_type),
            ),
            E::ChildWorkflowCancelRequested { child_id, .. } => {
                (K::CancelChildWorkflow, Some(child_id), None)
            }
            E::WorkflowCompleted { .. } => (K::CompleteWorkflow, None, None),
            E::WorkflowFailed { .. } => (K::FailWorkflow, None, None),
            E::WorkflowCancelled { .. } => (K::CancelWorkflow, None, None),
            E::WorkflowContinuedAsNew { .. } => (K::ContinueAsNew, None, None),
            E::UpdateCompleted { update_id, .. } => (K::CompleteUpdate, Some(update_id), None),
            E::UpdateFailed { update_id, .. } => (K::FailUpdate, Some(update_id), None),
            E::HumanTaskOpened { task_id, .. } => (K::OpenHumanTask, Some(task_id), None),
            E::SearchAttributesUpserted { .. } => (K::UpsertSearchAttributes, None, None),
            _ => return None,
        };
        Some(Self {
            kind,
            id: id.cloned(),
            type_name: type_name.cloned(),
        })
    }
}

/// Whether the event may have been written without the program asking: a run that has met a request to
/// stop, was terminated, or is out of time.
pub(crate) fn may_be_imposed(event: &WorkflowEvent) -> bool {
    match event {
        WorkflowEvent::WorkflowCancelled { .. } => true,
        WorkflowEvent::WorkflowFailed { error } => matches!(
            error.error_type.as_str(),
            error_types::WORKFLOW_TERMINATED
                | error_types::EXECUTION_TIMEOUT
                | error_types::RUN_TIMEOUT
        ),
        _ => false,
    }
}

/// Whether the event keeps a value that the program must be given back on replay.
pub(crate) const fn is_memory(event: &WorkflowEvent) -> bool {
    matches!(
        event,
        WorkflowEvent::SideEffectRecorded { .. } | WorkflowEvent::PatchMarked { .. }
    )
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        if let Some(id) = &self.id {
            write!(f, " {id:?}")?;
        }
        if let Some(type_name) = &self.type_name {
            write!(f, " of type {type_name:?}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScheduleActivity => "schedule activity",
            Self::CancelActivity => "cancel activity",
            Self::StartTimer => "start timer",
            Self::CancelTimer => "cancel timer",
            Self::ScheduleChildWorkflow => "start child",
            Self::CancelChildWorkflow => "cancel child",
            Self::RecordSideEffect => "record side effect",
            Self::CompleteWorkflow => "complete the workflow",
            Self::FailWorkflow => "fail the workflow",
            Self::CancelWorkflow => "end the workflow as cancelled",
            Self::ContinueAsNew => "continue as new",
            Self::CompleteUpdate => "answer update",
            Self::FailUpdate => "refuse update",
            Self::OpenHumanTask => "open human task",
            Self::UpsertSearchAttributes => "set search attributes",
        })
    }
}
