//! What a workflow's code holds on to.

use std::panic::Location;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::calls::Ticket;
use super::conditions::Until;
use super::handlers::{QueryHandler, SignalHandler, UpdateHandler};
use super::mail::SignalWait;
use super::shield::Shielded;
use super::state::{Place, Shared};
use crate::payload::Payload;

/// What a program is told about its run when it is made.
#[derive(Clone)]
pub struct Birth {
    /// Who the run is.
    pub info: RunInfo,
    /// The clock that a moment is read from once, before it is recorded.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Who a run is, as its own code may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// The run's id.
    pub run_id: Uuid,
    /// Its workflow type, as it was asked for.
    pub workflow_type: String,
    /// The version it is pinned to; empty when its type has none.
    pub version: String,
    /// The run that started it as a child.
    pub parent_run_id: Option<Uuid>,
    /// From 1; raised when the run is retried or reset.
    pub attempt: u32,
    /// From 0; raised when the run continues as new.
    pub iteration: u32,
    /// The user's own key.
    pub workflow_id: Option<String>,
    /// Metadata that never changes.
    pub memo: Payload,
}

/// A workflow's door to its run, without types. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub(super) shared: Arc<Shared>,
}

impl Context {
    /// Who the run is.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.shared.birth.info
    }

    /// Takes the next position for a call.
    #[must_use]
    pub fn ticket(&self, place: Place) -> Ticket {
        let position = self.shared.state().new_position(place);
        Ticket::new(Arc::clone(&self.shared), position, place)
    }

    /// Makes a value once, and gives the same one back on every replay.
    ///
    /// # Errors
    /// Whatever `make` answers; then nothing is recorded.
    #[track_caller]
    pub fn side_effect<E>(&self, make: impl FnOnce() -> Result<Payload, E>) -> Result<Payload, E> {
        let place = Location::caller();
        let (position, recalled) = {
            let mut state = self.shared.state();
            let position = state.new_position(place);
            if state.is_aside() {
                drop(state);
                return make();
            }
            (position, state.memory.recalled(position))
        };
        if let Some(value) = recalled {
            return Ok(value);
        }
        let value = make()?;
        let mut state = self.shared.state();
        state.memory.made(position, value.clone(), place);
        Ok(value)
    }

    /// The clock, to be read within a side effect.
    #[must_use]
    pub fn clock_now(&self) -> Timestamp {
        (self.shared.birth.clock)()
    }

    /// A value that is the same on every replay, and no other's: of the run, its iteration and the position of the call.
    #[must_use]
    #[track_caller]
    pub fn unique(&self) -> Uuid {
        let position = self.shared.state().new_position(Location::caller());
        let info = self.info();
        let name = format!("unique/{}/{position}", info.iteration);
        Uuid::new_v5(&info.run_id, name.as_bytes())
    }

    /// Whether the run takes the new side of a change.
    #[must_use]
    pub fn patched(&self, patch_id: &str) -> bool {
        let mut state = self.shared.state();
        if state.is_aside() {
            return state.memory.would_be_patched(patch_id);
        }
        state.memory.patched(patch_id)
    }

    /// Waits for a signal.
    pub fn signal(&self, name: impl Into<String>, place: Place) -> SignalWait {
        SignalWait {
            shared: Arc::clone(&self.shared),
            name: name.into(),
            place,
            key: None,
        }
    }

    /// Waits until a condition over the workflow's own state holds.
    pub fn until(&self, holds: impl Fn() -> bool + Send + Sync + 'static, place: Place) -> Until {
        Until {
            shared: Arc::clone(&self.shared),
            holds: Arc::new(holds),
            what: None,
            place,
            key: None,
        }
    }

    /// A part of the workflow that goes on when the run is asked to stop.
    pub fn shield<F: Future>(&self, part: F) -> Shielded<F> {
        Shielded {
            shared: Arc::clone(&self.shared),
            part: Box::pin(part),
        }
    }

    /// Why the run was asked to stop, if it was.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<String> {
        self.shared.state().cancel_reason().map(str::to_owned)
    }

    /// Whether the run was asked to finish what is in flight and then stop.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state().shutting_down
    }

    /// Sets up a query; one of the same name is replaced.
    pub fn on_query(&self, name: impl Into<String>, handler: QueryHandler) {
        let mut state = self.shared.state();
        if !state.is_aside() {
            state.handlers.queries.insert(name.into(), handler);
        }
    }

    /// Sets up a handler for signals of a name; it is given those that wait already.
    pub fn on_signal(&self, name: impl Into<String>, handler: &SignalHandler) {
        let name = name.into();
        let waiting = {
            let mut state = self.shared.state();
            if state.is_aside() {
                return;
            }
            let handlers = &mut state.handlers.signals;
            handlers.insert(name.clone(), Arc::clone(handler));
            std::iter::from_fn(|| state.mail.take(&name)).collect::<Vec<_>>()
        };
        for signal in waiting {
            if !handler(&signal.payload) {
                self.shared.state().mail.arrive(signal);
            }
        }
    }

    /// Sets up an update; one of the same name is replaced.
    pub fn on_update(&self, name: impl Into<String>, handler: UpdateHandler) {
        let mut state = self.shared.state();
        if !state.is_aside() {
            state.handlers.updates.insert(name.into(), handler);
        }
    }

    /// Notes that the run is to go on as new with this input, when its code ends with [`error_types::CONTINUE_AS_NEW`](crate::error_types::CONTINUE_AS_NEW).
    pub fn continue_with(&self, input: Payload) {
        let mut state = self.shared.state();
        if !state.is_aside() {
            state.continue_with = Some(input);
        }
    }
}
