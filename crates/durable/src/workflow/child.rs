//! Calling another workflow.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use durable_core::function::{RunInfo, Ticket};
use durable_core::{
    ChildOptions, ClosePolicy, Payload, PayloadError, WorkflowAction, child_run_id,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::WorkflowResult;
use super::activity::{Stage, invalid_input, poll_stage, read};

/// A call of another workflow: a builder that is awaited. Dropped before it answered, it asks the child to stop.
#[must_use = "a call does nothing unless it is awaited"]
pub struct ChildCall<O> {
    workflow_type: String,
    run_id: Uuid,
    stage: Stage<Parts>,
    output: PhantomData<fn() -> O>,
}

struct Parts {
    ticket: Ticket,
    input: Result<Payload, PayloadError>,
    options: ChildOptions,
}

impl<O> ChildCall<O> {
    pub(super) fn new(
        ticket: Ticket,
        parent: &RunInfo,
        workflow_type: String,
        input: Result<Payload, PayloadError>,
    ) -> Self {
        let epoch = parent.attempt.saturating_sub(1);
        let run_id = child_run_id(parent.run_id, epoch, parent.iteration, &ticket.id());
        Self {
            workflow_type,
            run_id,
            stage: Stage::Building(Parts {
                ticket,
                input,
                options: ChildOptions::default(),
            }),
            output: PhantomData,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut ChildOptions)) -> Self {
        if let Stage::Building(parts) = &mut self.stage {
            change(&mut parts.options);
        }
        self
    }

    /// The child's run id.
    #[must_use]
    pub const fn run_id(&self) -> Uuid {
        self.run_id
    }

    /// The version it is pinned to, whether or not this process hosts it; without one, the newest that this process hosts.
    pub fn version(self, version: impl Into<String>) -> Self {
        self.with(|options| options.version = Some(version.into()))
    }

    /// What happens to it when this run ends first.
    pub fn close_policy(self, policy: ClosePolicy) -> Self {
        self.with(|options| options.close_policy = policy)
    }

    /// The user's own key for it: what its run is found by.
    pub fn workflow_id(self, workflow_id: impl Into<String>) -> Self {
        self.with(|options| options.workflow_id = Some(workflow_id.into()))
    }

    /// It goes on when this run ends first, and when this call is dropped.
    pub fn abandon(self) -> Self {
        self.close_policy(ClosePolicy::Abandon)
    }

    /// Time for the child, all its iterations together.
    pub fn execution_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.execution_timeout = Some(timeout))
    }

    /// Time for each of the child's iterations.
    pub fn run_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.run_timeout = Some(timeout))
    }

    /// Starts it and does not wait: it is on its own. Answers its run id.
    ///
    /// # Errors
    /// When its input has no JSON form.
    pub fn detach(self) -> WorkflowResult<Uuid> {
        let call = self.abandon();
        if let Stage::Building(parts) = call.stage {
            let action = action(
                parts.ticket.id(),
                &call.workflow_type,
                parts.input,
                parts.options,
            )?;
            parts.ticket.tell(action);
        }
        Ok(call.run_id)
    }
}

fn action(
    workflow_id: String,
    workflow_type: &str,
    input: Result<Payload, PayloadError>,
    options: ChildOptions,
) -> WorkflowResult<WorkflowAction> {
    let input = input.map_err(|error| invalid_input(workflow_type, &error))?;
    Ok(WorkflowAction::StartChildWorkflow {
        workflow_id,
        workflow_type: workflow_type.to_owned(),
        input,
        options,
    })
}

impl<O: DeserializeOwned> Future for ChildCall<O> {
    type Output = WorkflowResult<O>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let workflow_type = &this.workflow_type;
        let asked = poll_stage(&mut this.stage, cx, |parts| {
            let id = parts.ticket.id();
            let action = action(id, workflow_type, parts.input, parts.options)?;
            Ok(parts.ticket.ask(action))
        });
        asked.map(|outcome| read(workflow_type, outcome))
    }
}
