//! Shields: a part of a workflow that goes on when the run is asked to stop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::state::Shared;

/// A part of a workflow that goes on when the run is asked to stop. Made by [`Context::shield`](super::Context::shield).
///
/// A call is shielded if it is first polled in here; one that was asked for before is not.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Shielded<F> {
    pub(super) shared: Arc<Shared>,
    pub(super) part: Pin<Box<F>>,
}

impl<F: Future> Future for Shielded<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        let before = std::mem::replace(&mut self.shared.state().shielding, true);
        let polled = self.part.as_mut().poll(cx);
        self.shared.state().shielding = before;
        polled
    }
}
