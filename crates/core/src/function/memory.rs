//! Values that are made once: side effects and patch marks.

use std::collections::BTreeMap;

use super::state::{Place, Way};
use crate::event::WorkflowEvent;
use crate::payload::Payload;
use crate::program::{Difference, Recorded};
use crate::request::{Request, RequestKind};

/// What was recalled for the step at hand, what it made, and where its requests were made.
#[derive(Default)]
pub(super) struct Memory {
    recalled: BTreeMap<String, Payload>,
    recalled_patches: Vec<String>,
    /// Whether the step at hand was decided before, so that nothing new can be made in it.
    complete: bool,
    made: Vec<WorkflowEvent>,
    /// Decided once for the run, whichever way.
    patches: BTreeMap<String, bool>,
    diverged: Option<Difference>,
    places: BTreeMap<(u64, Way), Place>,
}

impl Memory {
    pub(super) fn recall(&mut self, recorded: &Recorded<'_>) {
        self.complete = recorded.complete;
        for memory in recorded.memories {
            match memory {
                WorkflowEvent::SideEffectRecorded { effect_id, value } => {
                    self.recalled.insert(effect_id.clone(), value.clone());
                }
                WorkflowEvent::PatchMarked { patch_id } => {
                    self.recalled_patches.push(patch_id.clone());
                }
                _ => {}
            }
        }
    }

    /// The value made at a position when the step was first decided.
    pub(super) fn recalled(&mut self, position: u64) -> Option<Payload> {
        self.recalled.remove(&position.to_string())
    }

    pub(super) fn made(&mut self, position: u64, value: Payload, place: Place) {
        let effect_id = position.to_string();
        if self.complete {
            self.note_place(position, Way::Asked, place);
            self.diverged.get_or_insert(Difference {
                expected: None,
                found: Some(side_effect(effect_id)),
            });
            return;
        }
        self.made
            .push(WorkflowEvent::SideEffectRecorded { effect_id, value });
    }

    /// Which side of a patch the run takes. A step that was decided without the mark took the old one.
    pub(super) fn patched(&mut self, patch_id: &str) -> bool {
        if let Some(decided) = self.patches.get(patch_id) {
            return *decided;
        }
        let recalled = self
            .recalled_patches
            .iter()
            .position(|recalled| recalled == patch_id);
        let new_side = match recalled {
            Some(index) => {
                self.recalled_patches.remove(index);
                true
            }
            None if self.complete => false,
            None => {
                let patch_id = patch_id.to_owned();
                self.made.push(WorkflowEvent::PatchMarked { patch_id });
                true
            }
        };
        self.patches.insert(patch_id.to_owned(), new_side);
        new_side
    }

    /// Which side a patch has, or would have if it were decided now; decides nothing.
    pub(super) fn would_be_patched(&self, patch_id: &str) -> bool {
        self.patches.get(patch_id).copied().unwrap_or(true)
    }

    /// The end of a step. A mark whose `patched` is gone from the code is nothing to worry about: the code has only the new side.
    pub(super) fn end_step(&mut self) -> Option<Difference> {
        for patch_id in self.recalled_patches.drain(..) {
            self.patches.insert(patch_id, true);
        }
        let left = std::mem::take(&mut self.recalled).into_keys().next();
        let forgotten = left.map(|id| Difference {
            expected: Some(side_effect(id)),
            found: None,
        });
        self.complete = false;
        self.diverged.take().or(forgotten)
    }

    pub(super) fn take_made(&mut self) -> Vec<WorkflowEvent> {
        std::mem::take(&mut self.made)
    }

    pub(super) fn begin_step(&mut self) {
        self.places.clear();
    }

    pub(super) fn note_place(&mut self, position: u64, way: Way, place: Place) {
        self.places.insert((position, way), place);
    }

    pub(super) fn place_of(&self, request: &Request) -> Option<Place> {
        let position: u64 = request.id.as_deref()?.parse().ok()?;
        let way = match request.kind {
            RequestKind::CancelActivity
            | RequestKind::CancelTimer
            | RequestKind::CancelChildWorkflow => Way::GivenUp,
            _ => Way::Asked,
        };
        self.places.get(&(position, way)).copied()
    }
}

const fn side_effect(id: String) -> Request {
    Request {
        kind: RequestKind::RecordSideEffect,
        id: Some(id),
        type_name: None,
    }
}
