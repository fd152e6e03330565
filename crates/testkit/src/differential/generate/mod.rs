//! The generator: seeded chance, a clock, and a rough idea of what the store holds.

mod operations;
mod reads;
mod starts;
mod tasks;
mod turns;
mod values;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use durable_core::Timestamp;
use everruns_durable::persistence::model::{ClaimedTurn, RunRecord};
use jiff::SignedDuration;
use uuid::Uuid;

use super::intent::{Intent, LeaseRef, Step};
use super::random::Random;
use super::session::Session;
use super::universe::{id, ms};

/// Runs alive at a time.
const SLOTS: usize = 12;
/// Old run ids that are still used now and then.
const RETIRED: usize = 24;

/// Makes the steps of one episode.
pub(crate) struct Generator {
    pub(super) random: Random,
    now: Timestamp,
    step: usize,
    /// Number of the next id that must be new.
    ids: u64,
    /// The run ids in use.
    slots: Vec<Uuid>,
    retired: VecDeque<Uuid>,
    /// The runs of the slots as the first store last showed them.
    view: BTreeMap<Uuid, RunRecord>,
    /// Runs of the slots that were seen at least once: one that is gone was purged.
    seen: BTreeSet<Uuid>,
    /// Leases that were used up, as far as the generator knows.
    used: BTreeSet<(usize, usize)>,
    /// Steps that only make sense one after the other, mixed with others.
    script: VecDeque<(Duration, Intent)>,
}

impl Generator {
    /// The generator of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut generator = Self {
            random: Random::new(seed),
            now: Timestamp::from_second(1_800_000_000).expect("an instant in 2027"),
            step: 0,
            ids: 1,
            slots: Vec::new(),
            retired: VecDeque::new(),
            view: BTreeMap::new(),
            seen: BTreeSet::new(),
            used: BTreeSet::new(),
            script: VecDeque::new(),
        };
        generator.slots = (0..SLOTS).map(|_| generator.new_run_id()).collect();
        generator
    }

    /// The run ids in use, for [`Self::look`].
    pub(crate) fn slots(&self) -> &[Uuid] {
        &self.slots
    }

    /// Sees how the runs in use stand.
    pub(crate) fn look(&mut self, runs: Vec<Option<ClaimedTurn>>) {
        self.view = runs
            .into_iter()
            .flatten()
            .map(|turn| (turn.run.id, turn.run))
            .collect();
        self.seen.extend(self.view.keys());
    }

    /// The next step.
    pub(crate) fn next(&mut self, session: &Session) -> Step {
        let number = self.step;
        self.step += 1;
        let scripted = self.random.percent(40);
        let intent = match self.script.pop_front() {
            Some((pause, intent)) if scripted => {
                self.advance(pause);
                intent
            }
            other => {
                if let Some(later) = other {
                    self.script.push_front(later);
                }
                self.pass_time(session);
                self.intent(session)
            }
        };
        Step {
            number,
            now: self.now,
            intent,
        }
    }

    fn intent(&mut self, session: &Session) -> Intent {
        // Out of 400.
        match self.random.below(400) {
            0..24 => self.start_runs(),
            24..134 => self.turns(session),
            134..144 => self.same_turns(session),
            144..172 => self.claim_tasks(),
            172..216 => self.finish_tasks(session),
            216..226 => self.extend_leases(session),
            226..234 => self.release_tasks(session),
            234..242 => self.ownership(),
            242..254 => self.claim_turns(),
            254..272 => self.send_signals(),
            272..284 => self.send_updates(),
            284..287 => self.terminate_runs(),
            287..307 => self.fire_due(),
            307..317 => self.reap_leases(),
            317..331 => self.relay_messages(),
            331..345 => self.schedules(),
            345..357 => self.workers(),
            357..365 => self.dead_letters(session),
            365..371 => self.outbox(session),
            371..379 => self.breakers_and_once(),
            379..381 => self.purge_runs(),
            381 if self.random.percent(50) => self.purge_old(),
            381 => self.delete_run(),
            382..384 => {
                self.write_script();
                self.fire_due()
            }
            _ => self.read(),
        }
    }

    // ---- time ---------------------------------------------------------------------------------

    fn advance(&mut self, by: Duration) {
        if let Ok(later) = self.now.checked_add(by) {
            self.now = later;
        }
    }

    fn pass_time(&mut self, session: &Session) {
        match self.random.below(10_000) {
            0..4_500 => {}
            4_500..8_500 => {
                // Nanoseconds too: stores cut them off.
                let nanos = self.random.below(50_000_000);
                self.advance(Duration::from_nanos(nanos));
            }
            8_500..9_300 => {
                let by = ms(self.random.below(3_000));
                self.advance(by);
            }
            9_300..9_900 => self.jump_to(session.next_due),
            9_900..9_940 => {
                let by = ms(self.random.below(120_000));
                self.advance(by);
            }
            9_940..9_990 => {
                let back = i64::try_from(self.random.below(2_000)).expect("small");
                if let Ok(earlier) = self.now.checked_sub(SignedDuration::from_millis(back)) {
                    self.now = earlier;
                }
            }
            9_990..9_992 => self.advance(Duration::from_hours(1)),
            9_992..9_994 => self.advance(Duration::from_hours(31 * 24)),
            _ => {}
        }
    }

    /// To the very instant at which something is due, or a microsecond beside it.
    fn jump_to(&mut self, due: Option<Timestamp>) {
        let month = Duration::from_hours(24 * 30);
        let Some(due) = due.filter(|due| {
            *due > self.now && self.now.checked_add(month).is_ok_and(|later| *due < later)
        }) else {
            return;
        };
        let beside = i64::try_from(self.random.below(3)).expect("small") - 1;
        self.now = due
            .checked_add(SignedDuration::from_micros(beside))
            .unwrap_or(due);
    }

    // ---- ids and runs -------------------------------------------------------------------------

    fn new_number(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// An id that was never used.
    fn new_id(&mut self, kind: u8) -> Uuid {
        id(self.new_number(), kind)
    }

    fn new_run_id(&mut self) -> Uuid {
        self.new_id(1)
    }

    /// The run id to use for a start: one that was never used, or, once in a while, one that was.
    fn run_to_start(&mut self) -> Uuid {
        if self.random.one_in(15) {
            return self.retired();
        }
        let first = self.random.index(SLOTS);
        let over = |run: &Uuid| match self.view.get(run) {
            Some(run) => run.status.is_terminal(),
            None => self.seen.contains(run),
        };
        let unused = |run: &Uuid| !self.seen.contains(run);
        let places = || (0..SLOTS).map(|step| (first + step) % SLOTS);
        let at = places()
            .find(|at| over(&self.slots[*at]) || unused(&self.slots[*at]))
            .unwrap_or(first);
        let replaced = if over(&self.slots[at]) { 80 } else { 3 };
        if self.random.percent(replaced) {
            let new = self.new_run_id();
            self.retired.push_back(self.slots[at]);
            if self.retired.len() > RETIRED {
                self.retired.pop_front();
            }
            self.slots[at] = new;
        }
        self.slots[at]
    }

    /// A run that no slot has any more.
    fn retired(&mut self) -> Uuid {
        if self.retired.is_empty() {
            return self.run();
        }
        let at = self.random.index(self.retired.len());
        self.retired[at]
    }

    /// A run: mostly one that has not ended.
    fn run(&mut self) -> Uuid {
        match self.random.below(100) {
            0..80 => self.run_with(|run| !run.status.is_terminal()),
            80..95 => self.random.pick(&self.slots),
            95..97 if !self.retired.is_empty() => self.retired(),
            _ => id(self.random.below(3), 9),
        }
    }

    /// A run of which this holds, as far as the generator knows; any run if there is none.
    fn run_with(&mut self, wanted: impl Fn(&RunRecord) -> bool) -> Uuid {
        let fitting: Vec<Uuid> = self
            .view
            .values()
            .filter(|run| wanted(run))
            .map(|run| run.id)
            .collect();
        if fitting.is_empty() {
            self.random.pick(&self.slots)
        } else {
            self.random.pick(&fitting)
        }
    }

    /// How many items a call has: mostly one, sometimes none.
    fn batch(&mut self) -> usize {
        match self.random.below(40) {
            0 => 0,
            1..30 => 1,
            30..36 => 2,
            _ => 4,
        }
    }

    fn several<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.batch()).map(|_| make(self)).collect()
    }

    /// One of the leases granted lately, one that was not used before if there is one.
    fn lease(&mut self, session: &Session, wanted: impl Fn(Uuid, &str) -> bool) -> LeaseRef {
        let recent: Vec<(usize, usize)> = session
            .leases
            .iter()
            .rev()
            .take(60)
            .filter(|(_, (lease, kind))| wanted(lease.run_id, kind))
            .map(|(at, _)| *at)
            .collect();
        let unused: Vec<(usize, usize)> = recent
            .iter()
            .filter(|at| !self.used.contains(at))
            .copied()
            .collect();
        let (step, index) = if !unused.is_empty() && self.random.percent(85) {
            self.random.pick(&unused)
        } else if recent.is_empty() {
            (self.step, 0)
        } else {
            self.random.pick(&recent)
        };
        LeaseRef {
            step,
            index,
            altered: self.altered(),
        }
    }

    /// The same, to be used up.
    fn last_use(&mut self, session: &Session, wanted: impl Fn(Uuid, &str) -> bool) -> LeaseRef {
        let lease = self.lease(session, wanted);
        self.used.insert((lease.step, lease.index));
        lease
    }

    /// Whether a lease that was not used before is known for this run.
    fn has_lease(&self, session: &Session, run: Uuid) -> bool {
        session
            .leases
            .iter()
            .rev()
            .take(60)
            .any(|(at, (lease, _))| lease.run_id == run && !self.used.contains(at))
    }
}
