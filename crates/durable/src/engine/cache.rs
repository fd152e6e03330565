//! Programs kept in memory between their turns, so that a step's cost does not grow with its history.

use std::collections::{BTreeMap, HashMap};

use durable_core::{ProgramState, TraceContext};
use parking_lot::Mutex;
use uuid::Uuid;

/// A run's program and where its run stood after the last turn here. Good for a turn at that sequence only:
/// the store refuses any other, and the entry is thrown away.
pub(crate) struct Kept {
    pub(crate) program: ProgramState,
    pub(crate) place: Place,
}

/// Where a run stands, as far as a turn needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) run_id: Uuid,
    pub(crate) sequence: i64,
    pub(crate) epoch: u32,
    pub(crate) consumed: i64,
    pub(crate) trace: Option<TraceContext>,
}

/// A bounded cache; the one turned longest ago goes first.
pub(crate) struct Cache {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tick: u64,
    kept: HashMap<Uuid, (u64, Kept)>,
    by_age: BTreeMap<u64, Uuid>,
}

impl Cache {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            state: Mutex::default(),
        }
    }

    /// Takes a program out: while a turn is made, nobody else may use it.
    pub(crate) fn take(&self, run_id: Uuid) -> Option<Kept> {
        let mut state = self.state.lock();
        let (tick, kept) = state.kept.remove(&run_id)?;
        state.by_age.remove(&tick);
        Some(kept)
    }

    /// Runs whose programs are here, in the order in which they were turned.
    pub(crate) fn runs(&self) -> Vec<Uuid> {
        self.state.lock().by_age.values().copied().collect()
    }

    /// Keeps a program; answers the runs whose programs had to go, which may be this one.
    pub(crate) fn keep(&self, kept: Kept) -> Vec<Uuid> {
        let mut state = self.state.lock();
        let run_id = kept.place.run_id;
        state.tick += 1;
        let tick = state.tick;
        if let Some((old, _)) = state.kept.insert(run_id, (tick, kept)) {
            state.by_age.remove(&old);
        }
        state.by_age.insert(tick, run_id);
        let mut gone = Vec::new();
        while state.kept.len() > self.max
            && let Some((_, oldest)) = state.by_age.pop_first()
        {
            state.kept.remove(&oldest);
            gone.push(oldest);
        }
        gone
    }
}
