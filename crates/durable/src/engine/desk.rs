//! Which runs want a turn in this process, in the order in which they asked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::take;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::beginning::Beginning;
use crate::persistence::model::ClaimedTurn;
use crate::runtime::Runtime;
use crate::worker::{Finished, Room, Slot};

/// How long new runs wait for slots while no activity ends and none of them begins: then a set begins all the same, and its tasks queue up,
/// where others can see and take them.
const HOLD_IDLE: Duration = Duration::from_millis(100);
/// How long they wait while activities end, but runs under way have all the slots.
const HOLD_MAX: Duration = Duration::from_secs(5);

/// Why a run wants a turn.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Facts may wait in its inbox: look.
    pub(crate) rung: bool,
    /// The run as a claim just found it.
    pub(crate) claimed: Option<Box<ClaimedTurn>>,
    /// Activities that ended here.
    pub(crate) finished: Vec<Finished>,
    /// It has not begun, and waits among the new ones.
    pub(super) held: bool,
    /// It is to be started with its first turn.
    pub(super) beginning: Option<Box<Beginning>>,
}

impl Wanted {
    fn merge(&mut self, other: Self) {
        self.rung |= other.rung;
        if other.claimed.is_some() {
            self.claimed = other.claimed;
        }
        self.finished.extend(other.finished);
    }
}

/// Whom an overheard ring was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overheard {
    /// For runs that are at home here, or for none.
    AllAtHome,
    /// Also for runs that are not.
    SomeStrange,
}

/// A claim of runs; dropped, it brings none.
pub(crate) struct ClaimUnderWay<'a> {
    desk: &'a Desk,
}

impl ClaimUnderWay<'_> {
    /// It brings these runs.
    pub(crate) fn brings(self, turns: Vec<ClaimedTurn>, now: Instant) {
        {
            let mut state = self.desk.state.lock();
            let meanwhile = state.rung_meanwhile.take().unwrap_or_default();
            for turn in turns {
                let run_id = turn.run.id;
                if state.is_shut_for(run_id) {
                    continue;
                }
                let is_new = turn.run.sequence == 0 && turn.facts.is_empty();
                let wanted = Wanted {
                    rung: meanwhile.contains(&run_id),
                    claimed: Some(Box::new(turn)),
                    ..Wanted::default()
                };
                if is_new {
                    state.hold(Origin::Claimed, run_id, wanted, now);
                } else {
                    state.add(run_id, wanted);
                }
            }
        }
        self.desk.bell.notify_one();
    }
}

impl Drop for ClaimUnderWay<'_> {
    fn drop(&mut self) {
        self.desk.state.lock().rung_meanwhile = None;
    }
}

/// Runs taken in hand by a committer.
pub(crate) struct Set {
    pub(crate) runs: Vec<(Uuid, Wanted)>,
    /// A slot for each new run among them, for its first activity.
    pub(crate) slots: Vec<Slot>,
}

/// Where a run that has not begun comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was started in this process.
    Started,
    /// It was started elsewhere, and claimed: others could have it.
    Claimed,
}

impl Origin {
    const ALL: [Self; 2] = [Self::Started, Self::Claimed];
}

/// Runs that wait to begin, in order. One that waits for no slot any more keeps its place, and is passed over.
#[derive(Default)]
struct NewRuns {
    runs: VecDeque<Uuid>,
    /// Since when none of them has begun.
    held_since: Option<Instant>,
}

/// The desk. A run is in the hands of one committer at a time; what comes for it meanwhile waits here.
///
/// A new run begins when a slot is free for its first activity. It would otherwise only queue up a task, to be claimed later: so runs under
/// way end before new ones begin, and a task that is handed over at once costs no claim.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    bell: Notify,
    put_down: Notify,
    /// The last run that was claimed before it began has begun.
    all_begun: Notify,
}

#[derive(Default)]
struct State {
    /// Runs in `wanted` that nobody has in hand, each once.
    queue: VecDeque<Uuid>,
    /// Runs in `wanted` that were started here and have not begun.
    started: NewRuns,
    /// Runs in `wanted` that were claimed and have not begun.
    claimed: NewRuns,
    /// Runs that are to be started with their first turns.
    beginning: VecDeque<Box<Beginning>>,
    /// When an activity last ended.
    last_end: Option<Instant>,
    wanted: HashMap<Uuid, Wanted>,
    in_hand: HashSet<Uuid>,
    /// Runs whose programs are kept here, or are in hand: others ring for them here.
    at_home: HashSet<Uuid>,
    /// Others rang for these, which are not at home, while a claim was under way that may bring them. None: there is no claim.
    rung_meanwhile: Option<HashSet<Uuid>>,
    closed: bool,
}

impl State {
    /// A closed desk takes only what comes back from those who still have the run in hand: nobody would take the rest.
    fn is_shut_for(&self, run_id: Uuid) -> bool {
        self.closed && !self.in_hand.contains(&run_id)
    }

    fn add(&mut self, run_id: Uuid, mut wanted: Wanted) {
        if self.in_hand.contains(&run_id) && wanted.claimed.take().is_some() {
            // As the claim found it, it is not any more when the turn in hand is over.
            wanted.rung = true;
        }
        if let Some(there) = self.wanted.get_mut(&run_id) {
            // It is under way after all: what ended holds a slot. (One that was claimed again, because its ownership had run out, still waits.)
            let goes_on = !wanted.finished.is_empty();
            there.merge(wanted);
            if there.held && goes_on {
                self.hurry(run_id);
            }
            return;
        }
        self.wanted.insert(run_id, wanted);
        if !self.in_hand.contains(&run_id) {
            self.queue.push_back(run_id);
        }
    }

    /// A new run waits for no slot any more. Its place among the new ones stays, and is passed over.
    fn hurry(&mut self, run_id: Uuid) {
        let held = self.wanted.get_mut(&run_id).map(|wanted| &mut wanted.held);
        if held.is_some_and(take) {
            self.queue.push_back(run_id);
        }
    }

    /// A run that has not begun waits among the others of its kind, unless it is known here already.
    fn hold(&mut self, origin: Origin, run_id: Uuid, mut wanted: Wanted, now: Instant) {
        if self.is_known(run_id) {
            self.add(run_id, wanted);
            return;
        }
        wanted.held = true;
        self.wanted.insert(run_id, wanted);
        let new = self.new_runs(origin);
        new.runs.push_back(run_id);
        new.held_since.get_or_insert(now);
    }

    const fn new_runs(&mut self, origin: Origin) -> &mut NewRuns {
        match origin {
            Origin::Started => &mut self.started,
            Origin::Claimed => &mut self.claimed,
        }
    }

    fn take(&mut self, max: usize, now: Instant, room: impl Fn(Origin) -> Room) -> Set {
        let waiting = self.queue.len() + self.beginning.len();
        let waiting = waiting + self.started.runs.len() + self.claimed.runs.len();
        let mut set = Set {
            runs: Vec::with_capacity(waiting.min(max)),
            slots: Vec::new(),
        };
        for origin in Origin::ALL {
            if self.held_until(origin).is_some_and(|until| until <= now) {
                // Runs under way may go on for ever and leave no room: now it is the turn of the new ones.
                self.take_new(origin, max, now, &mut set, || Room::Ample);
            }
        }
        while set.runs.len() < max
            && let Some(run_id) = self.queue.pop_front()
        {
            self.take_in_hand(run_id, &mut set);
        }
        self.take_beginning(max, &mut set, || room(Origin::Started));
        for origin in Origin::ALL {
            self.take_new(origin, max, now, &mut set, || room(origin));
        }
        set
    }

    /// Those for which there is no room are let go: they are started on their own, and wait for a slot as rows.
    fn take_beginning(&mut self, max: usize, set: &mut Set, room: impl Fn() -> Room) {
        while set.runs.len() < max
            && let Some(beginning) = self.beginning.pop_front()
        {
            let run_id = beginning.start.run_id;
            if self.is_known(run_id) {
                continue;
            }
            match room() {
                Room::Slot(slot) => set.slots.push(slot),
                Room::Ample => {}
                Room::None => {
                    self.beginning.clear();
                    return;
                }
            }
            let wanted = Wanted {
                beginning: Some(beginning),
                ..Wanted::default()
            };
            self.wanted.insert(run_id, wanted);
            self.take_in_hand(run_id, set);
        }
    }

    fn is_known(&self, run_id: Uuid) -> bool {
        self.in_hand.contains(&run_id) || self.wanted.contains_key(&run_id)
    }

    /// When a set of new runs begins, whether there is room or not.
    fn held_until(&mut self, origin: Origin) -> Option<Instant> {
        let since = self.new_runs(origin).held_since?;
        let idle_since = self.last_end.map_or(since, |end| end.max(since));
        Some((idle_since + HOLD_IDLE).min(since + HOLD_MAX))
    }

    fn take_new(
        &mut self,
        origin: Origin,
        max: usize,
        now: Instant,
        set: &mut Set,
        room: impl Fn() -> Room,
    ) {
        let is_held = |wanted: &Wanted| wanted.held;
        while set.runs.len() < max
            && let Some(first) = self.new_runs(origin).runs.front().copied()
        {
            if !self.wanted.get(&first).is_some_and(is_held) {
                self.new_runs(origin).runs.pop_front();
                continue;
            }
            match room() {
                Room::Slot(slot) => set.slots.push(slot),
                Room::Ample => {}
                Room::None => break,
            }
            let new = self.new_runs(origin);
            new.held_since = Some(now);
            if let Some(run_id) = new.runs.pop_front() {
                self.take_in_hand(run_id, set);
            }
        }
        let new = self.new_runs(origin);
        if new.runs.is_empty() {
            new.held_since = None;
        }
    }

    fn holds_new(&self) -> bool {
        self.started.held_since.is_some() || self.claimed.held_since.is_some()
    }

    fn take_in_hand(&mut self, run_id: Uuid, set: &mut Set) {
        if self.in_hand.contains(&run_id) {
            return;
        }
        if let Some(wanted) = self.wanted.remove(&run_id) {
            self.in_hand.insert(run_id);
            self.at_home.insert(run_id);
            set.runs.push((run_id, wanted));
        }
    }
}

impl Desk {
    /// Facts may wait for these runs.
    pub(crate) fn ring(&self, runs: impl IntoIterator<Item = Uuid>) {
        self.add(runs.into_iter().map(|run_id| {
            let wanted = Wanted {
                rung: true,
                ..Wanted::default()
            };
            (run_id, wanted)
        }));
    }

    /// A run was started here.
    pub(crate) fn started(&self, run_id: Uuid, now: Instant) {
        let wanted = Wanted {
            rung: true,
            ..Wanted::default()
        };
        {
            let mut state = self.state.lock();
            if state.is_shut_for(run_id) {
                return;
            }
            state.hold(Origin::Started, run_id, wanted, now);
        }
        self.bell.notify_one();
    }

    /// A run is to be started with its first turn, if it can be at once.
    pub(crate) fn begin(&self, beginning: Beginning) {
        {
            let mut state = self.state.lock();
            // Those that wait for a slot came before it.
            if state.closed || state.holds_new() {
                return;
            }
            state.beginning.push_back(Box::new(beginning));
        }
        self.bell.notify_one();
    }

    /// Whether new runs wait here for a slot.
    pub(crate) fn holds_new(&self) -> bool {
        self.state.lock().holds_new()
    }

    /// Ends when the last run that was claimed before it began has begun: more may wait to be claimed.
    pub(crate) async fn all_begun(&self) {
        self.all_begun.notified().await;
    }

    /// Somebody waits for a run to begin: it does not wait for a slot.
    pub(crate) fn hurry(&self, run_id: Uuid) {
        self.state.lock().hurry(run_id);
        self.bell.notify_one();
    }

    /// Another process rang: only runs that are at home here are looked at. The others may be anybody's, or nobody's.
    pub(crate) fn overheard(&self, runs: impl IntoIterator<Item = Uuid>) -> Overheard {
        let (at_home, strange): (Vec<Uuid>, Vec<Uuid>) = {
            let mut state = self.state.lock();
            let is_here =
                |run: &Uuid| state.at_home.contains(run) || state.wanted.contains_key(run);
            let (at_home, strange): (Vec<Uuid>, Vec<Uuid>) = runs.into_iter().partition(is_here);
            if let Some(meanwhile) = &mut state.rung_meanwhile {
                meanwhile.extend(&strange);
            }
            (at_home, strange)
        };
        if !at_home.is_empty() {
            self.ring(at_home);
        }
        if strange.is_empty() {
            Overheard::AllAtHome
        } else {
            Overheard::SomeStrange
        }
    }

    /// A claim begins. What others ring for until it is over may be for a run that it brings, as it was before.
    pub(crate) fn claim(&self) -> ClaimUnderWay<'_> {
        self.state.lock().rung_meanwhile = Some(HashSet::new());
        ClaimUnderWay { desk: self }
    }

    /// An activity ended here. Given back if the run's program is not here: its result then goes to the inbox.
    pub(crate) fn finished(
        &self,
        finished: Box<Finished>,
        now: Instant,
    ) -> Result<(), Box<Finished>> {
        let run_id = finished.task.lease.run_id;
        {
            let mut state = self.state.lock();
            state.last_end = Some(now);
            if !state.at_home.contains(&run_id) || state.is_shut_for(run_id) {
                return Err(finished);
            }
            let wanted = Wanted {
                finished: vec![*finished],
                ..Wanted::default()
            };
            state.add(run_id, wanted);
        }
        self.bell.notify_one();
        Ok(())
    }

    /// What could not be settled comes again.
    pub(crate) fn again(&self, run_id: Uuid, wanted: Wanted) {
        self.add([(run_id, wanted)]);
    }

    fn add(&self, items: impl IntoIterator<Item = (Uuid, Wanted)>) {
        {
            let mut state = self.state.lock();
            for (run_id, wanted) in items {
                if !state.is_shut_for(run_id) {
                    state.add(run_id, wanted);
                }
            }
        }
        self.bell.notify_one();
    }

    /// Takes up to `max` runs in hand, waiting for the first. None: the desk is closed and empty. New runs are taken as far as there is
    /// room for them.
    ///
    /// Cancel-safe: nothing is in hand before it answers.
    pub(crate) async fn take(
        &self,
        max: usize,
        runtime: &Runtime,
        room: impl Fn(Origin) -> Room,
    ) -> Option<Set> {
        loop {
            let held_until = {
                let mut state = self.state.lock();
                let held_claimed = state.claimed.held_since.is_some();
                let set = state.take(max, runtime.instant(), &room);
                if held_claimed && state.claimed.held_since.is_none() {
                    self.all_begun.notify_one();
                }
                if !set.runs.is_empty() {
                    let more =
                        !state.queue.is_empty() || !state.beginning.is_empty() || state.holds_new();
                    drop(state);
                    if more {
                        self.bell.notify_one();
                    }
                    return Some(set);
                }
                if state.closed && state.in_hand.is_empty() {
                    drop(state);
                    self.bell.notify_one();
                    return None;
                }
                let until = Origin::ALL.map(|origin| state.held_until(origin));
                until.into_iter().flatten().min()
            };
            let Some(until) = held_until else {
                self.bell.notified().await;
                continue;
            };
            let wait = until.saturating_duration_since(runtime.instant());
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                () = runtime.sleep(wait) => {}
            }
        }
    }

    /// Puts runs down again; `kept` says whether the program stays in memory.
    pub(crate) fn put_down(&self, runs: impl IntoIterator<Item = (Uuid, bool)>) {
        {
            let mut state = self.state.lock();
            for (run_id, kept) in runs {
                state.in_hand.remove(&run_id);
                if !kept {
                    state.at_home.remove(&run_id);
                }
                if state.wanted.contains_key(&run_id) {
                    state.queue.push_back(run_id);
                }
            }
        }
        self.bell.notify_one();
        self.put_down.notify_waiters();
    }

    /// A program left the memory while nobody had its run in hand.
    pub(crate) fn moved_out(&self, run_id: Uuid) {
        let mut state = self.state.lock();
        if !state.in_hand.contains(&run_id) {
            state.at_home.remove(&run_id);
        }
    }

    /// Nothing more will come that is worth waiting for; [`Desk::take`] ends when all is done. Answers the new runs, which do not begin here.
    pub(crate) fn close(&self) -> Vec<Uuid> {
        let new: Vec<Uuid> = {
            let mut state = self.state.lock();
            state.closed = true;
            state.beginning.clear();
            let (started, claimed) = (take(&mut state.started), take(&mut state.claimed));
            let new = started.runs.into_iter().chain(claimed.runs);
            let is_held = |run_id: &Uuid| state.wanted.get(run_id).is_some_and(|w| w.held);
            let new: Vec<Uuid> = new.filter(is_held).collect();
            for run_id in &new {
                state.wanted.remove(run_id);
            }
            new
        };
        self.bell.notify_one();
        new
    }

    /// Ends when no run waits or is in hand.
    pub(crate) async fn emptied(&self) {
        loop {
            let put_down = self.put_down.notified();
            tokio::pin!(put_down);
            put_down.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            put_down.await;
        }
    }

    /// Runs that wait for a turn or are in hand; new ones that wait for a slot are not among them.
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        state.queue.len() + state.in_hand.len()
    }
}

#[cfg(test)]
mod tests;
