//! Calling an activity.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use durable_core::function::{Call, Ticket};
use durable_core::{
    ActivityOptions, CircuitBreakerConfig, ExhaustedPolicy, Payload, PayloadError, RateLimitConfig,
    RetryPolicy, WorkflowAction, WorkflowError, error_types,
};
use serde::de::DeserializeOwned;

use super::WorkflowResult;

/// A call of an activity: a builder that is awaited.
#[must_use = "a call does nothing unless it is awaited"]
pub struct ActivityCall<O> {
    activity_type: String,
    stage: Stage<Parts>,
    output: PhantomData<fn() -> O>,
}

/// Where a call that is built first stands.
pub(super) enum Stage<P> {
    Building(P),
    Asked(Call),
    Over,
}

struct Parts {
    ticket: Ticket,
    input: Result<Payload, PayloadError>,
    options: Box<ActivityOptions>,
}

impl<O> ActivityCall<O> {
    pub(super) fn new(
        ticket: Ticket,
        activity_type: String,
        input: Result<Payload, PayloadError>,
        mut options: ActivityOptions,
    ) -> Self {
        // What runs beside what is for the code to say (X2).
        options.sequential = false;
        Self {
            activity_type,
            stage: Stage::Building(Parts {
                ticket,
                input,
                options: Box::new(options),
            }),
            output: PhantomData,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut ActivityOptions)) -> Self {
        if let Stage::Building(parts) = &mut self.stage {
            change(&mut parts.options);
        }
        self
    }

    /// When it is tried again.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.with(|options| options.retry_policy = policy)
    }

    /// Longest time for one attempt.
    pub fn start_to_close(self, timeout: Duration) -> Self {
        self.with(|options| options.start_to_close_timeout = timeout)
    }

    /// Longest wait until a worker picks it up.
    pub fn schedule_to_start(self, timeout: Duration) -> Self {
        self.with(|options| options.schedule_to_start_timeout = timeout)
    }

    /// Longest time for all attempts together.
    pub fn schedule_to_close(self, timeout: Duration) -> Self {
        self.with(|options| options.schedule_to_close_timeout = Some(timeout))
    }

    /// Longest time between two heartbeats.
    pub fn heartbeat(self, timeout: Duration) -> Self {
        self.with(|options| options.heartbeat_timeout = Some(timeout))
    }

    /// Higher is run first.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|options| options.priority = priority)
    }

    /// A breaker that guards it.
    pub fn circuit_breaker(self, breaker: CircuitBreakerConfig) -> Self {
        self.with(|options| options.circuit_breaker = Some(breaker))
    }

    /// A limit on how often it is started.
    pub fn rate_limit(self, limit: RateLimitConfig) -> Self {
        self.with(|options| options.rate_limit = Some(limit))
    }

    /// What happens when no attempt is left.
    pub fn on_exhausted(self, policy: ExhaustedPolicy) -> Self {
        self.with(|options| options.on_exhausted = policy)
    }

    /// Replaces all its options.
    pub fn options(self, options: ActivityOptions) -> Self {
        self.with(|all| {
            *all = options;
            all.sequential = false;
        })
    }
}

impl<O: DeserializeOwned> Future for ActivityCall<O> {
    type Output = WorkflowResult<O>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let activity_type = &this.activity_type;
        let asked = poll_stage(&mut this.stage, cx, |parts| {
            let input = parts
                .input
                .map_err(|error| invalid_input(activity_type, &error))?;
            let activity_id = parts.ticket.id();
            Ok(parts.ticket.ask(WorkflowAction::ScheduleActivity {
                activity_id,
                activity_type: activity_type.clone(),
                input,
                options: *parts.options,
            }))
        });
        asked.map(|outcome| read(activity_type, outcome))
    }
}

/// Asks when first polled, and waits from then on.
pub(super) fn poll_stage<P>(
    stage: &mut Stage<P>,
    cx: &mut Context<'_>,
    ask: impl FnOnce(P) -> WorkflowResult<Call>,
) -> Poll<WorkflowResult<Payload>> {
    if let Stage::Building(_) = stage {
        let Stage::Building(parts) = std::mem::replace(stage, Stage::Over) else {
            unreachable!("it was being built a line above");
        };
        match ask(parts) {
            Ok(call) => *stage = Stage::Asked(call),
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    let Stage::Asked(call) = stage else {
        panic!("a call of a workflow was polled after it had answered");
    };
    let polled = Pin::new(call).poll(cx);
    if polled.is_ready() {
        *stage = Stage::Over;
    }
    polled
}

pub(super) fn invalid_input(what: &str, error: &PayloadError) -> WorkflowError {
    WorkflowError::new(
        error_types::INVALID_INPUT,
        format!("input of {what}: {error}"),
    )
}

pub(super) fn read<O: DeserializeOwned>(
    what: &str,
    outcome: WorkflowResult<Payload>,
) -> WorkflowResult<O> {
    outcome?.to_value().map_err(|error| {
        WorkflowError::new(
            error_types::INVALID_PAYLOAD,
            format!("result of {what}: {error}"),
        )
    })
}
