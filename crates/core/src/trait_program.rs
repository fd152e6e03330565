//! The adapter for the [`Workflow`] trait.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::action::WorkflowAction;
use crate::fact::Fact;
use crate::failure::ActivityError;
use crate::options::ClosePolicy;
use crate::payload::Payload;
use crate::program::{Program, ProgramError};
use crate::signal::{WorkflowSignal, signal_types};
use crate::workflow::Workflow;

/// A [`Workflow`] as a [`Program`]: facts become `on_*` calls.
#[derive(Debug)]
pub struct TraitProgram<W> {
    /// None until the run begins.
    workflow: Option<W>,
    /// Children that a request to stop is passed on to, by the names they were given.
    children: BTreeSet<String>,
    cancelled: bool,
}

impl<W> Default for TraitProgram<W> {
    fn default() -> Self {
        Self {
            workflow: None,
            children: BTreeSet::new(),
            cancelled: false,
        }
    }
}

impl<W: Workflow> TraitProgram<W> {
    /// A run that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The workflow, once the run has begun.
    #[must_use]
    pub const fn workflow(&self) -> Option<&W> {
        self.workflow.as_ref()
    }

    fn note_children(&mut self, fact: &Fact, actions: &[WorkflowAction]) {
        if let Fact::ChildCompleted { child_id, .. } | Fact::ChildFailed { child_id, .. } = fact {
            self.children.remove(child_id);
        }
        for action in actions {
            match action {
                WorkflowAction::ScheduleChildWorkflow { workflow_id, .. } => {
                    self.children.insert(workflow_id.clone());
                }
                WorkflowAction::StartChildWorkflow {
                    workflow_id,
                    options,
                    ..
                } if options.close_policy != ClosePolicy::Abandon => {
                    self.children.insert(workflow_id.clone());
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, input: &Payload) -> Result<Vec<WorkflowAction>, ProgramError> {
        if self.workflow.is_some() {
            return Err(out_of_order::<W>());
        }
        let input = input.to_value().map_err(|source| ProgramError::Input {
            workflow_type: W::TYPE.to_owned(),
            source,
        })?;
        Ok(self.workflow.insert(W::new(input)).on_start())
    }
}

impl<W: Workflow> Program for TraitProgram<W> {
    fn workflow_type(&self) -> &str {
        W::TYPE
    }

    fn apply(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError> {
        let stops = !self.cancelled && is_request_to_stop(fact);
        let cascade = if stops {
            self.cancelled = true;
            std::mem::take(&mut self.children)
        } else {
            BTreeSet::new()
        };
        let mut actions = match (fact, &mut self.workflow) {
            (Fact::Started { input }, _) => self.begin(input)?,
            (_, None) => return Err(out_of_order::<W>()),
            (fact, Some(workflow)) => react(workflow, fact)?,
        };
        if let Some(workflow) = &self.workflow
            && workflow.is_completed()
            && !actions.iter().any(WorkflowAction::is_terminal)
        {
            actions.push(ending(workflow)?);
        }
        self.note_children(fact, &actions);
        pass_on(cascade, &mut actions);
        Ok(actions)
    }
}

fn is_request_to_stop(fact: &Fact) -> bool {
    match fact {
        Fact::CancelRequested { .. } => true,
        Fact::SignalReceived { signal } => signal.signal_type == signal_types::CANCEL,
        _ => false,
    }
}

/// A request to stop goes to the children too, unless the run ends with it: then their close policies say what becomes of them.
fn pass_on(children: BTreeSet<String>, actions: &mut Vec<WorkflowAction>) {
    if actions.iter().any(WorkflowAction::is_terminal) {
        return;
    }
    let told: BTreeSet<&String> = actions
        .iter()
        .filter_map(|action| match action {
            WorkflowAction::CancelChildWorkflow { workflow_id } => Some(workflow_id),
            _ => None,
        })
        .collect();
    let left: Vec<String> = children
        .into_iter()
        .filter(|child| !told.contains(child))
        .collect();
    actions.extend(
        left.into_iter()
            .map(|workflow_id| WorkflowAction::CancelChildWorkflow { workflow_id }),
    );
}

fn out_of_order<W: Workflow>() -> ProgramError {
    ProgramError::OutOfOrder {
        workflow_type: W::TYPE.to_owned(),
    }
}

fn react<W: Workflow>(workflow: &mut W, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError> {
    Ok(match fact {
        Fact::Started { .. } => return Err(out_of_order::<W>()),
        Fact::ActivityCompleted {
            activity_id,
            result,
        } => workflow.on_activity_completed(activity_id, read("activity", activity_id, result)?),
        Fact::ActivityFailed { activity_id, error } => {
            workflow.on_activity_failed(activity_id, &ActivityError::from_failure(error.clone()))
        }
        Fact::ActivityTimedOut {
            activity_id,
            timeout_type,
        } => {
            let error = ActivityError::from_failure(timeout_type.failure());
            workflow.on_activity_failed(activity_id, &error)
        }
        // The trait has no way to ask for one.
        Fact::LocalActivityCompleted { .. } | Fact::LocalActivityFailed { .. } => Vec::new(),
        Fact::TimerFired { timer_id } => workflow.on_timer_fired(timer_id),
        Fact::SignalReceived { signal } => workflow.on_signal(signal),
        Fact::ChildCompleted {
            child_id, result, ..
        } => workflow.on_child_completed(child_id, read("child", child_id, result)?),
        Fact::ChildFailed {
            child_id, error, ..
        } => workflow.on_child_failed(child_id, error),
        Fact::UpdateAccepted {
            update_id,
            name,
            input,
        } => workflow.on_update(update_id, name, read("update", update_id, input)?),
        Fact::HumanTaskDecided {
            task_id,
            decision,
            answer,
            ..
        } => {
            let answer = read("human task", task_id, answer)?;
            workflow.on_human_task_decided(task_id, decision, answer)
        }
        Fact::CancelRequested { reason } => workflow.on_signal(&cancel_signal(reason)),
    })
}

fn read(subject: &'static str, id: &str, payload: &Payload) -> Result<Value, ProgramError> {
    payload.to_value().map_err(|source| ProgramError::Payload {
        subject,
        id: id.to_owned(),
        source,
    })
}

/// The request to stop as the signal it is for this front door. History does not say when it was
/// made, and a replay must give what the first run gave: it is dated to the epoch.
fn cancel_signal(reason: &str) -> WorkflowSignal {
    WorkflowSignal {
        signal_id: None,
        signal_type: signal_types::CANCEL.to_owned(),
        payload: Payload::from_value(reason).expect("a string has a JSON form"),
        sent_at: Timestamp::UNIX_EPOCH,
    }
}

fn ending<W: Workflow>(workflow: &W) -> Result<WorkflowAction, ProgramError> {
    let result = match workflow.result() {
        None => Payload::null(),
        Some(Err(error)) => return Ok(WorkflowAction::FailWorkflow { error }),
        Some(Ok(output)) => {
            Payload::from_value(&output).map_err(|source| ProgramError::Output {
                workflow_type: W::TYPE.to_owned(),
                source,
            })?
        }
    };
    Ok(WorkflowAction::CompleteWorkflow { result })
}
