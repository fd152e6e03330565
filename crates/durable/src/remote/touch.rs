//! What a call touches: the names by which tokens are limited.

use std::time::Duration;

use durable_core::{Payload, Timestamp};
use uuid::Uuid;

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
    /// Runs of a workflow type.
    WorkflowType(&'a str),
    /// Tasks of an activity type.
    Queue(&'a str),
    /// A run to be started.
    Start(&'a StartRun),
    /// Whatever there is, without a name.
    All,
}

/// Tells what it touches. Most arguments touch nothing by themselves.
pub(super) trait Touches {
    fn touches<'a>(&'a self, _touched: &mut Vec<Touched<'a>>) {}

    /// Refuses what has no form on the wire, such as a number that is none: the other end could not see it, and so could not refuse it.
    fn check(&self) -> StoreResult<()> {
        Ok(())
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
    Timestamp,
    Payload,
    WorkerBeat,
    WorkerFilter,
    WorkerInfo,
    WorkerStatus,
    BreakerRecord,
    DeadLetterDecision,
    // The lease is the right to it, and was given by a claim that named its queue.
    TaskResult,
    LeaseExtension,
    TaskRelease,
    // Of a worker, a breaker, a schedule, a key: named by nobody's scope.
    String,
    // Say which part of what is touched already.
    CountLimit,
    Page,
    ScheduleFilter,
);

/// Chores and the outbox: for whoever may touch all.
macro_rules! touch_all {
    ($($ty:ty),+ $(,)?) => { $(impl Touches for $ty {
        fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
            touched.push(Touched::All);
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
    OutboxReport
);

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
}

impl<A: Touches, B: Touches> Touches for (A, B) {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.0.touches(touched);
        self.1.touches(touched);
    }
}

impl<T: Touches> Touches for Option<T> {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.iter().for_each(|item| item.touches(touched));
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
}

impl Touches for ClaimTasks {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.extend(self.activity_types.iter().map(|name| Touched::Queue(name)));
    }
}

impl Touches for TurnCommit {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        let resets = matches!(self.next, Next::Reset { .. });
        let run_id = self.run_id;
        touched.push(Touched::Turn { run_id, resets });
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
    }
}

impl Touches for ScheduleFire {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        self.start.touches(touched);
    }
}

impl Touches for RunFilter {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(match &self.workflow_type {
            Some(workflow_type) => Touched::WorkflowType(workflow_type),
            None => self.parent.map_or(Touched::All, Touched::Run),
        });
    }
}

impl Touches for TaskFilter {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(match &self.activity_type {
            Some(activity_type) => Touched::Queue(activity_type),
            None => self.run_id.map_or(Touched::All, Touched::Run),
        });
    }
}

impl Touches for DlqFilter {
    fn touches<'a>(&'a self, touched: &mut Vec<Touched<'a>>) {
        touched.push(match &self.activity_type {
            Some(activity_type) => Touched::Queue(activity_type),
            None => self.run_id.map_or(Touched::All, Touched::Run),
        });
    }
}
