//! Turns of runs whose code is in another process: it is asked first, and what it answered is then decided and committed like any other turn.
//!
//! ```text
//!   Distant ──items──► host (another process) ──steps──► Seat, the script of a RemoteProgram ──► replay, decide, conclude, commit
//! ```
//!
//! The host may die, lie or never answer: until the commit nothing has happened, and the core judges every step. The run stays in hand meanwhile and other
//! runs' commits do not wait, as with local activities.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{
    Fact, Failure, HistoryState, NumberedEvent, Payload, ProgramState, Turn, WorkflowAction,
    effective_history, recorded_steps,
};
use tracing::debug;
use uuid::Uuid;

use super::cache::{Kept, Place};
use super::decide::fact_of_end;
use super::load::{Inbox, Loaded, place_of, replayed};
use super::turner::{Fault, Turner};
use crate::hosting::{
    Activation, Asked, Attached, Beginning, HostError, Item, RemoteProgram, Seat, Step,
};
use crate::persistence::model::{self, RunRecord};
use crate::worker::Finished;
use crate::workflow::RunInfo;

/// How long a run waits that its host could not turn.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A run whose code is in another process.
pub(super) struct Distant {
    pub(super) way: Way,
    /// Input of a run (or iteration) that has not begun.
    pub(super) begin: Option<Payload>,
    pub(super) inbox: Inbox,
    pub(super) finished: Vec<Finished>,
}

/// What its code has to be told.
pub(super) enum Way {
    /// What is new: it is where the last turn left it.
    Kept { kept: Box<Kept>, seat: Arc<Seat> },
    /// Everything.
    Told {
        run: Box<RunRecord>,
        events: Vec<NumberedEvent>,
        seat: Arc<Seat>,
    },
}

/// Why a run was not turned.
enum Trouble {
    /// Its code cannot go on.
    Fault(Box<Fault>),
    /// Its host is gone, or has not kept it: again, from the beginning.
    Again {
        why: HostError,
        finished: Vec<Finished>,
    },
}

impl Turner {
    /// Takes the turn of a run whose code is elsewhere, and commits it.
    pub(super) async fn turn_elsewhere(self: Arc<Self>, distant: Distant) {
        let run_id = distant.run_id();
        match self.ask(distant).await {
            Ok(loaded) => self.turn_answered(loaded).await,
            Err(Trouble::Fault(fault)) => self.block(*fault).await,
            Err(Trouble::Again { why, finished }) => {
                debug!(%run_id, %why, "the run is taken up again");
                if why != HostError::NotKept {
                    let runtime = &self.node.runtime;
                    runtime.sleep(runtime.jittered(AGAIN_AFTER)).await;
                }
                self.once_more(run_id, finished);
            }
        }
        let kept = self.cache.holds(run_id);
        if !kept {
            // Where no host is left here, another process may have one.
            self.node.hub.ownership.give_up(vec![run_id]);
        }
        self.node.hub.desk.put_down([(run_id, kept)]);
    }

    async fn turn_answered(&self, loaded: Loaded) {
        let seat = loaded.place.seat.clone();
        let concluded = match self.decide(loaded) {
            Ok(None) => return,
            Ok(Some(turn)) => self.conclude(turn, &mut Vec::new()),
            Err(fault) => Err(fault),
        };
        match concluded {
            Ok(turn) => {
                if let Some(seat) = seat {
                    seat.turned(turn.program.history().is_running());
                }
                self.commit_alone(turn).await;
            }
            Err(fault) => self.block(*fault).await,
        }
    }

    /// Asks the host, and makes of its answers what the turner takes.
    async fn ask(&self, distant: Distant) -> Result<Loaded, Trouble> {
        let Distant {
            way,
            begin,
            mut inbox,
            mut finished,
        } = distant;
        let (place, seat) = (way.place(), Arc::clone(way.seat()));
        let fault = |reason, finished| {
            let fault = Fault::new(&place, reason, finished);
            Trouble::Fault(Box::new(fault))
        };
        let (mut items, history) = match way.past() {
            Ok(past) => past,
            Err(reason) => return Err(fault(reason, finished)),
        };
        let past = items.len();
        let sources = new_items(
            &history,
            begin.as_ref(),
            &inbox.facts,
            &finished,
            &mut items,
        );
        drop(history);
        let mut steps = match ask_host(&seat, way.beginning(), &items).await {
            Ok(steps) => steps,
            Err(HostError::Broken(reason)) => return Err(fault(reason, finished)),
            // To tell it everything again would end in the same answer.
            Err(HostError::NotKept) if way.beginning() == Beginning::Start => {
                let reason =
                    "the worker was told everything and says that it does not keep the run";
                return Err(fault(reason.to_owned(), finished));
            }
            Err(why) => return Err(Trouble::Again { why, finished }),
        };
        let told = items.len();
        if let Some(late) = first_late(&items, &steps) {
            // The code saw what will not be on record, since it gave that up itself a moment before: what it saw first counts, the rest comes
            // again, and its instance is made anew.
            seat.spoil();
            steps.truncate(late);
            match late.checked_sub(past).and_then(|index| sources.get(index)) {
                Some(Source::Inbox(index)) => {
                    inbox.keep_first(*index);
                    self.node.results.store(std::mem::take(&mut finished));
                }
                Some(Source::Finished(index)) => {
                    self.node.results.store(finished.split_off(*index));
                }
                Some(Source::Begin) | None => {}
            }
        }
        let asked = items.into_iter().map(|item| item.asked);
        seat.answered(told, asked.zip(steps).collect());
        match way.into_state() {
            Ok((program, resumed)) => Ok(Loaded {
                program,
                place,
                resumed,
                begin,
                beginning: None,
                inbox,
                finished,
            }),
            Err(reason) => Err(fault(reason, finished)),
        }
    }

    /// Hosts have gone: what they kept is of no use.
    pub(crate) fn drop_programs_of_gone_hosts(&self) {
        let gone = self.cache.drop_unusable();
        for run_id in &gone {
            self.node.hub.desk.moved_out(*run_id);
        }
        self.node.hub.ownership.give_up(gone);
    }
}

impl Distant {
    pub(super) fn run_id(&self) -> Uuid {
        self.way.seat().info().run_id
    }
}

impl Way {
    fn seat(&self) -> &Arc<Seat> {
        let (Self::Kept { seat, .. } | Self::Told { seat, .. }) = self;
        seat
    }

    fn place(&self) -> Place {
        match self {
            Self::Kept { kept, .. } => kept.place.clone(),
            Self::Told { run, seat, .. } => Place {
                seat: Some(Arc::clone(seat)),
                ..place_of(run)
            },
        }
    }

    fn beginning(&self) -> Beginning {
        match self {
            Self::Kept { seat, .. } => Beginning::After(seat.items()),
            Self::Told { .. } => Beginning::Start,
        }
    }

    /// What the code has to be told again, and what the run's history has come to.
    fn past(&self) -> Result<(Vec<Item>, Cow<'_, HistoryState>), String> {
        match self {
            Self::Kept { kept, .. } => Ok((Vec::new(), Cow::Borrowed(kept.program.history()))),
            Self::Told { run, events, .. } if events.is_empty() => {
                Ok((Vec::new(), Cow::Owned(HistoryState::after(run.sequence))))
            }
            Self::Told { events, .. } => {
                let (items, history) = retold(events.clone())?;
                Ok((items, Cow::Owned(history)))
            }
        }
    }

    /// The run's program, which says what the host has answered.
    fn into_state(self) -> Result<(ProgramState, Turn), String> {
        match self {
            Self::Kept { kept, .. } => Ok((kept.program, Turn::default())),
            Self::Told { run, events, seat } => {
                let program = RemoteProgram::new(run.workflow_type.clone(), seat);
                replayed(Box::new(program), &run, events)
            }
        }
    }
}

/// A history as the code is told it again.
fn retold(events: Vec<NumberedEvent>) -> Result<(Vec<Item>, HistoryState), String> {
    let history = effective_history(events).map_err(|error| error.to_string())?;
    let mut state = HistoryState::default();
    for (sequence_num, event) in &history.events {
        let accepted = state.accept(*sequence_num, event);
        accepted.map_err(|error| error.to_string())?;
    }
    let steps = recorded_steps(&history.events).into_iter();
    let items = steps.map(|step| Item {
        asked: Asked::Fact(step.fact),
        replayed: step.decided,
        memories: step.memories,
    });
    Ok((items.collect(), state))
}

/// Asks, and refuses an answer of the wrong length.
async fn ask_host(
    seat: &Seat,
    beginning: Beginning,
    items: &[Item],
) -> Result<Vec<Step>, HostError> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let activation = Activation {
        run: seat.info().clone(),
        beginning,
        items: items.to_vec(),
    };
    let mut steps = seat.host().turn(activation).await?;
    let ends = |step: &Step| step.actions.iter().any(WorkflowAction::is_terminal);
    let needed = steps.iter().position(ends);
    let needed = needed.map_or(items.len(), |end| (end + 1).min(items.len()));
    if steps.len() < needed {
        let (given, asked) = (steps.len(), items.len());
        return Err(HostError::Broken(format!(
            "the worker answered {given} steps for {asked} items; each item needs one, unless the run has ended"
        )));
    }
    steps.truncate(needed);
    Ok(steps)
}

/// Asks a run whose code is elsewhere, by an instance made for this once.
pub(super) async fn query_elsewhere(
    host: &Attached,
    run: RunInfo,
    events: Vec<NumberedEvent>,
    name: &str,
    input: Payload,
) -> Result<Result<Payload, Failure>, HostError> {
    let (mut items, _) = retold(events).map_err(HostError::Broken)?;
    items.push(Item {
        asked: Asked::Query {
            name: name.to_owned(),
            input,
        },
        replayed: false,
        memories: Vec::new(),
    });
    let asked = items.len();
    let activation = Activation {
        run,
        beginning: Beginning::Apart,
        items,
    };
    let steps = host.turn(activation).await?;
    let last = steps.into_iter().nth(asked - 1);
    last.and_then(|step| step.answer).ok_or_else(|| {
        HostError::Broken(format!(
            "the worker did not answer the query as step {asked}"
        ))
    })
}

/// Where a new item comes from.
enum Source {
    Begin,
    Inbox(usize),
    Finished(usize),
}

/// What a fact is about.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Activity(String),
    Timer(String),
    Child(String),
    Update(String),
    HumanTask(String),
}

fn about(fact: &Fact) -> Option<About> {
    Some(match fact {
        Fact::ActivityCompleted { activity_id, .. }
        | Fact::ActivityFailed { activity_id, .. }
        | Fact::ActivityTimedOut { activity_id, .. } => About::Activity(activity_id.clone()),
        Fact::TimerFired { timer_id } => About::Timer(timer_id.clone()),
        Fact::ChildCompleted { child_id, .. } | Fact::ChildFailed { child_id, .. } => {
            About::Child(child_id.clone())
        }
        Fact::UpdateAccepted { update_id, .. } => About::Update(update_id.clone()),
        Fact::HumanTaskDecided { task_id, .. } => About::HumanTask(task_id.clone()),
        _ => return None,
    })
}

/// Adds what is new, in the order in which it is decided, without what comes too late: the code must see what will be on record.
fn new_items(
    history: &HistoryState,
    begin: Option<&Payload>,
    facts: &[model::Fact],
    finished: &[Finished],
    items: &mut Vec<Item>,
) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut over = BTreeSet::new();
    let mut add = |asked, source| {
        items.push(Item {
            asked,
            replayed: false,
            memories: Vec::new(),
        });
        sources.push(source);
    };
    if let Some(input) = begin {
        let input = input.clone();
        add(Asked::Fact(Fact::Started { input }), Source::Begin);
    }
    for (index, arrived) in facts.iter().enumerate() {
        let Some(fact) = Fact::from_event(&arrived.event) else {
            continue;
        };
        if history.is_late(&fact) || !about(&fact).is_none_or(|about| over.insert(about)) {
            continue;
        }
        add(Asked::Fact(fact), Source::Inbox(index));
    }
    for (index, finished) in finished.iter().enumerate() {
        let activity_id = &finished.task.activity_id;
        let late = !history.has_pending_activity(activity_id)
            || !over.insert(About::Activity(activity_id.clone()));
        if let Some((fact, _)) = fact_of_end(finished).filter(|_| !late) {
            add(Asked::Fact(fact), Source::Finished(index));
        }
    }
    sources
}

/// The first item about something that an earlier step of the same turn gave up.
fn first_late(items: &[Item], steps: &[Step]) -> Option<usize> {
    let mut given_up = BTreeSet::new();
    for (index, (item, step)) in items.iter().zip(steps).enumerate() {
        if item.replayed {
            continue;
        }
        if let Asked::Fact(fact) = &item.asked
            && about(fact).is_some_and(|about| given_up.contains(&about))
        {
            return Some(index);
        }
        given_up.extend(step.actions.iter().filter_map(|action| match action {
            WorkflowAction::CancelActivity { activity_id } => {
                Some(About::Activity(activity_id.clone()))
            }
            WorkflowAction::CancelTimer { timer_id } => Some(About::Timer(timer_id.clone())),
            _ => None,
        }));
    }
    None
}
