//! Gets a set of runs ready for their turns: the facts that wait, and the program, kept or rebuilt.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use durable_core::{
    HistoryState, NumberedEvent, Payload, Program, ProgramState, ReplayMode, Replayer, RunIdentity,
    Turn, effective_history,
};
use futures_util::future::join_all;
use tracing::{debug, warn};
use uuid::Uuid;

use super::beginning::Beginning;
use super::cache::{Kept, Place};
use super::desk::Wanted;
use super::elsewhere::{Distant, Way};
use super::turner::{Fault, Turner, panic_text};
use crate::codec::payloads::HoldsPayloads as _;
use crate::hosting::Seat;
use crate::persistence::StoreResult;
use crate::persistence::model::{ClaimedTurn, Fact, RunRecord};
use crate::runtime::Runtime;
use crate::worker::Finished;
use crate::workflow::{Birth, RunInfo, WorkflowRegistry};

/// Why a run with such a payload is blocked: to the program it would look like bad data, and fail the run.
const STILL_ENCODED: &str = "a payload of the run is encoded, and no codec here can decode it; is its codec set, with its key?";

/// A run whose turn can be taken.
pub(super) enum Ready {
    /// Its code is here.
    Here(Box<Loaded>),
    /// Its code is in another process, and has to be told first.
    Elsewhere(Box<Distant>),
}

/// A run, ready for its turn.
pub(super) struct Loaded {
    pub(super) program: ProgramState,
    pub(super) place: Place,
    /// What a fact that was recorded without its decision leads to.
    pub(super) resumed: Turn,
    /// Input of a run (or iteration) that has not begun.
    pub(super) begin: Option<Payload>,
    /// The run does not exist yet: it is started with this turn.
    pub(super) beginning: Option<Box<Beginning>>,
    pub(super) facts: Vec<Fact>,
    pub(super) finished: Vec<Finished>,
}

/// Loads a set.
pub(super) struct Loader<'a> {
    turner: &'a Turner,
}

/// A run whose program has to be rebuilt.
struct Cold {
    turn: ClaimedTurn,
    finished: Vec<Finished>,
}

impl<'a> Loader<'a> {
    pub(super) const fn new(turner: &'a Turner) -> Self {
        Self { turner }
    }

    pub(super) async fn load(&self, set: Vec<(Uuid, Wanted)>) -> Vec<Ready> {
        let mut loaded = Vec::with_capacity(set.len());
        let mut unseen = Vec::new();
        for (run_id, mut wanted) in set {
            if let Some(beginning) = wanted.beginning.take() {
                loaded.extend(self.begin(beginning));
                continue;
            }
            let kept = self.turner.cache.take(run_id);
            match (kept, wanted) {
                (
                    Some(kept),
                    Wanted {
                        rung: false,
                        claimed: None,
                        finished,
                        ..
                    },
                ) if kept.place.is_usable() && !may_have_been_overtaken(&kept, &finished) => {
                    loaded.push(warm(kept, Vec::new(), finished));
                }
                (kept, wanted) => unseen.push((run_id, kept, wanted)),
            }
        }
        if !unseen.is_empty() {
            self.look(unseen, &mut loaded).await;
        }
        loaded
    }

    /// A run that does not exist yet. None: its program cannot be made, and it is left to those who turn it once it is started.
    fn begin(&self, beginning: Box<Beginning>) -> Option<Ready> {
        let node = &self.turner.node;
        let run = RunRecord::new(&beginning.start, None, node.runtime.now());
        let (program, resumed) = rebuild(&node.workflows, &node.runtime, &run, Vec::new()).ok()?;
        let mut loaded = self.loaded(&run, program, resumed);
        loaded.begin = Some(run.input);
        loaded.beginning = Some(beginning);
        Some(Ready::Here(Box::new(loaded)))
    }

    /// A run whose program was made here, with nothing to take yet.
    fn loaded(&self, run: &RunRecord, mut program: ProgramState, resumed: Turn) -> Loaded {
        let (hub, run_id) = (Arc::clone(&self.turner.node.hub), run.id);
        program.on_foreign_wake(Arc::new(move || hub.ready_runs([run_id])));
        Loaded {
            program,
            place: place_of(run),
            resumed,
            begin: None,
            beginning: None,
            facts: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Reads what waits for runs that were rung for or are not kept here.
    async fn look(&self, runs: Vec<(Uuid, Option<Kept>, Wanted)>, loaded: &mut Vec<Ready>) {
        let unknown: Vec<Uuid> = runs
            .iter()
            .filter(|(_, _, wanted)| wanted.rung || wanted.claimed.is_none())
            .map(|(run_id, _, _)| *run_id)
            .collect();
        let mut found = match self.inboxes(&unknown).await {
            Ok(found) => found,
            Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                self.turner.put_off(runs, &error).await;
                return;
            }
            Err(error) if runs.len() == 1 => {
                self.turner.set_aside(runs, &error).await;
                return;
            }
            Err(error) => {
                // One of them cannot be read and takes the others with it: each on its own.
                warn!(%error, runs = runs.len(), "a set of runs cannot be read; reading one by one");
                for run in runs {
                    Box::pin(self.look(vec![run], loaded)).await;
                }
                return;
            }
        };
        let mut cold = Vec::new();
        for (run_id, kept, wanted) in runs {
            let Some(mut turn) = found
                .remove(&run_id)
                .or_else(|| wanted.claimed.map(|claimed| *claimed))
            else {
                debug!(%run_id, "the run does not exist any more");
                continue;
            };
            // A reset takes what is of no use any more out of the inbox: it was counted, and nobody will ever see it. What was read now is all
            // that is left of what had arrived, so the last of it stands for the rest.
            match turn.facts.last_mut() {
                Some(last) => last.arrival = last.arrival.max(wanted.arrived),
                None => turn.run.consumed = turn.run.consumed.max(wanted.arrived),
            }
            let finished = wanted.finished;
            if !self.turner.is_for_us(&turn.run) {
                self.turner.leave_to_others(&turn.run, finished);
                continue;
            }
            // Who started it may be no engine, and whoever continued it knows only how long, not since when.
            self.turner.node.announce_deadline(&turn.run);
            if turn.has_encoded() {
                let node = &self.turner.node;
                let fault = Fault::of_run(node, &turn.run, STILL_ENCODED.to_owned(), finished);
                self.turner.block(fault).await;
                continue;
            }
            match kept.filter(|kept| is_current(kept, &turn.run)) {
                Some(mut kept) => {
                    kept.place.consumed = turn.run.consumed;
                    loaded.push(warm(kept, turn.facts, finished));
                }
                None => cold.push(Cold { turn, finished }),
            }
        }
        let rebuilt = join_all(cold.into_iter().map(|run| self.rebuild(run))).await;
        for run in rebuilt {
            match run {
                Ok(run) => loaded.extend(run),
                Err(fault) => self.turner.block(*fault).await,
            }
        }
    }

    async fn inboxes(&self, runs: &[Uuid]) -> StoreResult<HashMap<Uuid, ClaimedTurn>> {
        if runs.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.turner.node.store.load_turns(runs).await?;
        Ok(found
            .into_iter()
            .flatten()
            .map(|turn| (turn.run.id, turn))
            .collect())
    }

    /// Replays a run. None: the store could not be read, it comes again later.
    async fn rebuild(&self, cold: Cold) -> Result<Option<Ready>, Box<Fault>> {
        let Cold { turn, finished } = cold;
        let run = &turn.run;
        let fault = |reason: String, finished| {
            let node = &self.turner.node;
            Box::new(Fault::of_run(node, run, reason, finished))
        };
        let events = if run.sequence == run.history_start {
            Vec::new()
        } else {
            let history = self
                .turner
                .node
                .store
                .load_history(run.id, run.history_start);
            match history.await {
                Ok(Some(mut history)) => {
                    if history.events.has_encoded() {
                        return Err(fault(STILL_ENCODED.to_owned(), finished));
                    }
                    let events = history.events.into_iter();
                    events
                        // A turn of another process may have come in between: the one at hand is for what was loaded first.
                        .filter(|event| event.sequence_num <= run.sequence)
                        .map(|event| (event.sequence_num, event.event))
                        .collect()
                }
                Ok(None) => return Ok(None),
                Err(error) if !error.is_retryable() && !error.is_outcome_unknown() => {
                    let reason = format!("its history cannot be read: {error}");
                    return Err(fault(reason, finished));
                }
                Err(error) => {
                    let wanted = Wanted {
                        rung: true,
                        finished,
                        ..Wanted::default()
                    };
                    self.turner
                        .put_off(vec![(run.id, None, wanted)], &error)
                        .await;
                    return Ok(None);
                }
            }
        };
        let node = &self.turner.node;
        let begin = (run.sequence == run.history_start).then(|| run.input.clone());
        let elsewhere = node
            .workflows
            .elsewhere_for(&run.workflow_type, &run.version);
        if let Some(host) = elsewhere {
            let seat = Seat::new(birth(run, &node.runtime).info, host);
            let run = Box::new(turn.run);
            return Ok(Some(Ready::Elsewhere(Box::new(Distant {
                way: Way::Told { run, events, seat },
                begin,
                facts: turn.facts,
                finished,
            }))));
        }
        match rebuild(&node.workflows, &node.runtime, run, events) {
            Ok((program, resumed)) => Ok(Some(Ready::Here(Box::new(Loaded {
                begin,
                facts: turn.facts,
                finished,
                ..self.loaded(run, program, resumed)
            })))),
            Err(reason) => Err(fault(reason, finished)),
        }
    }
}

/// Rebuilds a run's program from the events of its current iteration, and what its last fact leads to if that was not decided.
pub(crate) fn rebuild(
    workflows: &WorkflowRegistry,
    runtime: &Runtime,
    run: &RunRecord,
    events: Vec<NumberedEvent>,
) -> Result<(ProgramState, Turn), String> {
    let program = workflows
        .program(birth(run, runtime))
        .ok_or_else(|| format!("this build has no workflow {}", run.workflow_type))?;
    replayed(program, run, events)
}

/// Gives a new program the events of its run's current iteration.
pub(crate) fn replayed(
    program: Box<dyn Program>,
    run: &RunRecord,
    events: Vec<NumberedEvent>,
) -> Result<(ProgramState, Turn), String> {
    let identity = RunIdentity {
        run_id: run.id,
        epoch: run.epoch,
        iteration: run.iteration,
    };
    if events.is_empty() {
        let history = HistoryState::after(run.sequence);
        let state = ProgramState::after(identity, program, history);
        return Ok((state, Turn::default()));
    }
    let history = effective_history(events).map_err(|error| error.to_string())?;
    let replayed = catch_unwind(AssertUnwindSafe(|| {
        let mut replayer = Replayer::new(identity, program, ReplayMode::Normal);
        for (sequence_num, event) in history.events {
            replayer.push(sequence_num, event)?;
        }
        replayer.resume()
    }));
    match replayed {
        Ok(Ok(replayed)) => Ok(replayed),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("the workflow panicked: {}", panic_text(&*panic))),
    }
}

/// One in line has ended here; those ahead of it ended before, and if that was elsewhere their results wait in the inbox.
fn may_have_been_overtaken(kept: &Kept, finished: &[Finished]) -> bool {
    let in_line = finished
        .iter()
        .any(|finished| finished.task.options.sequential);
    in_line && kept.program.history().pending_activities().count() > finished.len()
}

fn warm(kept: Kept, facts: Vec<Fact>, finished: Vec<Finished>) -> Ready {
    if let Some(seat) = kept.place.seat.clone() {
        let kept = Box::new(kept);
        return Ready::Elsewhere(Box::new(Distant {
            way: Way::Kept { kept, seat },
            begin: None,
            facts,
            finished,
        }));
    }
    Ready::Here(Box::new(Loaded {
        program: kept.program,
        place: kept.place,
        resumed: Turn::default(),
        begin: None,
        beginning: None,
        facts,
        finished,
    }))
}

/// What a run's program may know about it.
pub(crate) fn birth(run: &RunRecord, runtime: &Runtime) -> Birth {
    let clock = runtime.clone();
    Birth {
        info: RunInfo {
            run_id: run.id,
            workflow_type: run.workflow_type.clone(),
            version: run.version.clone(),
            parent_run_id: run.parent.as_ref().map(|parent| parent.run_id),
            attempt: run.epoch.saturating_add(1),
            iteration: run.iteration,
            workflow_id: run.business_id.clone(),
            memo: run.memo.clone(),
        },
        clock: Arc::new(move || clock.now()),
    }
}

fn is_current(kept: &Kept, run: &RunRecord) -> bool {
    kept.place.is_usable() && kept.place.sequence == run.sequence && kept.place.epoch == run.epoch
}

pub(super) fn place_of(run: &RunRecord) -> Place {
    Place {
        run_id: run.id,
        sequence: run.sequence,
        epoch: run.epoch,
        history_start: run.history_start,
        consumed: run.consumed,
        trace: run.trace.clone(),
        seat: None,
    }
}
