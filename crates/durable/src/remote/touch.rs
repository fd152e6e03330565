//! What a call touches: the names by which tokens are limited.

use std::time::Duration;

use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::calls::Method;
use crate::persistence::model::{
    BlockRun, BreakerRecord, ClaimOutbox, ClaimTasks, ClaimTurns, CountLimit, DeadLetterDecision,
    DlqFilter, FireDue, LeaseExtension, Next, OutboxReport, Page, PurgeOld, PurgeRuns, ReapLeases,
    RelayMessages, RunFilter, ScheduleFilter, ScheduleFire, ScheduleRecord, SendSignal, SendUpdate,
    StartRun, StepLogFilter, TaskFilter, TaskRelease, TaskResult, TerminateRun, TurnCommit,
    WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::persistence::{StoreResult, check};

/// One thing that a call touches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Touched<'a> {
    /// A run, whose type has to be looked up.
    Run(Uuid),
    /// A turn of a run.
    Turn {
        /// The run.
        run_id: Uuid,
        /// Whether it resets the run.
        resets: bool,
    },
    /// A dead letter, whose queue and run have to be looked up.
    Letter(Uuid),
    /// A schedule by its id, whose type has to be looked up.
    Schedule(&'a str),
    /// A worker by its id, whose types have to be looked up.
    Worker(&'a str),
    /// A worker that registers.
    Registration(&'a WorkerInfo),
    /// A circuit breaker or a limiter by its key.
    Breaker(&'a str),
    /// A result of `run_once` by its key.
    OnceKey(&'a str),
    /// A name of which the method says what it names.
    Name(&'a str),
    /// Tasks or dead letters that a filter selects.
    Tasks {
        /// Only of this activity type.
        queue: Option<&'a str>,
        /// Only of this run.
        run_id: Option<Uuid>,
    },
    /// Runs of a workflow type.
    WorkflowType(&'a str),
    /// Tasks of an activity type.
    Queue(&'a str),
    /// A run to be started.
    Start(&'a StartRun),
    /// Runs of all types.
    AllRuns,
    /// Whatever there is, without a name.
    All,
}

/// Says what the ids and names among a method's arguments are: their types do not.
pub(super) fn refine(method: Method, touched: &mut Vec<Touched<'_>>) {
    use Touched::{Breaker, Letter, Name, OnceKey, Run, Schedule, Worker};
    match method {
        // The last id is the letter's.
        Method::get_dead_letter | Method::decide_dead_letter => {
            if let Some(last) = touched.last_mut()
                && let Run(id) = *last
            {
                *last = Letter(id);
            }
        }
        Method::get_schedule | Method::delete_schedule => {
            rename(touched, Schedule);
        }
        Method::set_worker_status | Method::deregister_worker => {
            rename(touched, Worker);
        }
        Method::get_breaker | Method::reset_breaker => {
            rename(touched, Breaker);
        }
        Method::get_once | Method::put_once => rename(touched, OnceKey),
        // Names of owners and of updates: the runs they come with decide.
        _ => touched.retain(|touched| !matches!(touched, Name(_))),
    }
}

fn rename<'a>(touched: &mut [Touched<'a>], to: fn(&'a str) -> Touched<'a>) {
    for touched in touched {
        if let Touched::Name(name) = *touched {
            *touched = to(name);
        }
    }
}

/// Tells what it touches. Most arguments touch nothing by themselves.
pub(super) trait Touches {
    fn touches<'a>(&'a self, _touched: &mut Vec<Touched<'a>>) {}

    /// Refuses what has no form on the wire, such as a number that is none: the other end could not see it, and so could not refuse it.
    fn check(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Whether a present value of this type is an instant. An optional instant is always the
    /// instant at which a call is to happen.
    const IS_INSTANT: bool = false;

    /// Whether the argument says what time it is. A server refuses that: its store's clock decides.
    fn brings_now(&self) -> bool {
        false
    }
}

macro_rules! touch_nothing {
    ($($ty:ty),+ $(,)?) => { $(impl Touches for $ty {})+ };
}

touch_nothing!(
    i64,
    u64,
    usize,
    Duration,
    Payload,
    WorkerFilter,
    WorkerStatus,
    DeadLetterDecision,
    // The lease is the right to it, and was given by a claim that named its queue.
    TaskResult,
    LeaseExtension,
    TaskRelease,
    // Say which part of what is touched already.
    CountLimit,
    Page,
    ScheduleFilter,
);

impl Touches for String {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Name(self));
    }
}

impl Touches for WorkerBeat {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Worker(&self.worker_id));
    }
}

impl Touches for WorkerInfo {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Registration(self));
    }
}

impl Touches for BreakerRecord {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Breaker(&self.key));
    }
}

impl Touches for Timestamp {
    const IS_INSTANT: bool = true;
}

/// Chores and the outbox: only for callers that may touch everything.
macro_rules! touch_all {
    ($($ty:ty),+ $(,)?) => { $(impl Touches for $ty {
        fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
            touched.push(Touched::All);
        }

        fn brings_now(&self) -> bool {
            self.now.is_some()
        }
    })+ };
}

touch_all!(
    FireDue,
    ReapLeases,
    RelayMessages,
    PurgeRuns,
    PurgeOld,
    ClaimOutbox,
);

impl Touches for OutboxReport {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::All);
    }
}

macro_rules! touch_run {
    ($($ty:ty: $field:ident;)+) => { $(impl Touches for $ty {
        fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
            touched.push(Touched::Run(self.$field));
        }
    })+ };
}

touch_run! {
    BlockRun: run_id;
    TerminateRun: run_id;
    SendSignal: run_id;
    SendUpdate: run_id;
    StepLogFilter: run_id;
}

impl<T: Touches> Touches for Vec<T> {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.iter().for_each(|item| item.touches(touched));
    }

    fn check(&self) -> StoreResult<()> {
        self.iter().try_for_each(T::check)
    }

    fn brings_now(&self) -> bool {
        self.iter().any(T::brings_now)
    }
}

impl<A: Touches, B: Touches> Touches for (A, B) {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.0.touches(touched);
        self.1.touches(touched);
    }

    fn brings_now(&self) -> bool {
        self.0.brings_now() || self.1.brings_now()
    }
}

impl<T: Touches> Touches for Option<T> {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.iter().for_each(|item| item.touches(touched));
    }

    fn brings_now(&self) -> bool {
        self.as_ref()
            .is_some_and(|item| T::IS_INSTANT || item.brings_now())
    }
}

impl Touches for &str {}

impl Touches for &[Uuid] {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.iter().for_each(|run| run.touches(touched));
    }
}

impl Touches for Uuid {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Run(*self));
    }
}

impl Touches for ClaimTurns {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        let types = self.hosted.iter().map(|hosted| &*hosted.workflow_type);
        touched.extend(types.map(Touched::WorkflowType));
    }

    fn brings_now(&self) -> bool {
        self.now.is_some()
    }
}

impl Touches for ClaimTasks {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.extend(self.activity_types.iter().map(|name| Touched::Queue(name)));
    }

    fn brings_now(&self) -> bool {
        self.now.is_some()
    }
}

impl Touches for TurnCommit {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        let resets = matches!(self.next, Next::Reset { .. });
        let run_id = self.run_id;
        touched.push(Touched::Turn { run_id, resets });
        let letters = self.requeued_letters.iter();
        touched.extend(letters.map(|letter| Touched::Letter(*letter)));
        if let Some(start) = &self.start {
            start.touches(touched);
        }
    }

    fn check(&self) -> StoreResult<()> {
        check::turns(std::slice::from_ref(self))
    }
}

impl Touches for StartRun {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Start(self));
    }
}

impl Touches for ScheduleRecord {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::WorkflowType(&self.workflow_type));
        // The schedule that it replaces, and the run that its next tick may end.
        touched.push(Touched::Schedule(&self.id));
        touched.extend(self.last_run.map(Touched::Run));
    }
}

impl Touches for ScheduleFire {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Schedule(&self.schedule_id));
        self.start.touches(touched);
    }
}

impl Touches for RunFilter {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(match &self.workflow_type {
            Some(workflow_type) => Touched::WorkflowType(workflow_type),
            // Children of a run may be of any type.
            None => Touched::AllRuns,
        });
    }
}

impl Touches for TaskFilter {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(Touched::Tasks {
            queue: self.activity_type.as_deref(),
            run_id: self.run_id,
        });
    }
}

impl Touches for DlqFilter {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        match self.id {
            Some(id) => touched.push(Touched::Letter(id)),
            None => touched.push(Touched::Tasks {
                queue: self.activity_type.as_deref(),
                run_id: self.run_id,
            }),
        }
    }
}
