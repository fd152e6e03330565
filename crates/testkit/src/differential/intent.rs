//! Intents: what the generator wants done, as data that can be replayed on fresh stores.
//!
//! Whatever depends on an earlier answer (a lease, a run's sequence number) is named here and only
//! becomes concrete when the step is played, so that a shortened list of steps still makes sense.

use durable_core::{Failure, Payload, Timestamp};
use everruns_durable::persistence::model::{
    BreakerRecord, DeadLetterDecision, NewStepLog, OutboxResult, ScheduleRecord, StartRun, TaskEnd,
    TaskOutcome, TurnCommit,
};
use std::time::Duration;
use uuid::Uuid;

use super::request::Request;

/// One step of a run.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its place in the run; kept when other steps are taken out.
    pub(crate) number: usize,
    /// The instant it happens at.
    pub(crate) now: Timestamp,
    /// What is wanted.
    pub(crate) intent: Intent,
}

/// What is wanted.
#[derive(Debug, Clone)]
pub(crate) enum Intent {
    /// A call that depends on no earlier answer.
    Plain(Request),
    /// Turns of runs as they stand.
    Turns(Vec<TurnIntent>),
    /// The turns of that step once more, to the letter.
    SameTurns { step: usize },
    /// Results of attempts.
    Finish(Vec<FinishIntent>),
    /// Extensions of leases.
    Extend(Vec<ExtendIntent>),
    /// Leases given back, and for how long the tasks are parked.
    Release(Vec<(LeaseRef, Option<Duration>)>),
    /// A run that a build cannot turn; `ahead` is added to its sequence number.
    Block {
        run: Uuid,
        ahead: i64,
        build: String,
    },
    /// A decision about the dead letter of a task.
    Decide {
        task: LeaseRef,
        decision: DeadLetterDecision,
    },
    /// A tick of a schedule: the next one, or one that is `late_ms` beside it.
    Tick(Vec<TickIntent>),
    /// A schedule that takes the place of the stored one, or of one that is not there (any more).
    Swap {
        schedule: ScheduleRecord,
        stale: bool,
    },
    /// A breaker saved over its stored version plus `ahead`.
    SaveBreaker { breaker: BreakerRecord, ahead: i64 },
    /// Reports of a publisher.
    Report(Vec<ReportIntent>),
    /// Many signals to one run.
    Flood { run: Uuid, first: u64, count: u64 },
}

/// A lease that an earlier step of this replay was granted by the first store; made up if it was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseRef {
    pub(crate) step: usize,
    pub(crate) index: usize,
    pub(crate) altered: Altered,
}

/// How a lease is made wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Altered {
    No,
    Attempt,
    Token,
}

/// An outbox event that an earlier step of this replay claimed; made up if it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutboxRef {
    pub(crate) step: usize,
    pub(crate) index: usize,
}

/// A turn on a run as it stands when the step is played.
#[derive(Debug, Clone)]
pub(crate) struct TurnIntent {
    /// Everything that does not depend on the run.
    pub(crate) content: TurnCommit,
    /// Which facts it takes; their events come first.
    pub(crate) facts: FactsTaken,
    /// Tasks that end with it.
    pub(crate) finished: Vec<(LeaseRef, TaskEnd)>,
    /// How it ends.
    pub(crate) ending: Ending,
    /// What is wrong with it on purpose.
    pub(crate) flaw: Flaw,
}

/// Which facts a turn takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactsTaken {
    All,
    None,
    /// All but the last so many.
    AllBut(i64),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    Wait,
    Complete(Payload),
    Fail(Failure),
    Cancel(String),
    ContinueAsNew {
        input: Payload,
        /// Signals carried over, by number.
        carried: Vec<u64>,
    },
    /// To the event so many after the iteration's start, one past the end included.
    Reset {
        place: i64,
    },
}

/// What is wrong with a turn on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    Sequence(i64),
    Epoch,
    FactsBeyond,
    FactsBehind,
    /// The terminal event is missing.
    NoEvent,
}

/// A result of an attempt.
#[derive(Debug, Clone)]
pub(crate) struct FinishIntent {
    pub(crate) lease: LeaseRef,
    pub(crate) outcome: TaskOutcome,
    pub(crate) jitter: f64,
    pub(crate) step_logs: Vec<NewStepLog>,
}

/// An extension of a lease.
#[derive(Debug, Clone)]
pub(crate) struct ExtendIntent {
    pub(crate) lease: LeaseRef,
    pub(crate) extend: Duration,
    pub(crate) heartbeat: Option<Payload>,
}

/// A tick of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct TickIntent {
    pub(crate) schedule: String,
    /// Added to the schedule's next time; 0 is the tick that is due.
    pub(crate) beside_ms: i64,
    /// From the nominal time to the next one; none: never again.
    pub(crate) next_after: Option<Duration>,
    pub(crate) start: Option<StartRun>,
}

/// A publisher's report.
#[derive(Debug, Clone)]
pub(crate) struct ReportIntent {
    pub(crate) event: OutboxRef,
    pub(crate) result: OutboxResult,
}

/// Ways to make an intent smaller, each keeping its sense; for the shrinker.
pub(crate) fn smaller(intent: &Intent) -> Vec<Intent> {
    match intent {
        Intent::Turns(turns) => {
            let mut ways: Vec<Intent> = without_each(turns).map(Intent::Turns).collect();
            for (at, turn) in turns.iter().enumerate() {
                ways.extend(smaller_turns(turn).map(|smaller| {
                    let mut turns = turns.clone();
                    turns[at] = smaller;
                    Intent::Turns(turns)
                }));
            }
            ways
        }
        Intent::Finish(items) => without_each(items).map(Intent::Finish).collect(),
        Intent::Extend(items) => without_each(items).map(Intent::Extend).collect(),
        Intent::Release(items) => without_each(items).map(Intent::Release).collect(),
        Intent::Tick(items) => without_each(items).map(Intent::Tick).collect(),
        Intent::Report(items) => without_each(items).map(Intent::Report).collect(),
        Intent::Plain(Request::StartRuns { starts }) => without_each(starts)
            .map(|starts| Intent::Plain(Request::StartRuns { starts }))
            .collect(),
        Intent::Plain(Request::SendSignals { signals }) => without_each(signals)
            .map(|signals| Intent::Plain(Request::SendSignals { signals }))
            .collect(),
        Intent::Plain(Request::SendUpdates { updates }) => without_each(updates)
            .map(|updates| Intent::Plain(Request::SendUpdates { updates }))
            .collect(),
        _ => Vec::new(),
    }
}

/// The list without each of its items, if more than one would be left out of.
fn without_each<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    let several = items.len() > 1;
    (0..items.len()).filter(move |_| several).map(|at| {
        let mut items = items.to_vec();
        items.remove(at);
        items
    })
}

fn smaller_turns(turn: &TurnIntent) -> impl Iterator<Item = TurnIntent> {
    let cuts: [fn(&mut TurnIntent); 13] = [
        |t| t.finished.clear(),
        |t| t.content.fired_timers.clear(),
        |t| t.content.tasks.clear(),
        |t| t.content.cancelled_activities.clear(),
        |t| t.content.timers.clear(),
        |t| t.content.cancelled_timers.clear(),
        |t| t.content.children.clear(),
        |t| t.content.signals.clear(),
        |t| t.content.updates.clear(),
        |t| t.content.attributes.clear(),
        |t| t.content.outbox.clear(),
        |t| t.content.step_logs.clear(),
        |t| t.content.owner = None,
    ];
    let before = size(turn);
    cuts.into_iter().filter_map(move |cut| {
        let mut smaller = turn.clone();
        cut(&mut smaller);
        (size(&smaller) < before).then_some(smaller)
    })
}

fn size(turn: &TurnIntent) -> usize {
    let t = &turn.content;
    turn.finished.len()
        + t.fired_timers.len()
        + t.tasks.len()
        + t.cancelled_activities.len()
        + t.timers.len()
        + t.cancelled_timers.len()
        + t.children.len()
        + t.signals.len()
        + t.updates.len()
        + t.attributes.len()
        + t.outbox.len()
        + t.step_logs.len()
        + usize::from(t.owner.is_some())
}
