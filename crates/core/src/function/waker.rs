//! The waker that a workflow's future is polled with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread::{self, ThreadId};

/// Rung when a workflow was woken from outside between two facts: nothing else would have it looked at.
pub type ForeignBell = Arc<dyn Fn() + Send + Sync>;

/// Tells wakes of the workflow itself from wakes by something that is none of its context's.
///
/// A wake during a step and on its thread comes from a resolved slot, or from one branch of the workflow to another: both
/// happen again on every replay. Any other wake comes from outside, and would not.
#[derive(Default)]
pub(super) struct StepWaker {
    step_on: Mutex<Option<ThreadId>>,
    woken: AtomicBool,
    foreign: AtomicBool,
    bell: Mutex<Option<ForeignBell>>,
}

impl StepWaker {
    /// A step begins or ends on this thread.
    pub(super) fn set_in_step(&self, on: bool) {
        *held(&self.step_on) = on.then(|| thread::current().id());
    }

    pub(super) fn set_bell(&self, bell: ForeignBell) {
        *held(&self.bell) = Some(bell);
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
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if *held(&self.step_on) == Some(thread::current().id()) {
            self.woken.store(true, Ordering::Release);
            return;
        }
        let known = self.foreign.swap(true, Ordering::AcqRel);
        let bell = held(&self.bell).clone();
        if let Some(bell) = bell.filter(|_| !known) {
            bell();
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
