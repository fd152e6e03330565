//! A run's code that is elsewhere, as the program that the core drives.

use std::collections::VecDeque;
use std::sync::Arc;

use durable_core::{
    Difference, Fact, Failure, Payload, Program, ProgramError, Recorded, Request, RequestKind,
    WorkflowAction, WorkflowEvent, WorkflowSignal,
};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{Asked, Attached, Step};
use crate::workflow::RunInfo;

/// Where a run's code is: with which host, and how far it has come there. Given up, the host is told.
pub(crate) struct Seat {
    info: RunInfo,
    host: Arc<Attached>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Items that the instance there was given.
    items: u64,
    /// It was told something that is not on record: it must not go on.
    spoilt: bool,
    /// What it answered and the core has not heard yet.
    script: VecDeque<(Asked, Step)>,
    /// Signals it was told.
    signals: Vec<WorkflowSignal>,
    unread: Vec<Uuid>,
    made: Vec<WorkflowEvent>,
    recalled: Vec<WorkflowEvent>,
    /// Whether the step at hand was decided before, so that nothing new can be made in it.
    complete: bool,
}

impl Seat {
    pub(crate) fn new(info: RunInfo, host: Arc<Attached>) -> Arc<Self> {
        Arc::new(Self {
            info,
            host,
            state: Mutex::default(),
        })
    }

    pub(crate) const fn info(&self) -> &RunInfo {
        &self.info
    }

    pub(crate) fn host(&self) -> &Arc<Attached> {
        &self.host
    }

    /// Items that the instance was given so far.
    pub(crate) fn items(&self) -> u64 {
        self.state.lock().items
    }

    /// Whether the next turn can go on from there.
    pub(crate) fn is_usable(&self) -> bool {
        self.host.is_alive() && !self.state.lock().spoilt
    }

    /// The instance there is not the one that the history tells of.
    pub(crate) fn spoil(&self) {
        self.state.lock().spoilt = true;
    }

    /// What the instance was told and has answered: `told` items, of which the core is to hear these.
    pub(crate) fn answered(&self, told: usize, script: VecDeque<(Asked, Step)>) {
        let mut state = self.state.lock();
        state.items += told as u64;
        state.script = script;
    }

    /// The turn is decided. What the core did not want to hear, though the run goes on, spoils the instance.
    pub(crate) fn turned(&self, goes_on: bool) {
        let mut state = self.state.lock();
        let left = std::mem::take(&mut state.script);
        state.spoilt |= goes_on && !left.is_empty();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.host.forget(self.info.run_id);
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat")
            .field("run_id", &self.info.run_id)
            .finish_non_exhaustive()
    }
}

/// The program of a run whose code is elsewhere: it says what the code has answered already.
pub(crate) struct RemoteProgram {
    workflow_type: String,
    seat: Arc<Seat>,
}

impl RemoteProgram {
    pub(crate) const fn new(workflow_type: String, seat: Arc<Seat>) -> Self {
        Self {
            workflow_type,
            seat,
        }
    }

    fn diverged(&self, found: Option<Request>) -> ProgramError {
        ProgramError::Diverged {
            workflow_type: self.workflow_type.clone(),
            difference: Box::new(Difference {
                expected: None,
                found,
            }),
        }
    }
}

impl Program for RemoteProgram {
    fn workflow_type(&self) -> &str {
        &self.workflow_type
    }

    fn apply(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError> {
        let mut state = self.seat.state.lock();
        let complete = std::mem::take(&mut state.complete);
        let recalled = std::mem::take(&mut state.recalled);
        let step = match state.script.pop_front() {
            Some((Asked::Fact(asked), step)) if asked == *fact && step.refused.is_none() => step,
            _ => return Err(self.diverged(None)),
        };
        if let Fact::SignalReceived { signal } = fact {
            state.signals.push(signal.clone());
        }
        let mut new = step
            .memories
            .into_iter()
            .filter(|made| !recalled.contains(made));
        if complete {
            if let Some(made) = new.next() {
                return Err(self.diverged(Some(side_effect(&made))));
            }
        } else {
            state.made.extend(new);
        }
        state.unread = step.unread;
        Ok(step.actions)
    }

    fn recall(&mut self, recorded: &Recorded<'_>) {
        let mut state = self.seat.state.lock();
        state.complete = recorded.complete;
        state.recalled = recorded
            .memories
            .iter()
            .map(|memory| (*memory).clone())
            .collect();
    }

    fn take_memories(&mut self) -> Vec<WorkflowEvent> {
        std::mem::take(&mut self.seat.state.lock().made)
    }

    fn take_unread(&mut self) -> Vec<WorkflowSignal> {
        let mut state = self.seat.state.lock();
        let unread = std::mem::take(&mut state.unread);
        let signals = std::mem::take(&mut state.signals).into_iter();
        signals
            .filter(|signal| signal.signal_id.is_some_and(|id| unread.contains(&id)))
            .collect()
    }

    fn validate_update(&self, name: &str, input: &Payload) -> Result<(), Failure> {
        let mut state = self.seat.state.lock();
        let refused = state.script.pop_front_if(|(asked, step)| {
            step.refused.is_some()
                && matches!(asked, Asked::Fact(Fact::UpdateAccepted { name: own, input: given, .. }) if own == name && given == input)
        });
        match refused.and_then(|(_, step)| step.refused) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

fn side_effect(made: &WorkflowEvent) -> Request {
    let id = match made {
        WorkflowEvent::SideEffectRecorded { effect_id, .. } => Some(effect_id.clone()),
        WorkflowEvent::PatchMarked { patch_id } => Some(patch_id.clone()),
        _ => None,
    };
    Request {
        kind: RequestKind::RecordSideEffect,
        id,
        type_name: None,
    }
}
