//! Signals: those that wait to be read, and those who wait for one.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use super::state::{Place, Shared, cancelled};
use crate::failure::WorkflowError;
use crate::signal::WorkflowSignal;

/// Signals by arrival and by name; those who wait for one, first come first served.
#[derive(Default)]
pub(super) struct Mail {
    arrivals: u64,
    unread: BTreeMap<u64, WorkflowSignal>,
    by_name: BTreeMap<String, BTreeSet<u64>>,
    next_waiter: u64,
    waiters: BTreeMap<u64, Waiter>,
}

struct Waiter {
    name: String,
    shielded: bool,
    place: Place,
    waker: Waker,
    given: Option<Given>,
}

enum Given {
    Signal(u64, WorkflowSignal),
    Cancelled(WorkflowError),
}

impl Mail {
    pub(super) fn arrive(&mut self, signal: WorkflowSignal) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.put(arrival, signal);
    }

    fn put(&mut self, arrival: u64, signal: WorkflowSignal) {
        let first = self
            .waiters
            .values_mut()
            .find(|waiter| waiter.given.is_none() && waiter.name == signal.signal_type);
        if let Some(waiter) = first {
            waiter.given = Some(Given::Signal(arrival, signal));
            waiter.waker.wake_by_ref();
            return;
        }
        let name = signal.signal_type.clone();
        self.by_name.entry(name).or_default().insert(arrival);
        self.unread.insert(arrival, signal);
    }

    /// The oldest unread signal of a name.
    pub(super) fn take(&mut self, name: &str) -> Option<WorkflowSignal> {
        self.take_numbered(name).map(|(_, signal)| signal)
    }

    fn take_numbered(&mut self, name: &str) -> Option<(u64, WorkflowSignal)> {
        let numbers = self.by_name.get_mut(name)?;
        let arrival = numbers.pop_first()?;
        if numbers.is_empty() {
            self.by_name.remove(name);
        }
        let signal = self.unread.remove(&arrival)?;
        Some((arrival, signal))
    }

    pub(super) fn take_unread(&mut self) -> Vec<WorkflowSignal> {
        self.by_name.clear();
        std::mem::take(&mut self.unread).into_values().collect()
    }

    pub(super) fn cancel(&mut self, reason: &str) {
        for waiter in self.waiters.values_mut() {
            if waiter.given.is_none() && !waiter.shielded {
                waiter.given = Some(Given::Cancelled(cancelled(reason)));
                waiter.waker.wake_by_ref();
            }
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waiters.values().any(|waiter| waiter.given.is_none())
    }

    /// Names that somebody waits for, in the order of the alphabet.
    pub(super) fn awaited(&self) -> Vec<String> {
        let open = self.waiters.values().filter(|w| w.given.is_none());
        let names: BTreeSet<String> = open.map(|waiter| waiter.name.clone()).collect();
        names.into_iter().collect()
    }

    pub(super) fn waits_at(&self) -> impl Iterator<Item = Place> {
        self.waiters.values().map(|waiter| waiter.place)
    }

    /// Stops waiting; a signal that was given and not fetched goes back to its place.
    fn leave(&mut self, key: u64) {
        if let Some(Waiter {
            given: Some(Given::Signal(arrival, signal)),
            ..
        }) = self.waiters.remove(&key)
        {
            self.put(arrival, signal);
        }
    }
}

/// Waits for a signal. Made by [`Context::signal`](super::Context::signal).
///
/// Dropped before it has answered, it leaves the signal to the next who waits.
#[must_use = "a future does nothing unless it is awaited"]
pub struct SignalWait {
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) key: Option<u64>,
}

impl Future for SignalWait {
    type Output = Result<WorkflowSignal, WorkflowError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = this.shared.state();
        if state.is_aside() {
            return Poll::Pending;
        }
        let shielded = state.shielding;
        let mail = &mut state.mail;
        let Some(key) = this.key else {
            if let Some(signal) = mail.take(&this.name) {
                return Poll::Ready(Ok(signal));
            }
            mail.next_waiter += 1;
            let waiter = Waiter {
                name: this.name.clone(),
                shielded,
                place: this.place,
                waker: cx.waker().clone(),
                given: None,
            };
            mail.waiters.insert(mail.next_waiter, waiter);
            this.key = Some(mail.next_waiter);
            return Poll::Pending;
        };
        let waiter = mail
            .waiters
            .get_mut(&key)
            .expect("a wait that was not answered is registered");
        match waiter.given.take() {
            Some(given) => {
                mail.waiters.remove(&key);
                drop(state);
                this.key = None;
                Poll::Ready(match given {
                    Given::Signal(_, signal) => Ok(signal),
                    Given::Cancelled(error) => Err(error),
                })
            }
            None => {
                waiter.waker.clone_from(cx.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for SignalWait {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.state().mail.leave(key);
        }
    }
}
