//! Setting up an update.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use durable_core::function::{Context, UpdateFuture, UpdateHandler};
use durable_core::{Failure, Payload, PayloadError, WorkflowError, error_types};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::unconstrained;

use super::WorkflowResult;

/// An update that was set up; [`UpdateSetup::validate`] adds a check.
pub struct UpdateSetup<I> {
    context: Context,
    name: String,
    handler: UpdateHandler,
    input: PhantomData<fn(I)>,
}

impl<I: DeserializeOwned + Send + 'static> UpdateSetup<I> {
    pub(super) fn new<O, F, Fut>(context: Context, name: String, handler: F) -> Self
    where
        O: Serialize + Send + 'static,
        F: Fn(I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = WorkflowResult<O>> + Send + 'static,
    {
        let run = move |input: Payload| -> UpdateFuture {
            let handling = input.to_value().map(&handler);
            // As for a workflow's own body.
            Box::pin(unconstrained(async move {
                let answer = handling.map_err(unreadable)?.await;
                let answer = answer.map_err(WorkflowError::into_failure)?;
                Payload::from_value(&answer).map_err(unwritable)
            }))
        };
        let handler = UpdateHandler {
            run: Arc::new(run),
            validate: Some(Arc::new(|input: &Payload| read::<I>(input).map(|_| ()))),
        };
        context.on_update(name.clone(), handler.clone());
        Self {
            context,
            name,
            handler,
            input: PhantomData,
        }
    }

    /// A check that is made before anything of an update is recorded: refused there, it never happened. It may look at the
    /// workflow and must not change it; what it asks the context for comes to nothing, and if it panics the update is refused.
    pub fn validate<E: Into<WorkflowError>>(
        mut self,
        check: impl Fn(&I) -> Result<(), E> + Send + Sync + 'static,
    ) {
        let validate = move |input: &Payload| {
            check(&read(input)?).map_err(|error| error.into().into_failure())
        };
        self.handler.validate = Some(Arc::new(validate));
        self.context.on_update(self.name, self.handler);
    }
}

fn read<I: DeserializeOwned>(input: &Payload) -> Result<I, Failure> {
    input.to_value().map_err(unreadable)
}

#[allow(clippy::needless_pass_by_value, reason = "passed to map_err")]
pub(super) fn unreadable(error: PayloadError) -> Failure {
    Failure::new(error_types::INVALID_INPUT, error.to_string()).non_retryable()
}

#[allow(clippy::needless_pass_by_value, reason = "passed to map_err")]
pub(super) fn unwritable(error: PayloadError) -> Failure {
    Failure::new(error_types::INVALID_OUTPUT, error.to_string()).non_retryable()
}
