//! Waiting for something that may be cancelled meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use everruns_durable::prelude::WorkflowResult;

use super::Interpreter;
use super::exit::Exit;
use super::strand::{Strand, Token};

impl Interpreter<'_> {
    /// Waits for a call. Cancelled, the call is given up.
    pub(super) async fn wait<T: Send>(
        &self,
        strand: &Strand,
        call: impl Future<Output = WorkflowResult<T>> + Send,
    ) -> Result<T, Exit> {
        let call: Pin<Box<dyn Future<Output = WorkflowResult<T>> + Send + '_>> =
            if strand.is_shielded() {
                Box::pin(self.ctx.shield(call))
            } else {
                Box::pin(call)
            };
        let wait = Wait {
            call,
            token: strand.token(),
        };
        match wait.await {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) if error.is_cancelled() && strand.is_cancelled(&self.ctx) => {
                Err(Exit::Cancelled)
            }
            Some(Err(error)) => Err(Exit::of(error)),
            None => Err(Exit::Cancelled),
        }
    }
}

struct Wait<'a, T> {
    call: Pin<Box<dyn Future<Output = WorkflowResult<T>> + Send + 'a>>,
    token: &'a Token,
}

impl<T> Future for Wait<'_, T> {
    /// None: it was cancelled.
    type Output = Option<WorkflowResult<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.token.is_cancelled() {
            return Poll::Ready(None);
        }
        self.call.as_mut().poll(cx).map(Some)
    }
}
