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
    /// Sequence number before the first event of the current iteration.
    pub(crate) history_start: i64,
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

/// A cache bounded by the number of programs and by their weight; the one turned longest ago goes first.
pub(crate) struct Cache {
    max: usize,
    weight_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tick: u64,
    /// Of all that is kept.
    weight: u64,
    kept: HashMap<Uuid, Entry>,
    by_age: BTreeMap<u64, Uuid>,
}

impl State {
    fn remove(&mut self, run_id: Uuid) -> Option<Entry> {
        let entry = self.kept.remove(&run_id)?;
        self.by_age.remove(&entry.tick);
        self.weight -= weight(&entry.kept);
        Some(entry)
    }
}

/// What a program holds grows with the history that it went through: its events are counted, and it itself as one more.
fn weight(kept: &Kept) -> u64 {
    let place = &kept.place;
    u64::try_from(place.sequence - place.history_start).unwrap_or(0) + 1
}

struct Entry {
    tick: u64,
    kept: Kept,
    /// Since when its run is this process's, as far as is known; none: it is another's.
    owned_since: Option<Instant>,
}

impl Cache {
    pub(crate) fn new(max: usize, weight_max: u64) -> Self {
        Self {
            max,
            weight_max,
            state: Mutex::default(),
        }
    }

    /// Takes a program out: while a turn is made, nobody else may use it.
    pub(crate) fn take(&self, run_id: Uuid) -> Option<Kept> {
        let entry = self.state.lock().remove(run_id)?;
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
        let lost = |entry: &Entry| !entry.kept.place.is_usable();
        let gone: Vec<Uuid> = state
            .kept
            .iter()
            .filter(|(_, entry)| lost(entry))
            .map(|(run_id, _)| *run_id)
            .collect();
        for run_id in &gone {
            state.remove(*run_id);
        }
        gone
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
        state.remove(run_id);
        state.weight += weight(&entry.kept);
        state.kept.insert(run_id, entry);
        state.by_age.insert(tick, run_id);
        let mut gone = Vec::new();
        // One alone stays, however heavy: to replay it at every turn would cost most of all.
        while (state.kept.len() > self.max
            || state.weight > self.weight_max && state.kept.len() > 1)
            && let Some((_, oldest)) = state.by_age.first_key_value()
        {
            let oldest = *oldest;
            state.remove(oldest);
            gone.push(oldest);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use durable_core::{
        ActivityError, HistoryState, RunIdentity, TraitProgram, Workflow, WorkflowAction,
        WorkflowSignal,
    };

    use super::*;

    struct Idle;

    impl Workflow for Idle {
        const TYPE: &'static str = "idle";
        type Input = ();
        type Output = ();

        fn new((): ()) -> Self {
            Self
        }

        fn on_start(&mut self) -> Vec<WorkflowAction> {
            Vec::new()
        }

        fn on_activity_completed(&mut self, _: &str, _: serde_json::Value) -> Vec<WorkflowAction> {
            Vec::new()
        }

        fn on_activity_failed(&mut self, _: &str, _: &ActivityError) -> Vec<WorkflowAction> {
            Vec::new()
        }

        fn on_timer_fired(&mut self, _: &str) -> Vec<WorkflowAction> {
            Vec::new()
        }

        fn on_signal(&mut self, _: &WorkflowSignal) -> Vec<WorkflowAction> {
            Vec::new()
        }
    }

    /// A run whose iteration has so many events.
    fn kept(number: u128, events: i64) -> Kept {
        let (run_id, history_start) = (Uuid::from_u128(number), 1_000);
        let sequence = history_start + events;
        let identity = RunIdentity {
            run_id,
            epoch: 0,
            iteration: 1,
        };
        let program = Box::new(TraitProgram::<Idle>::new());
        Kept {
            program: ProgramState::after(identity, program, HistoryState::after(sequence)),
            place: Place {
                run_id,
                sequence,
                epoch: 0,
                history_start,
                consumed: 0,
                trace: None,
                seat: None,
            },
        }
    }

    fn run(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[tokio::test]
    async fn heavy_programs_make_room_for_others_and_the_last_one_stays() {
        let (cache, now) = (Cache::new(3, 100), Instant::now());
        assert!(cache.keep(kept(1, 10), now).is_empty());
        assert!(cache.keep(kept(2, 50), now).is_empty());
        assert_eq!(cache.keep(kept(3, 40), now), [run(1)], "too heavy together");
        // What was taken out, or kept again, weighs once.
        cache.take(run(2)).expect("is kept");
        assert!(cache.keep(kept(3, 90), now).is_empty());
        assert!(cache.keep(kept(4, 5), now).is_empty());
        assert_eq!(cache.keep(kept(5, 5_000), now), [run(3), run(4)]);
        assert!(cache.holds(run(5)), "alone it may be as heavy as it is");
    }

    #[tokio::test]
    async fn light_programs_are_counted() {
        let (cache, now) = (Cache::new(2, 100), Instant::now());
        for number in 1..=2 {
            assert!(cache.keep(kept(number, 0), now).is_empty());
        }
        assert_eq!(cache.keep(kept(3, 0), now), [run(1)]);
        assert_eq!(Cache::new(0, 100).keep(kept(1, 0), now), [run(1)]);
    }
}
