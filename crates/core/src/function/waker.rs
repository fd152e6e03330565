//! The waker that a workflow's future is polled with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Wake;
use std::thread::{self, ThreadId};

/// Tells wakes of the workflow itself from wakes by something that is none of its context's.
///
/// A wake during a step and on its thread comes from a resolved slot, or from one branch of the workflow to another: both
/// happen again on every replay. Any other wake comes from outside, and would not.
#[derive(Default)]
pub(super) struct StepWaker {
    step_on: Mutex<Option<ThreadId>>,
    woken: AtomicBool,
    foreign: AtomicBool,
}

impl StepWaker {
    /// A step begins or ends on this thread.
    pub(super) fn set_in_step(&self, on: bool) {
        let mut step_on = self.step_on.lock().unwrap_or_else(PoisonError::into_inner);
        *step_on = on.then(|| thread::current().id());
    }

    pub(super) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Whether something outside has ever woken the workflow.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }
}

impl Wake for StepWaker {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        let step_on = *self.step_on.lock().unwrap_or_else(PoisonError::into_inner);
        let flag = if step_on == Some(thread::current().id()) {
            &self.woken
        } else {
            &self.foreign
        };
        flag.store(true, Ordering::Release);
    }
}
