//! Waiting for a signal.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use durable_core::function::SignalWait;
use durable_core::{WorkflowError, WorkflowSignal, error_types};
use serde::de::DeserializeOwned;

use super::{Sleep, Span, WorkflowContext, WorkflowResult};

/// A wait for a signal: to be awaited. Dropped before it answered, it leaves the signal to the next who waits.
#[must_use = "a wait does nothing unless it is awaited"]
pub struct SignalCall<T> {
    ctx: WorkflowContext,
    name: String,
    wait: SignalWait,
    payload: PhantomData<fn() -> T>,
}

impl<T> SignalCall<T> {
    pub(super) fn new(
        ctx: WorkflowContext,
        name: String,
        place: &'static Location<'static>,
    ) -> Self {
        let wait = ctx.core.signal(name.clone(), place);
        Self {
            ctx,
            name,
            wait,
            payload: PhantomData,
        }
    }

    /// Gives up after a while: then the answer is None, and a signal that comes later stays for the next who waits.
    #[track_caller]
    pub fn timeout(self, span: impl Span) -> SignalOrTimeout<T> {
        let sleep = self.ctx.sleep(span);
        SignalOrTimeout {
            waits: Some((self, sleep)),
        }
    }
}

impl<T: DeserializeOwned> Future for SignalCall<T> {
    type Output = WorkflowResult<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.wait).poll(cx);
        polled.map(|signal| read(&this.name, &signal?))
    }
}

fn read<T: DeserializeOwned>(name: &str, signal: &WorkflowSignal) -> WorkflowResult<T> {
    signal.payload.to_value().map_err(|error| {
        let message = format!("payload of signal {name:?}: {error}");
        WorkflowError::new(error_types::INVALID_PAYLOAD, message)
    })
}

/// A wait for a signal that gives up after a while: to be awaited.
#[must_use = "a wait does nothing unless it is awaited"]
pub struct SignalOrTimeout<T> {
    /// None once one of them has answered: dropping the other cancels the timer, or leaves the signal to the next who waits.
    waits: Option<(SignalCall<T>, Sleep)>,
}

impl<T: DeserializeOwned> Future for SignalOrTimeout<T> {
    type Output = WorkflowResult<Option<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (signal, sleep) = self
            .waits
            .as_mut()
            .expect("a wait for a signal was polled after it had answered");
        let answer = match Pin::new(signal).poll(cx) {
            Poll::Ready(signal) => signal.map(Some),
            Poll::Pending => match Pin::new(sleep).poll(cx) {
                Poll::Ready(slept) => slept.map(|()| None),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.waits = None;
        Poll::Ready(answer)
    }
}
