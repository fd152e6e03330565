//! What the calls of one workflow share.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::calls::Outcome;
use super::conditions::Conditions;
use super::context::Birth;
use super::handlers::Handlers;
use super::mail::Mail;
use super::memory::Memory;
use crate::action::WorkflowAction;
use crate::failure::{WorkflowError, error_types};
use crate::local::LocalCall;
use crate::options::ClosePolicy;
use crate::payload::Payload;

/// A place in the code.
pub(super) type Place = &'static Location<'static>;

/// What the program, its context and its calls share.
///
/// The lock is a plain one and never held while code of the user's runs.
pub(super) struct Shared {
    pub(super) birth: Birth,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(birth: Birth) -> Arc<Self> {
        Arc::new(Self {
            birth,
            state: Mutex::new(State::default()),
        })
    }

    /// A panic in the workflow ends its program, so what it left behind is never used.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a handler look at the workflow, which is left as it was, also where the handler panics.
    pub(super) fn aside<T>(&self, look: impl FnOnce() -> T) -> T {
        let _aside = Aside::begin(self);
        look()
    }
}

/// A handler looks; afterwards the workflow stands where it stood.
struct Aside<'a> {
    shared: &'a Shared,
    position: u64,
    last_call: Option<Place>,
}

impl<'a> Aside<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let mut state = shared.state();
        state.aside = true;
        Self {
            shared,
            position: state.next_position,
            last_call: state.last_call,
        }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.aside = false;
        state.next_position = self.position;
        state.last_call = self.last_call;
    }
}

#[derive(Default)]
pub(super) struct State {
    next_position: u64,
    /// Asked for since the last step, in the order of the calls; a call is given up after it was made.
    requested: BTreeMap<(u64, Way), (WorkflowAction, Place)>,
    /// Calls that were asked for and have not been answered.
    open: BTreeMap<u64, Open>,
    /// How many of the open calls are local activities.
    open_locals: usize,
    /// Calls whose outcome the code has not fetched. No call is both open and answered.
    answered: BTreeMap<u64, Answered>,
    local_calls: Vec<LocalCall>,
    pub(super) mail: Mail,
    pub(super) handlers: Handlers,
    pub(super) memory: Memory,
    pub(super) conditions: Conditions,
    cancelled: Option<String>,
    /// While a handler looks that may leave no trace.
    aside: bool,
    pub(super) shutting_down: bool,
    /// Whether what is polled now is shielded: what it asks for goes on when the run is asked to stop.
    pub(super) shielding: bool,
    pub(super) continue_with: Option<Payload>,
    /// Where the last call was made.
    last_call: Option<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Asked,
    GivenUp,
}

/// A call that was asked for and has not been answered.
struct Open {
    kind: OpenKind,
    shielded: bool,
    place: Place,
    waker: Waker,
}

/// A call whose outcome has come and has not been fetched.
struct Answered {
    outcome: Outcome,
    /// Kept until the call is polled or dropped. A waker may own the future that polls the call,
    /// and dropping that future here would take the state's lock a second time.
    _waker: Waker,
}

/// What has to be done when a call is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenKind {
    Activity,
    Local,
    Timer,
    Child(ClosePolicy),
    HumanTask,
}

impl State {
    pub(super) fn new_position(&mut self, place: Place) -> u64 {
        self.next_position += 1;
        self.last_call = Some(place);
        self.next_position
    }

    /// Whether a handler looks that may leave no trace: whatever it asks for comes to nothing.
    pub(super) const fn is_aside(&self) -> bool {
        self.aside
    }

    pub(super) fn request(&mut self, position: u64, action: WorkflowAction, place: Place) {
        if self.aside {
            return;
        }
        self.requested
            .insert((position, Way::Asked), (action, place));
    }

    pub(super) fn open(&mut self, position: u64, kind: OpenKind, place: Place, waker: Waker) {
        if self.aside {
            return;
        }
        let open = Open {
            kind,
            shielded: self.shielding,
            place,
            waker,
        };
        self.open_locals += usize::from(kind == OpenKind::Local);
        self.open.insert(position, open);
    }

    /// Takes a call from those that are open, if it is one of them.
    fn close(&mut self, position: u64) -> Option<Open> {
        let open = self.open.remove(&position)?;
        self.open_locals -= usize::from(open.kind == OpenKind::Local);
        Some(open)
    }

    /// Answers an open call; one that is not open is not answered. What the call was, if it was
    /// open.
    fn answer(&mut self, position: u64, outcome: Outcome) -> Option<(OpenKind, Place)> {
        let Open {
            kind, place, waker, ..
        } = self.close(position)?;
        waker.wake_by_ref();
        let answered = Answered {
            outcome,
            _waker: waker,
        };
        self.answered.insert(position, answered);
        Some((kind, place))
    }

    pub(super) fn want_local(&mut self, call: LocalCall) {
        if !self.aside {
            self.local_calls.push(call);
        }
    }

    /// Those whose outcome has not come: on replay most have.
    pub(super) fn take_local_calls(&mut self) -> Vec<LocalCall> {
        let mut calls = std::mem::take(&mut self.local_calls);
        calls.retain(|call| {
            let position = call.activity_id.parse::<u64>();
            position.is_ok_and(|position| self.open.contains_key(&position))
        });
        calls
    }

    pub(super) const fn waits_for_local(&self) -> bool {
        self.open_locals > 0
    }

    /// The outcome of a call, once; until then its waker is kept.
    pub(super) fn poll_open(&mut self, position: u64, waker: &Waker) -> Poll<Outcome> {
        if let Some(open) = self.open.get_mut(&position) {
            open.waker.clone_from(waker);
            return Poll::Pending;
        }
        match self.answered.remove(&position) {
            Some(answered) => Poll::Ready(answered.outcome),
            None => Poll::Pending,
        }
    }

    /// Something a call waits for has come. One that nobody waits for any more came too late.
    pub(super) fn resolve(&mut self, id: &str, outcome: Outcome) {
        if let Ok(position) = id.parse() {
            self.answer(position, outcome);
        }
    }

    /// Nobody will fetch the outcome of a call.
    pub(super) fn give_up(&mut self, position: u64) {
        match self.close(position) {
            Some(open) => self.undo(position, open.kind, open.place),
            None => drop(self.answered.remove(&position)),
        }
    }

    fn undo(&mut self, position: u64, kind: OpenKind, place: Place) {
        let id = position.to_string();
        if self.requested.remove(&(position, Way::Asked)).is_some() {
            // Asked for and given up in one step: it never happened.
            return;
        }
        let action = match kind {
            OpenKind::Activity => WorkflowAction::CancelActivity { activity_id: id },
            OpenKind::Timer => WorkflowAction::CancelTimer { timer_id: id },
            OpenKind::Child(ClosePolicy::Abandon) | OpenKind::HumanTask => return,
            OpenKind::Child(_) => WorkflowAction::CancelChildWorkflow { workflow_id: id },
            OpenKind::Local => {
                self.local_calls.retain(|call| call.activity_id != id);
                return;
            }
        };
        self.requested
            .insert((position, Way::GivenUp), (action, place));
    }

    /// Delivers a request to stop, once: everything that is waited for now answers with it, save what is shielded. What is asked
    /// for later is cleaning up.
    pub(super) fn cancel(&mut self, reason: &str) {
        if self.cancelled.is_some() {
            return;
        }
        self.cancelled = Some(reason.to_owned());
        let waiting: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| !open.shielded)
            .map(|(position, _)| *position)
            .collect();
        for position in waiting {
            if let Some((kind, place)) = self.answer(position, Err(cancelled(reason))) {
                self.undo(position, kind, place);
            }
        }
        self.mail.cancel(reason);
        self.conditions.cancel(reason);
    }

    pub(super) fn cancel_reason(&self) -> Option<&str> {
        self.cancelled.as_deref()
    }

    /// Whether anything that only a fact can bring is waited for.
    pub(super) fn waits(&self) -> bool {
        !self.open.is_empty() || self.mail.is_waited_for() || !self.conditions.is_empty()
    }

    /// The actions asked for since this was last called, by the positions of their calls.
    pub(super) fn take_actions(&mut self) -> Vec<WorkflowAction> {
        std::mem::take(&mut self.requested)
            .into_iter()
            .map(|((position, way), (action, place))| {
                self.memory.note_place(position, way, place);
                action
            })
            .collect()
    }

    /// Where the code waits, as far as the context knows.
    pub(super) fn waits_at(&self) -> Option<Place> {
        let open = self.open.values();
        open.map(|open| open.place)
            .chain(self.mail.waits_at())
            .chain(self.conditions.waits_at())
            .next()
            .or(self.last_call)
    }
}

/// What everything that is waited for answers when the run is asked to stop.
pub(super) fn cancelled(reason: &str) -> WorkflowError {
    WorkflowError::new(error_types::CANCELLED, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_calls(kinds: &[OpenKind]) -> State {
        let mut state = State::default();
        for kind in kinds {
            let place = Location::caller();
            let position = state.new_position(place);
            state.open(position, *kind, place, Waker::noop().clone());
        }
        state
    }

    /// How many calls are open, how many are answered and not fetched, and whether a local one is
    /// open.
    fn counts(state: &State) -> (usize, usize, bool) {
        let (open, answered) = (state.open.len(), state.answered.len());
        (open, answered, state.waits_for_local())
    }

    #[test]
    fn answered_calls_are_kept_apart_from_those_that_a_step_walks() {
        use OpenKind::{Activity, Local, Timer};
        let mut state = with_calls(&[Activity, Local, Timer, Local]);
        assert_eq!(counts(&state), (4, 0, true));
        state.resolve("1", Ok(Payload::null()));
        state.resolve("2", Ok(Payload::null()));
        state.resolve("2", Ok(Payload::null()));
        assert_eq!(counts(&state), (2, 2, true));
        assert!(state.poll_open(1, Waker::noop()).is_ready());
        assert!(state.poll_open(3, Waker::noop()).is_pending());
        state.give_up(2);
        state.give_up(4);
        assert_eq!(counts(&state), (1, 0, false));
        assert!(state.waits());
        state.cancel("enough");
        assert_eq!(counts(&state), (0, 1, false));
        assert!(!state.waits());
        assert!(matches!(
            state.poll_open(3, Waker::noop()),
            Poll::Ready(Err(_))
        ));
        assert_eq!(counts(&state), (0, 0, false));
    }
}
