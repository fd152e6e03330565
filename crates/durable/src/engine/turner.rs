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

use durable_core::{ProgramState, Turn};
use tracing::{error, warn};
use uuid::Uuid;

use super::assemble::Assembly;
use super::cache::{Cache, Kept, Place};
use super::decide::{Given, decide};
use super::desk::Wanted;
use super::hand_over::HandOver;
use super::load::{Loaded, Loader};
use super::node::Node;
use crate::persistence::model::{BlockRun, LeaseRequest, OwnerRequest, TurnCommit};
use crate::persistence::{Bug, check, planted};
use crate::worker::Finished;

/// Takes turns for one process.
pub(crate) struct Turner {
    pub(super) node: Arc<Node>,
    pub(super) cache: Cache,
}

/// A turn that was decided and is to be committed.
pub(super) struct Decided {
    pub(super) commit: TurnCommit,
    pub(super) program: ProgramState,
    pub(super) place: Place,
    pub(super) finished: Vec<Finished>,
    pub(super) hand_over: HandOver,
}

impl Turner {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let turns = &node.settings.turns;
        let max = if turns.always_replay {
            0
        } else {
            turns.cached_programs_max
        };
        let cache = Cache::new(max);
        Self { node, cache }
    }

    /// One committer: until the desk is closed and empty.
    pub(crate) async fn run(self: Arc<Self>) {
        let max = self.node.settings.turns.set_max;
        while let Some(set) = self.node.hub.desk.take(max).await {
            self.turn_set(set).await;
        }
    }

    async fn turn_set(&self, set: Vec<(Uuid, Wanted)>) {
        let runs: Vec<Uuid> = set.iter().map(|(run_id, _)| *run_id).collect();
        let loaded = Loader::new(self).load(set).await;
        let mut decided = Vec::with_capacity(loaded.len());
        for run in loaded {
            match self.decide(run) {
                Ok(turn) => decided.extend(turn),
                Err(fault) => self.block(*fault).await,
            }
        }
        let kept = self.commit(decided).await;
        let down = runs.into_iter().map(|run| (run, kept.contains(&run)));
        self.node.hub.desk.put_down(down.collect::<Vec<_>>());
    }

    /// Hands a run its facts. None: there was nothing to take.
    fn decide(&self, loaded: Loaded) -> Result<Option<Decided>, Box<Fault>> {
        let Loaded {
            mut program,
            place,
            resumed,
            begin,
            mut facts,
            finished,
        } = loaded;
        let nothing = begin.is_none() && facts.is_empty() && finished.is_empty();
        if nothing && resumed.events.is_empty() {
            self.keep(program, place);
            return Ok(None);
        }
        let identity = program.identity();
        let facts_through = facts.last().map_or(place.consumed, |fact| fact.arrival);
        if planted(Bug::ArrivalsForgotten) {
            facts.truncate(1);
        }
        let given = Given {
            begin,
            facts: &facts,
            finished: &finished,
            worker_id: &self.node.worker_id,
        };
        let outcome = guarded(&mut program, resumed, &given).and_then(|decision| {
            let assembly = Assembly {
                runtime: &self.node.runtime,
                workflows: &self.node.workflows,
                identity,
                place: &place,
                facts_through,
            };
            let commit = assembly.commit(decision);
            if self.node.store.encodes_payloads() {
                return Ok(commit);
            }
            match check::turns(std::slice::from_ref(&commit)) {
                Ok(()) => Ok(commit),
                Err(error) => Err(format!("the turn cannot be stored: {error}")),
            }
        });
        match outcome {
            Ok(mut commit) => {
                let hand_over = self.prepare(&mut commit, &program);
                Ok(Some(Decided {
                    commit,
                    program,
                    place,
                    finished,
                    hand_over,
                }))
            }
            Err(reason) => Err(Box::new(Fault {
                run_id: place.run_id,
                sequence: place.sequence,
                reason,
                finished,
            })),
        }
    }

    /// What the committer adds: its ownership, and the tasks it takes over at once.
    fn prepare(&self, commit: &mut TurnCommit, program: &ProgramState) -> HandOver {
        let worker_id = &self.node.worker_id;
        commit.owner = Some(OwnerRequest {
            worker_id: worker_id.clone(),
            lease: self.node.settings.turns.owner_lease,
        });
        let hand_over = HandOver::reserve(&self.node, commit, program);
        if !hand_over.is_empty() {
            commit.lease = Some(LeaseRequest {
                worker_id: worker_id.clone(),
                lease: self.node.settings.worker.lease,
            });
        }
        hand_over
    }

    /// Keeps a program for its next turn; answers whether it is still here.
    pub(super) fn keep(&self, program: ProgramState, place: Place) -> bool {
        let run_id = place.run_id;
        let gone = self.cache.keep(Kept { program, place });
        for run in &gone {
            self.node.hub.desk.moved_out(*run);
        }
        !gone.contains(&run_id)
    }

    /// A run that this build cannot turn waits for another build; what ended here is not lost meanwhile.
    pub(super) async fn block(&self, fault: Fault) {
        warn!(run_id = %fault.run_id, reason = %fault.reason, "the run is blocked for this build");
        self.node.results.store(fault.finished);
        let block = BlockRun {
            run_id: fault.run_id,
            expected_sequence: fault.sequence,
            build: self.node.settings.build.clone(),
            reason: fault.reason,
        };
        if let Err(error) = self.node.store.block_runs(vec![block], None).await {
            // Its next claim comes to the same point and tries again.
            error!(run_id = %fault.run_id, %error, "the block could not be stored");
        }
    }
}

/// A run that cannot be turned by this build.
pub(super) struct Fault {
    pub(super) run_id: Uuid,
    pub(super) sequence: i64,
    pub(super) reason: String,
    pub(super) finished: Vec<Finished>,
}

/// Runs the workflow's code; its panic is the run's trouble, not the process's.
fn guarded(
    program: &mut ProgramState,
    turn: Turn,
    given: &Given<'_>,
) -> Result<super::decide::Decision, String> {
    let decided = catch_unwind(AssertUnwindSafe(|| decide(program, turn, given)));
    match decided {
        Ok(Ok(decision)) => Ok(decision),
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
