//! Gets a set of runs ready for their turns: the facts that wait, and the program, kept or rebuilt.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use durable_core::{
    HistoryState, NumberedEvent, Payload, Program, ProgramState, ReplayError, ReplayMode, Replayer,
    RunIdentity, Turn, WorkflowEvent, effective_history,
};
use futures_util::stream::{self, StreamExt as _};
use tracing::{debug, warn};
use uuid::Uuid;

use super::beginning::Beginning;
use super::cache::{Kept, Place};
use super::desk::Wanted;
use super::elsewhere::{Distant, Way};
use super::node::Node;
use super::off_runtime::Effort;
use super::turner::{Fault, Turner, panic_text};
use crate::codec::payloads::HoldsPayloads as _;
use crate::hosting::Seat;
use crate::persistence::model::{ClaimedTurn, Fact, History, RunRecord};
use crate::persistence::{StoreError, StoreResult, whole_history};
use crate::runtime::Runtime;
use crate::worker::Finished;
use crate::workflow::{Birth, RunInfo, WorkflowRegistry};

/// Why a run with such a payload is blocked: to the program it would look like bad data, and fail the run.
const STILL_ENCODED: &str = "a payload of the run is encoded, and no codec here can decode it; is its codec set, with its key?";

/// Runs of a set whose histories are read at once: each holds a page of its history in memory.
const REBUILT_AT_ONCE: usize = 8;

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
    pub(super) inbox: Inbox,
    pub(super) finished: Vec<Finished>,
}

/// What of a run's inbox a turn is given.
pub(super) struct Inbox {
    /// Facts, by arrival.
    pub(super) facts: Vec<Fact>,
    /// Facts up to this arrival are taken with them.
    pub(super) through: i64,
    /// Whether others are known to wait behind those.
    pub(super) more: bool,
    /// Facts up to this arrival were taken before.
    consumed: i64,
}

impl Inbox {
    /// Nothing of it was looked at.
    const fn unseen(place: &Place) -> Self {
        Self {
            facts: Vec::new(),
            through: place.consumed,
            more: false,
            consumed: place.consumed,
        }
    }

    fn of(turn: &mut ClaimedTurn) -> Self {
        Self {
            through: turn.facts_through,
            more: turn.has_more(),
            consumed: turn.run.consumed,
            facts: std::mem::take(&mut turn.facts),
        }
    }

    /// Leaves all but the first of its facts for a later turn.
    pub(super) fn keep_first(&mut self, facts: usize) {
        if facts >= self.facts.len() {
            return;
        }
        self.facts.truncate(facts);
        let last = self.facts.last();
        self.through = last.map_or(self.consumed, |fact| fact.arrival);
        self.more = true;
    }
}

/// Loads a set.
pub(super) struct Loader<'a> {
    turner: &'a Turner,
}

/// A run whose program has to be rebuilt.
struct Cold {
    run: RunRecord,
    inbox: Inbox,
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
                    let inbox = Inbox::unseen(&kept.place);
                    loaded.push(warm(kept, inbox, finished));
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
        let place = place_of(run);
        Loaded {
            program,
            inbox: Inbox::unseen(&place),
            place,
            resumed,
            begin: None,
            beginning: None,
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
                self.look_in_halves(runs, error, loaded).await;
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
            let mut finished = wanted.finished;
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
            let inbox = Inbox::of(&mut turn);
            if inbox.more && inbox.facts.is_empty() {
                // The facts of other runs of the set left no room for this run's: it is read again
                // with a later set.
                if let Some(kept) = kept {
                    self.turner.keep(kept.program, kept.place);
                }
                self.turner.once_more(run_id, finished);
                continue;
            }
            if inbox.more && !finished.is_empty() {
                // What ended here comes behind all that waits, so that a run cannot end over facts
                // that it could have seen.
                self.turner
                    .node
                    .results
                    .store(std::mem::take(&mut finished));
            }
            match kept.filter(|kept| is_current(kept, &turn.run)) {
                Some(mut kept) => {
                    kept.place.consumed = turn.run.consumed;
                    loaded.push(warm(kept, inbox, finished));
                }
                None => cold.push(Cold {
                    run: turn.run,
                    inbox,
                    finished,
                }),
            }
        }
        let mut rebuilt =
            stream::iter(cold.into_iter().map(|run| self.rebuild(run))).buffered(REBUILT_AT_ONCE);
        while let Some(run) = rebuilt.next().await {
            match run {
                Ok(run) => loaded.extend(run),
                Err(fault) => self.turner.block(*fault).await,
            }
        }
    }

    /// Runs that could not be read together: all come again later if the store does not answer, and
    /// otherwise the halves tell which of them is at fault.
    async fn look_in_halves(
        &self,
        mut runs: Vec<(Uuid, Option<Kept>, Wanted)>,
        error: StoreError,
        loaded: &mut Vec<Ready>,
    ) {
        if self.turner.node.store.clock(None).await.is_err() {
            self.turner.put_off(runs, &error).await;
        } else if runs.len() > 1 {
            let half = runs.split_off(runs.len() / 2);
            Box::pin(self.look(runs, loaded)).await;
            Box::pin(self.look(half, loaded)).await;
        } else if let Some((run_id, _, wanted)) = runs.pop() {
            self.turner.put_off_alone(run_id, wanted, &error);
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
        let Cold {
            run,
            inbox,
            finished,
        } = cold;
        let run = &run;
        let fault = |reason: String, finished| {
            let node = &self.turner.node;
            Box::new(Fault::of_run(node, run, reason, finished))
        };
        let node = &self.turner.node;
        let elsewhere = node
            .workflows
            .elsewhere_for(&run.workflow_type, &run.version);
        let replayed = match elsewhere {
            Some(_) => whole(node, run).await.map(Replayed::Told),
            None => self.replay(run).await,
        };
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(Unread::Gone) => return Ok(None),
            Err(Unread::Fault(reason)) => return Err(fault(reason, finished)),
            Err(Unread::Store(error)) => {
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
        };
        let begin = (run.sequence == run.history_start).then(|| run.input.clone());
        if let (Some(host), Replayed::Told(events)) = (elsewhere, &replayed) {
            let events = events.clone();
            let seat = Seat::new(birth(run, &node.runtime).info, host);
            let run = Box::new(run.clone());
            return Ok(Some(Ready::Elsewhere(Box::new(Distant {
                way: Way::Told { run, events, seat },
                begin,
                inbox,
                finished,
            }))));
        }
        let Replayed::Here(program, resumed) = replayed else {
            return Ok(None);
        };
        Ok(Some(Ready::Here(Box::new(Loaded {
            begin,
            inbox,
            finished,
            ..self.loaded(run, *program, resumed)
        }))))
    }

    /// Gives a new program its history, page by page: no more than a page is held at once.
    async fn replay(&self, run: &RunRecord) -> Result<Replayed, Unread> {
        let node = &self.turner.node;
        let program = node.workflows.program(birth(run, &node.runtime));
        let program = program.ok_or_else(|| {
            Unread::Fault(format!("this build has no workflow {}", run.workflow_type))
        })?;
        if run.sequence == run.history_start {
            let (program, resumed) = replayed(program, run, Vec::new()).map_err(Unread::Fault)?;
            return Ok(Replayed::Here(Box::new(program), resumed));
        }
        let counts = if run.epoch == 0 {
            None
        } else {
            Some(self.what_counts(run).await?)
        };
        let mut replayer = Replayer::new(identity_of(run), program, ReplayMode::Normal);
        let mut pages = Pages::of(node, run);
        while let Some(page) = pages.next().await? {
            let events = page.len();
            let push = AssertUnwindSafe(|| {
                for (sequence_num, event) in page {
                    let is_counted = |counts: &BTreeSet<i64>| counts.contains(&sequence_num);
                    if counts.as_ref().is_none_or(is_counted) {
                        replayer.push(sequence_num, event)?;
                    }
                }
                Ok::<(), ReplayError>(())
            });
            let pushed = || catch_unwind(push);
            let effort = Effort::Replay { events };
            let pushed = node.off_runtime.run(&node.runtime, effort, pushed);
            outcome(pushed).map_err(Unread::Fault)?;
        }
        let resumed = catch_unwind(AssertUnwindSafe(|| replayer.resume()));
        let (program, resumed) = outcome(resumed).map_err(Unread::Fault)?;
        Ok(Replayed::Here(Box::new(program), resumed))
    }

    /// Numbers of the events that resets have left: what they are is of no matter here, so that
    /// only their marks are kept.
    async fn what_counts(&self, run: &RunRecord) -> Result<BTreeSet<i64>, Unread> {
        let mut marks = Vec::new();
        let mut pages = Pages::of(&self.turner.node, run);
        while let Some(page) = pages.next().await? {
            marks.extend(page.into_iter().map(|(sequence_num, event)| {
                let mark = match event {
                    mark @ WorkflowEvent::WorkflowReset { .. } => mark,
                    WorkflowEvent::WorkflowContinuedAsNew { iteration, .. } => {
                        let input = Payload::ABSENT;
                        WorkflowEvent::WorkflowContinuedAsNew { iteration, input }
                    }
                    _ => WorkflowEvent::TimerFired {
                        timer_id: String::new(),
                    },
                };
                (sequence_num, mark)
            }));
        }
        let history = effective_history(marks).map_err(|error| Unread::Fault(error.to_string()))?;
        Ok(history
            .events
            .into_iter()
            .map(|(number, _)| number)
            .collect())
    }
}

/// A run's program, or what the process that has its code is told.
enum Replayed {
    Here(Box<ProgramState>, Turn),
    Told(Vec<NumberedEvent>),
}

/// Why a history was not read.
enum Unread {
    /// The run does not exist any more.
    Gone,
    /// This build cannot read it.
    Fault(String),
    /// The store could not be reached.
    Store(StoreError),
}

impl Unread {
    fn of(error: StoreError) -> Self {
        if error.is_retryable() || error.is_outcome_unknown() {
            Self::Store(error)
        } else {
            Self::Fault(format!("its history cannot be read: {error}"))
        }
    }
}

/// The history of a run's current iteration, up to the event that was its last when the run was
/// loaded.
struct Pages<'a> {
    node: &'a Node,
    run: &'a RunRecord,
    after: i64,
}

impl<'a> Pages<'a> {
    const fn of(node: &'a Node, run: &'a RunRecord) -> Self {
        Self {
            node,
            run,
            after: run.history_start,
        }
    }

    /// The next page; none behind the last one.
    async fn next(&mut self) -> Result<Option<Vec<NumberedEvent>>, Unread> {
        if self.after >= self.run.sequence {
            return Ok(None);
        }
        let page = self.node.store.load_history(self.run.id, self.after).await;
        let page = page.map_err(Unread::of)?.ok_or(Unread::Gone)?;
        let Some(last) = page.events.last() else {
            return Ok(None);
        };
        self.after = last.sequence_num;
        numbered(page, self.run).map(Some)
    }
}

/// The whole history of a run's current iteration, for the process that has the run's code. It is
/// one message, and held in memory as a whole, so that its size is limited.
async fn whole(node: &Node, run: &RunRecord) -> Result<Vec<NumberedEvent>, Unread> {
    let history = whole_history(&*node.store, run.id, run.history_start).await;
    let history = history.map_err(Unread::of)?.ok_or(Unread::Gone)?;
    numbered(history, run)
}

/// The events of a page with their numbers, up to the last event that the run had when it was
/// loaded: a turn of another process may have added others since.
fn numbered(mut page: History, run: &RunRecord) -> Result<Vec<NumberedEvent>, Unread> {
    if page.events.has_encoded() {
        return Err(Unread::Fault(STILL_ENCODED.to_owned()));
    }
    let events = page.events.into_iter();
    let events = events.filter(|event| event.sequence_num <= run.sequence);
    Ok(events
        .map(|event| (event.sequence_num, event.event))
        .collect())
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
    let identity = identity_of(run);
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
    outcome(replayed)
}

/// What the workflow's code came to; its panic is the run's trouble.
fn outcome<T, E: ToString>(code: std::thread::Result<Result<T, E>>) -> Result<T, String> {
    match code {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("the workflow panicked: {}", panic_text(&*panic))),
    }
}

const fn identity_of(run: &RunRecord) -> RunIdentity {
    RunIdentity {
        run_id: run.id,
        epoch: run.epoch,
        iteration: run.iteration,
    }
}

/// One in line has ended here; those ahead of it ended before, and if that was elsewhere their results wait in the inbox.
fn may_have_been_overtaken(kept: &Kept, finished: &[Finished]) -> bool {
    let in_line = finished
        .iter()
        .any(|finished| finished.task.options.sequential);
    in_line && kept.program.history().pending_activities().len() > finished.len()
}

fn warm(kept: Kept, inbox: Inbox, finished: Vec<Finished>) -> Ready {
    if let Some(seat) = kept.place.seat.clone() {
        let kept = Box::new(kept);
        return Ready::Elsewhere(Box::new(Distant {
            way: Way::Kept { kept, seat },
            begin: None,
            inbox,
            finished,
        }));
    }
    Ready::Here(Box::new(Loaded {
        program: kept.program,
        place: kept.place,
        resumed: Turn::default(),
        begin: None,
        beginning: None,
        inbox,
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
