//! Programs kept in memory between their turns, so that a step's cost does not grow with its history.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use durable_core::{ProgramState, TraceContext};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::hosting::Seat;

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
    /// Where its code is, if that is in another process.
    pub(crate) seat: Option<Arc<Seat>>,
}

impl Place {
    /// Whether its code, wherever that is, can go on from here.
    pub(crate) fn is_usable(&self) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.is_usable())
    }
}

/// A bounded cache; the one turned longest ago goes first.
pub(crate) struct Cache {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tick: u64,
    kept: HashMap<Uuid, Entry>,
    by_age: BTreeMap<u64, Uuid>,
}

struct Entry {
    tick: u64,
    kept: Kept,
    /// Since when its run is this process's, as far as is known; none: it is another's.
    owned_since: Option<Instant>,
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
        let entry = state.kept.remove(&run_id)?;
        state.by_age.remove(&entry.tick);
        Some(entry.kept)
    }

    /// Whether it keeps programs at all.
    pub(crate) const fn keeps_any(&self) -> bool {
        self.max > 0
    }

    /// Whether the run's program is here.
    pub(crate) fn holds(&self, run_id: Uuid) -> bool {
        self.state.lock().kept.contains_key(&run_id)
    }

    /// Runs that are this process's since before then, those turned last first.
    pub(crate) fn owned_since(&self, before: Instant, max: usize) -> Vec<Uuid> {
        let state = self.state.lock();
        let last_first = state.by_age.values().rev();
        let owned = last_first.filter(|run| {
            let since = state.kept.get(*run).and_then(|entry| entry.owned_since);
            since.is_some_and(|since| since <= before)
        });
        owned.take(max).copied().collect()
    }

    /// Notes whose a run is.
    pub(crate) fn note_owned(&self, run_id: Uuid, since: Option<Instant>) {
        if let Some(entry) = self.state.lock().kept.get_mut(&run_id) {
            entry.owned_since = since;
        }
    }

    /// Throws out programs whose code is elsewhere and lost; answers their runs.
    pub(crate) fn drop_unusable(&self) -> Vec<Uuid> {
        let mut state = self.state.lock();
        let State { kept, by_age, .. } = &mut *state;
        let gone: Vec<(Uuid, Entry)> = kept
            .extract_if(|_, entry| !entry.kept.place.is_usable())
            .collect();
        for (_, entry) in &gone {
            by_age.remove(&entry.tick);
        }
        gone.into_iter().map(|(run_id, _)| run_id).collect()
    }

    /// Runs whose programs are here, in the order in which they were turned.
    pub(crate) fn runs(&self) -> Vec<Uuid> {
        self.state.lock().by_age.values().copied().collect()
    }

    /// Keeps a program of a run that is this process's as of now; answers the runs whose programs had to go, which may be this one.
    pub(crate) fn keep(&self, kept: Kept, now: Instant) -> Vec<Uuid> {
        let mut state = self.state.lock();
        let run_id = kept.place.run_id;
        state.tick += 1;
        let tick = state.tick;
        let entry = Entry {
            tick,
            kept,
            owned_since: Some(now),
        };
        if let Some(old) = state.kept.insert(run_id, entry) {
            state.by_age.remove(&old.tick);
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
