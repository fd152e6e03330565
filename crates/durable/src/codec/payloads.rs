//! Where the payloads are: one list for every type of the store contract, for both directions.

use durable_core::{AttemptRecord, Failure, Payload, WorkflowEvent};

use crate::persistence::model::{
    Awaited, ClaimedTask, ClaimedTurn, DeadLetter, DeadLetterDecision, DedupRecord, Dump, Fact,
    FinishedTask, History, HistoryEvent, LeaseExtension, Message, MessageRecord, NewChild,
    NewOutboxEvent, NewSignal, NewStepLog, NewTask, NewUpdate, Next, OutSignal, OutboxRecord,
    RunDump, RunRecord, ScheduleFire, ScheduleRecord, SendSignal, SendUpdate, SignalRecord,
    StartRun, StepLogPage, StepLogRecord, StoredStart, TaskEnd, TaskOutcome, TaskRecord,
    TaskResult, TurnCommit, UpdateAnswer, UpdateRecord, UpdateState, WorkerInfo,
};
use crate::persistence::{Bug, planted};

/// What is done with a place where a payload is.
pub(crate) type Visit<'v, 'a> = &'v mut dyn FnMut(&'a mut Payload);

/// Something with payloads in it.
pub(crate) trait HoldsPayloads {
    /// Visits each place where a payload is, absent ones included.
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>);

    /// Whether a payload in it is still in the form that a codec gave it.
    fn has_encoded(&mut self) -> bool {
        let mut found = false;
        self.each_payload(&mut |payload| found |= payload.is_encoded());
        found
    }
}

macro_rules! holds {
    ($($type:ty { $($field:ident),+ })+) => {
        $(impl HoldsPayloads for $type {
            fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
                $(self.$field.each_payload(visit);)+
            }
        })+
    };
}

// A breaker's state and an audit row's detail are not here: they are the engine's own, and say nothing about anybody's data.
holds! {
    AttemptRecord { failure }
    ClaimedTask { input, heartbeat_details, attempts }
    ClaimedTurn { run, facts }
    DeadLetter { input, last_error, error_history }
    DedupRecord { result }
    Dump { runs, dead_letters, schedules, workers, dedup }
    Fact { event, attempts }
    FinishedTask { end }
    History { run, events }
    HistoryEvent { event }
    LeaseExtension { heartbeat }
    MessageRecord { message }
    NewChild { start }
    NewOutboxEvent { payload }
    NewSignal { payload }
    NewStepLog { meta }
    NewTask { input }
    NewUpdate { input }
    OutSignal { signal }
    OutboxRecord { payload }
    RunDump { run, events, tasks, facts, signals, updates, messages, outbox, step_logs }
    RunRecord { input, result, error, memo }
    ScheduleFire { start }
    ScheduleRecord { input }
    SendSignal { signal }
    SendUpdate { update }
    SignalRecord { payload }
    StartRun { input, memo, signals, updates }
    StepLogPage { lines }
    StepLogRecord { meta }
    StoredStart { input, memo }
    TaskRecord { input, heartbeat_details, attempts }
    TaskResult { outcome, step_logs }
    TurnCommit {
        start, finished_tasks, events, tasks, children, signals, updates, outbox, step_logs, next
    }
    UpdateAnswer { result }
    UpdateRecord { input, state }
    WorkerInfo { metadata }
}

impl HoldsPayloads for Payload {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        visit(self);
    }
}

impl HoldsPayloads for Failure {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        visit(&mut self.details);
        if let Some(cause) = &mut self.cause {
            cause.each_payload(visit);
        }
    }
}

/// An event has a payload or tells of a failure, never both.
impl HoldsPayloads for WorkflowEvent {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        if matches!(self, Self::SideEffectRecorded { .. }) && planted(Bug::SideEffectInTheClear) {
            return;
        }
        if self.payload().is_none() {
            if let Some(failure) = self.failure_mut() {
                failure.each_payload(visit);
            }
        } else if let Some(payload) = self.payload_mut() {
            visit(payload);
        }
    }
}

impl HoldsPayloads for Next {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::Wait | Self::Cancel { .. } | Self::Reset { .. } => {}
            Self::Complete { result } => visit(result),
            Self::Fail { error } => error.each_payload(visit),
            Self::ContinueAsNew { input, carried } => {
                visit(input);
                carried.each_payload(visit);
            }
        }
    }
}

impl HoldsPayloads for Awaited {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::Here | Self::Run(None) => {}
            Self::Run(Some(run)) => run.each_payload(visit),
            Self::Result(result) => visit(result),
        }
    }
}

impl HoldsPayloads for TaskEnd {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::Completed | Self::Cancelled => {}
            Self::Failed(failure) => failure.each_payload(visit),
        }
    }
}

impl HoldsPayloads for TaskOutcome {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::Completed { result } => visit(result),
            Self::Failed { failure } => failure.each_payload(visit),
            Self::Cancelled { .. } => {}
        }
    }
}

impl HoldsPayloads for UpdateState {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::Pending => {}
            Self::Completed(result) => visit(result),
            Self::Failed(failure) => failure.each_payload(visit),
        }
    }
}

impl HoldsPayloads for DeadLetterDecision {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::Requeue | Self::Discard => {}
            Self::Complete { result } => visit(result),
        }
    }
}

impl HoldsPayloads for Message {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Self::StartChild { start, .. } => start.each_payload(visit),
            Self::ChildFinished { result, error, .. } => {
                visit(result);
                error.each_payload(visit);
            }
            Self::Signal { signal, .. } => signal.each_payload(visit),
            Self::CloseChildren => {}
        }
    }
}

impl HoldsPayloads for Result<Payload, Failure> {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        match self {
            Ok(result) => visit(result),
            Err(failure) => failure.each_payload(visit),
        }
    }
}

impl<T: HoldsPayloads> HoldsPayloads for Option<T> {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        if let Some(value) = self {
            value.each_payload(visit);
        }
    }
}

impl<T: HoldsPayloads> HoldsPayloads for Box<T> {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        (**self).each_payload(visit);
    }
}

impl<T: HoldsPayloads> HoldsPayloads for Vec<T> {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        for value in self {
            value.each_payload(visit);
        }
    }
}
