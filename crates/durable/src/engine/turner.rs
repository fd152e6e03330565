//! The turner: takes the turns of this process's runs, in sets.
//!
//! ```text
//!   Desk ──take──► load (inbox, history) ──► decide ──► hand-over ──► commit_turns ──► settle
//!     ▲                                                                                  │
//!     └────────── rings, finished activities, conflicts (again) ◄────────────────────────┘
//! ```
//!
//! While one set is being committed, whatever becomes ready joins the next one. A few committers run side by side, each
//! with runs of its own: [`Desk`] gives a run to one at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use durable_core::{ProgramState, TurnError};
use tokio::sync::Semaphore;
use tracing::{error, warn};
use uuid::Uuid;

use super::assemble::Assembly;
use super::beginning::{AskedBy, Beginning};
use super::cache::{Cache, Kept, Place};
use super::decide::{Decision, Given, conclude, decide};
use super::desk::Set;
use super::hand_over::HandOver;
use super::load::{Inbox, Loaded, Loader, Ready};
use super::node::Node;
use super::off_runtime::Effort;
use super::too_large::{failing, failure_of};
use crate::persistence::limits::{TEXT_BYTES_MAX, clip};
use crate::persistence::model::{BlockRun, LeaseRequest, OwnerRequest, RunRecord, TurnCommit};
use crate::persistence::{AsideKind, Bug, check, planted};
use crate::runtime;
use crate::worker::{Finished, Slot};

/// Takes turns for one process.
pub(crate) struct Turner {
    pub(crate) node: Arc<Node>,
    pub(crate) cache: Cache,
    /// Of turns whose runs another transaction has locked.
    lane: Semaphore,
}

/// First wait before the turn of a run that another transaction has locked is committed again;
/// doubles up to the largest.
const LOCKED_AGAIN: Duration = Duration::from_millis(50);
/// Largest such wait.
const LOCKED_AGAIN_MAX: Duration = Duration::from_secs(1);
/// Most such turns that are tried at once: the others' commits need the connections.
const LOCKED_AT_ONCE: usize = 2;

/// A turn that was decided and is to be committed.
pub(super) struct Decided {
    pub(super) commit: TurnCommit,
    pub(super) program: ProgramState,
    pub(super) place: Place,
    pub(super) finished: Vec<Finished>,
    pub(super) hand_over: HandOver,
    /// Whoever wants the run started with this turn.
    pub(super) asked_by: Option<AskedBy>,
}

/// A turn that has taken its facts; local activities may have something to add.
pub(super) struct Undecided {
    pub(super) decision: Decision,
    pub(super) program: ProgramState,
    pub(super) place: Place,
    /// What of the inbox it has taken: all that is left in it.
    pub(super) inbox: Inbox,
    pub(super) finished: Vec<Finished>,
    /// The run does not exist yet: it is started with this turn.
    pub(super) beginning: Option<Box<Beginning>>,
}

impl Turner {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let turns = &node.settings.turns;
        let max = if turns.always_replay {
            0
        } else {
            turns.cached_programs_max
        };
        let cache = Cache::new(max, turns.cached_events_max);
        let lane = Semaphore::new(LOCKED_AT_ONCE);
        Self { node, cache, lane }
    }

    /// One committer: until the desk is closed and empty.
    pub(crate) async fn run(self: Arc<Self>) {
        let node = &self.node;
        let (desk, max) = (&node.hub.desk, node.settings.turns.set_max);
        let room = |origin| node.pool.room(origin);
        while let Some(set) = desk.take(max, &node.runtime, room).await {
            let runs: Vec<Uuid> = set.runs.iter().map(|(run_id, _)| *run_id).collect();
            if runtime::guarded("committer", self.turn_set(set))
                .await
                .is_none()
            {
                self.take_again(runs).await;
            }
        }
    }

    /// After a panic: nobody has these runs in hand any more. Whatever ended here is lost with its lease, and tried again.
    async fn take_again(&self, runs: Vec<Uuid>) {
        let desk = &self.node.hub.desk;
        self.node.runtime.recover().await;
        desk.ring(runs.iter().copied());
        let down = runs.into_iter().map(|run| (run, self.cache.holds(run)));
        desk.put_down(down.collect::<Vec<_>>());
    }

    async fn turn_set(self: &Arc<Self>, set: Set) {
        let Set {
            runs: set,
            slots: mut spare,
        } = set;
        let mut runs: Vec<Uuid> = set.iter().map(|(run_id, _)| *run_id).collect();
        let loaded = Loader::new(self).load(set).await;
        let mut decided = Vec::with_capacity(loaded.len());
        for run in loaded {
            let run = match run {
                Ready::Here(run) => *run,
                Ready::Elsewhere(run) => {
                    // It stays in hand, and no other run waits: its commit is one of its own.
                    let run_id = run.run_id();
                    runs.retain(|other| *other != run_id);
                    self.spawn_apart("turns elsewhere", run_id, |turner| {
                        turner.turn_elsewhere(*run)
                    });
                    continue;
                }
            };
            let is_new = run.beginning.is_some();
            match self.decide(run) {
                // Nothing is lost: it is started on its own, and its turn taken then.
                Ok(Some(turn)) if is_new && turn.program.waits_for_local() => {}
                Err(_) if is_new => {}
                Ok(Some(turn)) if turn.program.waits_for_local() => {
                    // It stays in hand, and no other run waits: its commit is one of its own.
                    runs.retain(|run_id| *run_id != turn.place.run_id);
                    let run_id = turn.place.run_id;
                    self.spawn_apart("local activities", run_id, |turner| {
                        turner.turn_with_locals(turn)
                    });
                }
                Ok(Some(turn)) => match self.conclude(turn, &mut spare) {
                    Ok(turn) if matches!(turn.asked_by, Some(AskedBy::Offer(_))) => {
                        // Others commit it, and keep nobody waiting here.
                        let run_id = turn.place.run_id;
                        runs.retain(|other| *other != run_id);
                        self.spawn_apart("offers", run_id, |turner| turner.commit_apart(turn));
                    }
                    Ok(turn) => decided.push(turn),
                    Err(_) if is_new => {}
                    Err(fault) => self.block(*fault).await,
                },
                Ok(None) => {}
                Err(fault) => self.block(*fault).await,
            }
        }
        // What was not needed is free for others while the set is committed.
        drop(spare);
        for turn in self.commit(decided).await {
            // Another transaction has the run. It stays in hand, and no other run waits: its
            // commit is one of its own.
            let run_id = turn.place.run_id;
            runs.retain(|other| *other != run_id);
            self.spawn_apart("locked runs", run_id, |turner| turner.commit_apart(turn));
        }
        let down = runs.into_iter().map(|run| (run, self.cache.holds(run)));
        self.node.hub.desk.put_down(down.collect::<Vec<_>>());
    }

    /// Commits a turn beside the committers.
    pub(super) async fn commit_apart(self: Arc<Self>, turn: Decided) {
        let run_id = turn.place.run_id;
        self.commit_alone(turn).await;
        let kept = self.cache.holds(run_id);
        self.node.hub.desk.put_down([(run_id, kept)]);
    }

    /// Commits a turn, however long another transaction has its run locked. Of all turns that meet
    /// a lock only a few are tried at once.
    pub(super) async fn commit_alone(&self, turn: Decided) {
        let runtime = &self.node.runtime;
        let run_id = turn.place.run_id;
        let mut turns = self.commit(vec![turn]).await;
        let mut wait = LOCKED_AGAIN;
        while let Some(turn) = turns.pop() {
            runtime.sleep(runtime.jittered(wait)).await;
            wait = (wait * 2).min(LOCKED_AGAIN_MAX);
            let _lane = self.lane.acquire().await;
            turns = self.commit(vec![turn]).await;
        }
        if let Some(asides) = self.node.store.asides() {
            asides.settled(AsideKind::Turn, run_id);
        }
    }

    /// Takes a turn beside the committers.
    fn spawn_apart<F>(
        self: &Arc<Self>,
        part: &'static str,
        run_id: Uuid,
        turn: impl FnOnce(Arc<Self>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let turner = Arc::clone(self);
        let turning = turn(Arc::clone(self));
        self.node.runtime.spawn(async move {
            if runtime::guarded(part, turning).await.is_none() {
                turner.take_again(vec![run_id]).await;
            }
        });
    }

    /// Hands a run its facts. None: there was nothing to take.
    pub(super) fn decide(&self, loaded: Loaded) -> Result<Option<Undecided>, Box<Fault>> {
        let Loaded {
            mut program,
            place,
            resumed,
            begin,
            beginning,
            mut inbox,
            finished,
        } = loaded;
        // Numbers that were counted and have no fact any more are taken with a turn of their own.
        let nothing = begin.is_none() && inbox.through <= place.consumed && finished.is_empty();
        if nothing && resumed.events.is_empty() && !program.waits_for_local() {
            // Rung for without a fact: something else than a fact may have woken the code.
            return match guarded(|| program.check()) {
                Ok(()) => {
                    self.keep(program, place);
                    Ok(None)
                }
                Err(reason) => Err(Box::new(Fault::new(&place, reason, finished))),
            };
        }
        if planted(Bug::ArrivalsForgotten) {
            inbox.facts.truncate(1);
        }
        let given = Given {
            begin,
            facts: &inbox.facts,
            finished: &finished,
            worker_id: &self.node.worker_id,
        };
        let decide = || guarded(|| decide(&mut program, resumed, &given));
        let node = &self.node;
        match node.off_runtime.run(&node.runtime, Effort::Turn, decide) {
            Ok(decision) => {
                inbox.keep_first(decision.facts_taken);
                Ok(Some(Undecided {
                    decision,
                    program,
                    place,
                    inbox,
                    finished,
                    beginning,
                }))
            }
            Err(reason) => Err(Box::new(Fault::new(&place, reason, finished))),
        }
    }

    /// Makes a commit of what a turn has come to. Its new tasks may have the spare slots.
    pub(super) fn conclude(
        &self,
        turn: Undecided,
        spare: &mut Vec<Slot>,
    ) -> Result<Decided, Box<Fault>> {
        let Undecided {
            mut decision,
            mut program,
            place,
            inbox,
            finished,
            beginning,
        } = turn;
        let identity = program.identity();
        let (start, asked_by) = beginning.map(|beginning| beginning.into_parts()).unzip();
        let concluded = guarded(|| conclude(&mut program, &mut decision)).and_then(|()| {
            let assembly = Assembly {
                runtime: &self.node.runtime,
                workflows: &self.node.workflows,
                identity,
                place: &place,
                facts_through: inbox.through,
                leaves_rest: inbox.more,
            };
            let mut commit = assembly.commit(decision);
            commit.start = start;
            if self.node.store.encodes_payloads() {
                return Ok(commit);
            }
            let Err(error) = check::turns(std::slice::from_ref(&commit)) else {
                return Ok(commit);
            };
            let Some(failure) = failure_of(&error) else {
                return Err(format!("the turn cannot be stored: {error}"));
            };
            warn!(run_id = %commit.run_id, %error, "the run fails: its turn is over a limit");
            let turn_id = self.node.runtime.new_id();
            Ok(failing(&commit, failure, turn_id))
        });
        match concluded {
            Ok(mut commit) => {
                let hand_over = self.prepare(&mut commit, &program, finished.len(), spare);
                Ok(Decided {
                    commit,
                    program,
                    place,
                    finished,
                    hand_over,
                    asked_by,
                })
            }
            Err(reason) => Err(Box::new(Fault::new(&place, reason, finished))),
        }
    }

    /// What the committer adds: its ownership, and the tasks it takes over at once.
    fn prepare(
        &self,
        commit: &mut TurnCommit,
        program: &ProgramState,
        ended: usize,
        spare: &mut Vec<Slot>,
    ) -> HandOver {
        let worker_id = &self.node.worker_id;
        // Others must not leave alone what is not kept here: they would be the only ones to hear of its next fact.
        commit.owner = self.cache.keeps_any().then(|| OwnerRequest {
            worker_id: worker_id.clone(),
            lease: self.node.settings.turns.owner_lease,
        });
        let hand_over = HandOver::reserve(&self.node, commit, program, ended, spare);
        if !hand_over.is_empty() {
            commit.lease = Some(LeaseRequest {
                worker_id: worker_id.clone(),
                lease: self.node.settings.worker.lease,
            });
        }
        hand_over
    }

    /// Keeps a program for its next turn, if there is room; others may have to go for it.
    pub(super) fn keep(&self, program: ProgramState, place: Place) {
        if !place.is_usable() {
            return;
        }
        let now = self.node.runtime.instant();
        let gone = self.cache.keep(Kept { program, place }, now);
        for run in &gone {
            self.node.hub.desk.moved_out(*run);
        }
        self.node.hub.ownership.give_up(gone);
    }

    /// A run that this build cannot turn waits for another build; what ended here is not lost meanwhile.
    pub(super) async fn block(&self, fault: Fault) {
        warn!(run_id = %fault.run_id, reason = %fault.reason, "the run is blocked for this build");
        self.node.results.store(fault.finished);
        let reason = clip(fault.reason, TEXT_BYTES_MAX);
        let block = BlockRun {
            run_id: fault.run_id,
            expected_sequence: fault.sequence,
            build: fault
                .build
                .unwrap_or_else(|| self.node.settings.build.clone()),
            reason,
        };
        if let Err(error) = self.node.store.block_runs(vec![block], None).await {
            // Its next claim comes to the same point and tries again.
            error!(run_id = %fault.run_id, %error, "the block could not be stored");
        }
        // Whoever waits for its result is told.
        self.node.hub.answered(fault.run_id);
    }
}

/// A run that cannot be turned by this build.
pub(super) struct Fault {
    pub(super) run_id: Uuid,
    pub(super) sequence: i64,
    /// The build that cannot, where it is not this process's.
    build: Option<String>,
    pub(super) reason: String,
    pub(super) finished: Vec<Finished>,
}

impl Fault {
    /// A run that cannot even be given to its code.
    pub(super) fn of_run(
        node: &Node,
        run: &RunRecord,
        reason: String,
        finished: Vec<Finished>,
    ) -> Self {
        Self {
            run_id: run.id,
            sequence: run.sequence,
            build: Some(node.build_for(&run.workflow_type, &run.version)),
            reason,
            finished,
        }
    }

    pub(super) fn new(place: &Place, reason: String, finished: Vec<Finished>) -> Self {
        Self {
            run_id: place.run_id,
            sequence: place.sequence,
            build: place
                .seat
                .as_ref()
                .map(|seat| seat.host().build().to_owned()),
            reason,
            finished,
        }
    }
}

/// Runs the workflow's code; its panic is the run's trouble, not the process's.
pub(super) fn guarded<T>(code: impl FnOnce() -> Result<T, TurnError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("the workflow panicked: {}", panic_text(&*panic))),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}
