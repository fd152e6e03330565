//! Scopes: a part of a workflow that can be abandoned from another part.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

/// Something to abandon from outside. Cheap to clone.
///
/// ```
/// use durable_core::function::Scope;
///
/// let scope = Scope::new();
/// scope.cancel();
/// assert!(scope.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Scope {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    cancelled: bool,
    wakers: Vec<Waker>,
}

impl Scope {
    /// A scope that has not been cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Abandons what runs in it, and what will.
    pub fn cancel(&self) {
        let wakers = {
            let mut inner = self.inner();
            inner.cancelled = true;
            std::mem::take(&mut inner.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner().cancelled
    }

    /// Runs a part of the workflow in it. None: it was cancelled, and what the part waited for is given up.
    pub fn run<F: Future>(&self, part: F) -> Scoped<F> {
        Scoped {
            scope: self.clone(),
            part: Some(Box::pin(part)),
        }
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// A part of a workflow that runs in a scope.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Scoped<F> {
    scope: Scope,
    part: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Scoped<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.scope.is_cancelled() {
            // Dropping the part gives up its calls.
            self.part = None;
            return Poll::Ready(None);
        }
        let Some(part) = &mut self.part else {
            return Poll::Ready(None);
        };
        match part.as_mut().poll(cx) {
            Poll::Ready(output) => {
                self.part = None;
                Poll::Ready(Some(output))
            }
            Poll::Pending if self.scope.is_cancelled() => {
                self.part = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let mut inner = self.scope.inner();
                if !inner.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    inner.wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
