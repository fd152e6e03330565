//! Which steps a program is at.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::steps::Step;

/// Names a strand of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StrandId(u64);

impl StrandId {
    /// The program's own strand.
    pub(super) const MAIN: Self = Self(0);
}

/// Which step each strand of a program is at.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts {
    last: u64,
    strands: BTreeMap<StrandId, Place>,
}

#[derive(Debug, Default)]
struct Place {
    parent: Option<StrandId>,
    at: Option<(Arc<str>, &'static str)>,
}

impl Whereabouts {
    /// A branch of a strand begins.
    pub(super) fn branch(&mut self, parent: StrandId) -> StrandId {
        self.last += 1;
        let id = StrandId(self.last);
        let parent = Some(parent);
        self.strands.insert(id, Place { parent, at: None });
        id
    }

    pub(super) fn enter(&mut self, strand: StrandId, step: &Step) {
        let place = self.strands.entry(strand).or_default();
        place.at = Some((Arc::clone(&step.path), step.verb));
    }

    pub(super) fn leave(&mut self, strand: StrandId) {
        self.strands.remove(&strand);
    }

    /// The current step, with those of its branches; null when the program is over.
    pub(crate) fn show(&self) -> Value {
        self.show_strand(StrandId::MAIN)
    }

    fn show_strand(&self, strand: StrandId) -> Value {
        let at = self
            .strands
            .get(&strand)
            .and_then(|place| place.at.as_ref());
        let Some((path, verb)) = at else {
            return Value::Null;
        };
        let branches = self.strands.iter();
        let branches: Vec<Value> = branches
            .filter(|(_, place)| place.parent == Some(strand) && place.at.is_some())
            .map(|(id, _)| self.show_strand(*id))
            .collect();
        if branches.is_empty() {
            json!({"path": &**path, "do": verb})
        } else {
            json!({"path": &**path, "do": verb, "branches": branches})
        }
    }
}
