//! Conditions over the workflow's own state, and those who wait for one to hold.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use super::state::{Place, Shared, cancelled};
use crate::failure::WorkflowError;

/// Looks at the workflow's own state.
pub(super) type Holds = Arc<dyn Fn() -> bool + Send + Sync>;

/// Conditions that are waited for, in the order in which they were set up.
#[derive(Default)]
pub(super) struct Conditions {
    next_key: u64,
    waited_for: BTreeMap<u64, Condition>,
}

struct Condition {
    shielded: bool,
    holds: Holds,
    what: Option<String>,
    place: Place,
    waker: Waker,
    /// Whether it was woken since it was last polled. Code that keeps a wait and does not poll it is woken once, not for ever.
    woken: bool,
    cancelled: Option<WorkflowError>,
}

impl Conditions {
    pub(super) fn is_empty(&self) -> bool {
        self.waited_for.is_empty()
    }

    pub(super) fn waits_at(&self) -> impl Iterator<Item = Place> {
        self.waited_for.values().map(|condition| condition.place)
    }

    /// What is waited for, where the code says so.
    pub(super) fn awaited(&self) -> Vec<Option<String>> {
        let open = self.waited_for.values();
        let open = open.filter(|condition| condition.cancelled.is_none());
        open.map(|condition| condition.what.clone()).collect()
    }

    pub(super) fn cancel(&mut self, reason: &str) {
        let exposed = self.waited_for.values_mut();
        for condition in exposed.filter(|condition| !condition.shielded) {
            condition.cancelled = Some(cancelled(reason));
            condition.waker.wake_by_ref();
        }
    }

    /// Those that nobody has been woken for.
    pub(super) fn to_look_at(&self) -> Vec<(u64, Holds)> {
        let asleep = self.waited_for.iter().filter(|(_, it)| !it.woken);
        asleep
            .map(|(key, condition)| (*key, Arc::clone(&condition.holds)))
            .collect()
    }

    pub(super) fn wake(&mut self, key: u64) {
        if let Some(condition) = self.waited_for.get_mut(&key) {
            condition.woken = true;
            condition.waker.wake_by_ref();
        }
    }
}

/// Waits until a condition over the workflow's own state holds. Made by [`Context::until`](super::Context::until).
#[must_use = "a future does nothing unless it is awaited"]
pub struct Until {
    pub(super) shared: Arc<Shared>,
    pub(super) holds: Holds,
    pub(super) what: Option<String>,
    pub(super) place: Place,
    pub(super) key: Option<u64>,
}

impl Until {
    /// Says what is waited for, as in "the run waits for …": for those who ask why the run does not go on.
    pub fn described(mut self, what: impl Into<String>) -> Self {
        self.what = Some(what.into());
        self
    }

    fn leave(&mut self) {
        if let Some(key) = self.key.take() {
            self.shared.state().conditions.waited_for.remove(&key);
        }
    }
}

impl Future for Until {
    type Output = Result<(), WorkflowError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if (self.holds)() {
            self.leave();
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        let mut state = this.shared.state();
        if state.is_aside() {
            return Poll::Pending;
        }
        let shielded = state.shielding;
        let conditions = &mut state.conditions;
        let key = *this.key.get_or_insert_with(|| {
            conditions.next_key += 1;
            conditions.next_key
        });
        let condition = conditions
            .waited_for
            .entry(key)
            .or_insert_with(|| Condition {
                shielded,
                holds: Arc::clone(&this.holds),
                what: this.what.clone(),
                place: this.place,
                waker: cx.waker().clone(),
                woken: false,
                cancelled: None,
            });
        if let Some(error) = condition.cancelled.take() {
            drop(state);
            this.leave();
            return Poll::Ready(Err(error));
        }
        condition.woken = false;
        condition.waker.clone_from(cx.waker());
        Poll::Pending
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        self.leave();
    }
}
