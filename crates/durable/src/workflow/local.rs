//! Calling a local activity.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use durable_core::function::Ticket;
use durable_core::{LocalCall, LocalOptions, Payload, PayloadError, RetryPolicy};
use serde::de::DeserializeOwned;

use super::WorkflowResult;
use super::activity::{Stage, invalid_input, poll_stage, read};

/// A call of a local activity: a builder that is awaited.
#[must_use = "a call does nothing unless it is awaited"]
pub struct LocalActivityCall<O> {
    activity_type: String,
    stage: Stage<Parts>,
    output: PhantomData<fn() -> O>,
}

struct Parts {
    ticket: Ticket,
    input: Result<Payload, PayloadError>,
    options: LocalOptions,
}

impl<O> LocalActivityCall<O> {
    pub(super) fn new(
        ticket: Ticket,
        activity_type: String,
        input: Result<Payload, PayloadError>,
    ) -> Self {
        Self {
            activity_type,
            stage: Stage::Building(Parts {
                ticket,
                input,
                options: LocalOptions::default(),
            }),
            output: PhantomData,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut LocalOptions)) -> Self {
        if let Stage::Building(parts) = &mut self.stage {
            change(&mut parts.options);
        }
        self
    }

    /// When it is tried again, in the same process and at once; by default it is not.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.with(|options| options.retry_policy = policy)
    }

    /// Longest time for one attempt.
    pub fn start_to_close(self, timeout: Duration) -> Self {
        self.with(|options| options.start_to_close_timeout = timeout)
    }
}

impl<O: DeserializeOwned> Future for LocalActivityCall<O> {
    type Output = WorkflowResult<O>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let activity_type = &this.activity_type;
        let asked = poll_stage(&mut this.stage, cx, |parts| {
            let input = parts
                .input
                .map_err(|error| invalid_input(activity_type, &error))?;
            let activity_id = parts.ticket.id();
            Ok(parts.ticket.ask_local(LocalCall {
                activity_id,
                activity_type: activity_type.clone(),
                input,
                options: parts.options,
            }))
        });
        asked.map(|outcome| read(activity_type, outcome))
    }
}
