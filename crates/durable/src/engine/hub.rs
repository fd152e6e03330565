//! Wake-ups: who in this process, and in the others, may have something to do.
//!
//! A ring is a hint. Every loop also looks by itself now and then, so a lost one costs time and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use durable_core::Payload;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::desk::{Desk, Overheard};
use crate::chores::Troubles;
use crate::hosting::{Engines, TaskBell};
use crate::persistence::model::Next;
use crate::persistence::{Bell, Bug, Ring, planted};

/// The wake-ups of one process.
pub(crate) struct Hub {
    /// Runs that want a turn here.
    pub(crate) desk: Arc<Desk>,
    /// Tasks may be claimed by this process's own worker.
    pub(crate) tasks: Notify,
    /// Tasks may be claimed by workers that this process serves.
    pub(crate) elsewhere: Arc<TaskBell>,
    /// Engines in other processes that take the first turns of runs started here.
    pub(crate) engines: Engines,
    /// Turns may be claimed.
    pub(crate) turns: Notify,
    /// Messages wait to be delivered.
    pub(crate) messages: Notify,
    /// Leases may have run out.
    pub(crate) leases: Notify,
    /// Which chores fail.
    pub(crate) troubles: Arc<Troubles>,
    /// Leases had run out: others of the same worker run out next.
    pub(crate) lookout: Notify,
    /// What others see of this process has changed: a sign of life is due now.
    pub(crate) signs: Notify,
    /// Something is due earlier than was known.
    pub(crate) due: DueBell,
    /// Schedules may have a tick due.
    pub(crate) schedules: ScheduleBell,
    /// Runs that others need not leave alone any more.
    pub(crate) ownership: OwnershipBell,
    finished: Mutex<BTreeMap<Uuid, Waiters>>,
    bell: Option<Arc<dyn Bell>>,
    /// Whether the store tells others of the turns that are committed to it.
    announced: bool,
    /// Whether this process does the store's chores; where it does not, it passes on what it has for them and hears nothing of them.
    housekeeping: bool,
}

impl Hub {
    pub(crate) fn new(desk: Arc<Desk>, bell: Option<Arc<dyn Bell>>, housekeeping: bool) -> Self {
        Self {
            desk,
            tasks: Notify::new(),
            elsewhere: Arc::default(),
            engines: Engines::default(),
            turns: Notify::new(),
            messages: Notify::new(),
            leases: Notify::new(),
            troubles: Arc::default(),
            lookout: Notify::new(),
            signs: Notify::new(),
            due: DueBell::new(!housekeeping),
            schedules: ScheduleBell::default(),
            ownership: OwnershipBell::default(),
            finished: Mutex::default(),
            bell,
            announced: false,
            housekeeping,
        }
    }

    /// What others are to know of starts and turns, the store tells them.
    pub(crate) fn announced_by_store(mut self, announced: bool) -> Self {
        self.announced = announced;
        self
    }

    /// Whether this process does the store's chores.
    pub(crate) const fn does_housekeeping(&self) -> bool {
        self.housekeeping
    }

    /// Whether other processes can share the store and ring here.
    pub(crate) fn bell(&self) -> Option<&Arc<dyn Bell>> {
        self.bell.as_ref()
    }

    /// Runs have facts waiting: this process looks first; if they are not its own, it passes the ring on.
    pub(crate) fn ready_runs(&self, runs: impl IntoIterator<Item = Uuid>) {
        self.desk.ring(runs);
    }

    /// A run was started here, for this process.
    pub(crate) fn started(&self, run_id: Uuid, now: Instant) {
        self.desk.started(run_id, now);
    }

    /// Runs that are not for this process have facts waiting.
    pub(crate) fn pass_on(&self, runs: impl IntoIterator<Item = Uuid>) {
        if !planted(Bug::RingForgotten) {
            self.ring_others(|ring| ring.ready_runs.extend(runs));
        }
    }

    /// A schedule was made or changed by a process that fires none. Too rare for a name of its own in a ring.
    pub(crate) fn pass_on_schedules(&self) {
        self.ring_others(|ring| ring.everything = true);
    }

    /// Tasks of these types may be claimed by anyone.
    pub(crate) fn claimable<'a>(&self, types: impl IntoIterator<Item = &'a str> + Clone) {
        self.tasks.notify_one();
        self.claimable_by_others(types);
    }

    /// Tasks of types that are not known here may be claimed: for those who look here.
    pub(crate) fn claimable_here(&self) {
        self.tasks.notify_one();
        self.elsewhere.ring_all();
    }

    /// Tasks of these types may be claimed by anyone, and other processes should have a look first.
    pub(crate) fn claimable_by_others<'a>(&self, types: impl IntoIterator<Item = &'a str> + Clone) {
        self.elsewhere.ring(types.clone());
        self.ring_others(|ring| ring.task_types.extend(types.into_iter().map(str::to_owned)));
    }

    /// Runs have ended.
    pub(crate) fn finished(&self, runs: &[Uuid]) {
        self.wake_waiters(runs);
        self.ring_others(|ring| ring.finished_runs.extend(runs.iter().copied()));
    }

    /// A turn was committed here: whoever waits for the end of the run, or for an answer to an update, is told. Where it ended with a result,
    /// they need not look.
    pub(crate) fn turned(&self, run_id: Uuid, next: &Next, answers: bool) {
        if !matches!(next, Next::Wait)
            && let Some(waiters) = self.finished.lock().get_mut(&run_id)
        {
            // What it ended with before it was reset counts no more.
            waiters.result = match next {
                Next::Complete { result } => Some(result.clone()),
                _ => None,
            };
        }
        let ends = matches!(
            next,
            Next::Complete { .. } | Next::Fail { .. } | Next::Cancel { .. }
        );
        if !ends && !answers {
            return;
        }
        self.wake_waiters(&[run_id]);
        if !self.announced {
            self.ring_others(|ring| ring.finished_runs.extend([run_id]));
        }
    }

    /// A run that goes on has something to say, or cannot go on here: whoever waits at it looks.
    pub(crate) fn answered(&self, run_id: Uuid) {
        self.wake_waiters(&[run_id]);
        self.ring_others(|ring| ring.finished_runs.extend([run_id]));
    }

    /// Other processes should look at this.
    pub(crate) fn tell_others(&self, ring: Ring) {
        self.ring_others(|empty| *empty = ring);
    }

    fn ring_others(&self, fill: impl FnOnce(&mut Ring)) {
        let Some(bell) = &self.bell else { return };
        let mut ring = Ring::default();
        fill(&mut ring);
        if !ring.is_empty() {
            bell.ring(ring);
        }
    }

    /// What another process rang for.
    pub(crate) fn heard(&self, ring: Ring) {
        if ring.everything {
            self.claimable_here();
        } else if !ring.task_types.is_empty() {
            self.tasks.notify_one();
            self.elsewhere
                .ring(ring.task_types.iter().map(String::as_str));
        }
        if self.housekeeping {
            self.heard_of_chores(&ring);
        }
        if ring.everything {
            self.signs.notify_one();
            self.turns.notify_one();
            self.finished.lock().values_mut().for_each(Waiters::ring);
        }
        self.wake_waiters(&ring.finished_runs.into_iter().collect::<Vec<_>>());
        if self.desk.overheard(ring.ready_runs) == Overheard::SomeStrange {
            self.turns.notify_one();
        }
    }

    fn heard_of_chores(&self, ring: &Ring) {
        if ring.everything || ring.messages {
            self.messages.notify_one();
        }
        if ring.everything || ring.clocks {
            self.due.ring();
        }
        if ring.everything {
            self.schedules.ring();
        }
    }

    fn wake_waiters(&self, runs: &[Uuid]) {
        self.schedules.ended(runs);
        let mut waiters = self.finished.lock();
        for run in runs {
            waiters.get_mut(run).into_iter().for_each(Waiters::ring);
        }
    }

    /// A bell for the end of a run, and for its answers to updates.
    pub(crate) fn watch(self: &Arc<Self>, run_id: Uuid) -> Watch {
        let bell = {
            let mut finished = self.finished.lock();
            let waiters = finished.entry(run_id).or_default();
            waiters.count += 1;
            Arc::clone(&waiters.bell)
        };
        Watch {
            hub: Arc::clone(self),
            run_id,
            bell,
        }
    }
}

/// Those who wait for the end of one run.
#[derive(Default)]
struct Waiters {
    bell: Arc<Notify>,
    /// How many; counted here, under the lock, so that of two who leave at once one is the last.
    count: usize,
    /// Whether it rang since the first of them came.
    rung: bool,
    /// The run's result, if it was seen here: for one of them.
    result: Option<Payload>,
}

impl Waiters {
    fn ring(&mut self) {
        self.rung = true;
        self.bell.notify_waiters();
    }
}

/// Somebody waits for the end of a run, or for its answer.
pub(crate) struct Watch {
    hub: Arc<Hub>,
    run_id: Uuid,
    bell: Arc<Notify>,
}

impl Watch {
    /// The next ring. Register (poll or `enable`) it before looking at the store, so that none falls in between.
    pub(crate) fn ring(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }

    /// Whether nothing was heard of the run since it is watched.
    pub(crate) fn is_quiet(&self) -> bool {
        let finished = self.hub.finished.lock();
        finished
            .get(&self.run_id)
            .is_none_or(|waiters| !waiters.rung)
    }

    /// The run's result, if it has ended with one here since it is watched. Answered once: it may be reset and end again.
    pub(crate) fn take_result(&self) -> Option<Payload> {
        let mut finished = self.hub.finished.lock();
        finished.get_mut(&self.run_id)?.result.take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut finished = self.hub.finished.lock();
        if let Some(waiters) = finished.get_mut(&self.run_id) {
            waiters.count -= 1;
            if waiters.count == 0 {
                finished.remove(&self.run_id);
            }
        }
    }
}

/// Those who look at the store's clocks may do so so much earlier than is known here: what is told them within that time of their look may
/// come too late for it.
const ABOUT_TO_LOOK: Duration = Duration::from_millis(100);

/// Wakes the due chore when something is due earlier than it knows: the one of this process, or, where this one does no housekeeping, the
/// one of those who do.
pub(crate) struct DueBell {
    /// When the chore is going to look, at the latest. None, of one's own: at once; of others': not known.
    planned: Mutex<Option<Instant>>,
    bell: Notify,
    of_others: bool,
}

impl DueBell {
    const fn new(of_others: bool) -> Self {
        Self {
            planned: Mutex::new(None),
            bell: Notify::const_new(),
            of_others,
        }
    }

    /// Something is due after this.
    pub(crate) fn due_in(&self, now: Instant, after: Duration) {
        let Some(at) = now.checked_add(after) else {
            return;
        };
        let mut planned = self.planned.lock();
        let is_news = match *planned {
            Some(planned) => at < planned || self.of_others && planned <= now + ABOUT_TO_LOOK,
            // One's own was told to look at once, and will.
            None => self.of_others,
        };
        if is_news {
            *planned = Some(at);
            self.bell.notify_one();
        }
    }

    /// Look now.
    pub(crate) fn ring(&self) {
        *self.planned.lock() = None;
        self.bell.notify_one();
    }

    /// The chore has looked; unless somebody asks for earlier, it looks again then.
    pub(crate) fn plan(&self, at: Instant) {
        *self.planned.lock() = Some(at);
    }

    /// How long the chore may sleep.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let planned = *self.planned.lock();
        planned.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    /// Ends when an earlier instant was asked for.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

/// Runs whose programs have left the memory: their ownership is to be given up.
#[derive(Default)]
pub(crate) struct OwnershipBell {
    given_up: Mutex<Vec<Uuid>>,
    bell: Notify,
}

impl OwnershipBell {
    /// These are not kept here any more.
    pub(crate) fn give_up(&self, runs: Vec<Uuid>) {
        if !runs.is_empty() {
            self.given_up.lock().extend(runs);
            self.bell.notify_one();
        }
    }

    /// Takes what is to be given up.
    pub(crate) fn take(&self) -> Vec<Uuid> {
        std::mem::take(&mut *self.given_up.lock())
    }

    /// Ends when it was rung.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

/// Wakes the chore of the schedules: one was made or changed here, or a run has ended that a tick waits for.
#[derive(Default)]
pub(crate) struct ScheduleBell {
    awaited: Mutex<BTreeSet<Uuid>>,
    bell: Notify,
}

impl ScheduleBell {
    /// Look now.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// A tick waits for the end of this run. To be called before looking whether it has ended, so that no end falls in between.
    pub(crate) fn wait_for(&self, run_id: Uuid) {
        self.awaited.lock().insert(run_id);
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&self, run_id: Uuid) {
        self.awaited.lock().remove(&run_id);
    }

    fn ended(&self, runs: &[Uuid]) {
        let awaited = self.awaited.lock();
        if runs.iter().any(|run| awaited.contains(run)) {
            self.bell.notify_one();
        }
    }

    /// Ends when it was rung.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn what_is_due_later_does_not_put_off_a_look_at_once() {
        let (due, now) = (DueBell::new(false), Instant::now());
        due.plan(now + Duration::from_secs(60));
        due.ring();
        due.due_in(now, Duration::from_secs(600));
        assert_eq!(due.wait(now), Duration::ZERO);
        due.plan(now + Duration::from_secs(60));
        due.due_in(now, Duration::from_secs(5));
        assert_eq!(due.wait(now), Duration::from_secs(5));
    }

    #[test]
    fn those_who_look_for_others_are_told_what_they_do_not_know() {
        let (due, now) = (DueBell::new(true), Instant::now());
        let rings = |at: Instant, after_ms: u64| {
            due.due_in(at, Duration::from_millis(after_ms));
            due.rung().now_or_never().is_some()
        };
        assert!(rings(now, 60_000), "nobody knows of it");
        assert!(!rings(now, 70_000), "they look before");
        assert!(rings(now, 1_000), "earlier than they look");
        assert!(!rings(now, 2_000));
        // They have looked, or are about to: what comes now they may not see.
        let then = now + Duration::from_millis(950);
        assert!(rings(then, 3_000));
        assert!(!rings(then, 4_000), "they were told, and look before");
        assert!(rings(then + Duration::from_secs(10), 20));
    }

    #[test]
    fn the_last_who_waits_for_a_run_leaves_nothing_behind() {
        let hub = Arc::new(Hub::new(Arc::default(), None, true));
        let run_id = Uuid::from_u128(1);
        let (one, other) = (hub.watch(run_id), hub.watch(run_id));
        // As another thread that drops its watch at this moment would.
        let still_dropping = Arc::clone(&one.bell);
        drop(one);
        assert_eq!(hub.finished.lock().len(), 1, "somebody still waits");
        drop(other);
        assert!(hub.finished.lock().is_empty());
        drop(still_dropping);
    }
}
