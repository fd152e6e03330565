//! What goes into a store call: how it is dated, and how the trace shows it.

use std::fmt::Debug;
use std::time::Duration;

use durable_core::{Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::model::{
    BlockRun, BreakerRecord, ClaimOutbox, ClaimTasks, ClaimTurns, CountLimit, DeadLetterDecision,
    DlqFilter, FireDue, LeaseExtension, Next, OutboxReport, Page, PurgeOld, PurgeRuns, ReapLeases,
    RelayMessages, RunFilter, ScheduleFilter, ScheduleFire, ScheduleRecord, SendSignal, SendUpdate,
    StartRun, StepLogFilter, TaskFilter, TaskRelease, TaskResult, TerminateRun, TurnCommit,
    WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use uuid::Uuid;

use super::tally::Happening;
use super::trace::short;
use super::world::World;

/// An argument of a store call.
pub(super) trait Argument: Debug + Sized {
    /// The same with the true time in it, where it asks for the store's.
    fn at(self, _now: Timestamp) -> Self {
        self
    }

    /// Turns to be committed: run and turn.
    fn turns(&self) -> Vec<(Uuid, Uuid)> {
        Vec::new()
    }

    /// Of each turn to be committed, whether it ends activities and wants to go on with the next at once, in their slots.
    fn passes_slots_on(&self) -> Vec<bool> {
        Vec::new()
    }

    /// Counts what is asked for.
    fn tell(&self, _world: &World) {}

    /// For the trace.
    fn sketch(&self) -> String {
        short(&format!("{self:?}"))
    }
}

impl Argument for Vec<TaskRelease> {
    fn tell(&self, world: &World) {
        let parked = self.iter().filter(|release| release.park.is_some());
        world.count(Happening::TaskParked, parked.count());
    }
}

impl Argument for Option<Timestamp> {
    fn at(self, now: Timestamp) -> Self {
        self.or(Some(now))
    }

    fn sketch(&self) -> String {
        String::new()
    }
}

macro_rules! dated {
    ($($ty:ty: $sketch:expr),+ $(,)?) => {
        $(impl Argument for $ty {
            fn at(mut self, now: Timestamp) -> Self {
                self.now.get_or_insert(now);
                self
            }

            fn sketch(&self) -> String {
                let sketch: fn(&Self) -> String = $sketch;
                sketch(self)
            }
        })+
    };
}

dated! {
    ClaimTurns: |claim| format!("max {}", claim.max),
    ClaimTasks: |claim| format!("max {} shard {}", claim.max, claim.first_shard),
    FireDue: |_| String::new(),
    ReapLeases: |_| String::new(),
    RelayMessages: |_| String::new(),
    ClaimOutbox: |_| String::new(),
    PurgeRuns: |_| String::new(),
    PurgeOld: |_| String::new(),
}

macro_rules! plain {
    ($($ty:ty),+ $(,)?) => { $(impl Argument for $ty {})+ };
}

plain! {
    Uuid, &[Uuid], i64, u64, usize, &str, Duration, Timestamp, Payload, CountLimit, Page, Vec<BlockRun>,
    Vec<LeaseExtension>, Vec<SendSignal>, Vec<SendUpdate>,
    Vec<TerminateRun>, ScheduleRecord, Option<ScheduleRecord>, Vec<ScheduleFire>, WorkerStatus, WorkerFilter, DlqFilter,
    DeadLetterDecision, BreakerRecord, Vec<OutboxReport>, RunFilter, TaskFilter, ScheduleFilter, StepLogFilter,
}

impl Argument for WorkerInfo {
    fn sketch(&self) -> String {
        self.id.clone()
    }
}

impl Argument for Vec<WorkerBeat> {
    fn sketch(&self) -> String {
        list(self, |beat| format!("load {}", beat.current_load))
    }
}

impl Argument for Vec<StartRun> {
    fn sketch(&self) -> String {
        list(self, |start| {
            let key = start.idempotency_key.as_deref().unwrap_or_default();
            format!("{} key {key}", start.run_id)
        })
    }
}

impl Argument for Vec<TaskResult> {
    fn sketch(&self) -> String {
        list(self, |result| {
            let lease = &result.lease;
            format!(
                "{}/{} attempt {}: {:?}",
                lease.run_id, lease.task_id, lease.attempt, result.outcome
            )
        })
    }
}

impl Argument for Vec<TurnCommit> {
    fn turns(&self) -> Vec<(Uuid, Uuid)> {
        // A reset is a client's, who decides anew whenever it is asked.
        self.iter()
            .filter(|turn| !matches!(turn.next, Next::Reset { .. }))
            .map(|turn| (turn.run_id, turn.turn_id))
            .collect()
    }

    fn passes_slots_on(&self) -> Vec<bool> {
        let passes = |turn: &TurnCommit| {
            !turn.finished_tasks.is_empty() && turn.tasks.iter().any(|task| task.lease)
        };
        self.iter().map(passes).collect()
    }

    fn tell(&self, world: &World) {
        self.iter().for_each(|turn| world.ledger.turn_sent(turn));
        let first = self.iter().filter(|turn| turn.start.is_some());
        world.count(Happening::FirstTurnTried, first.count());
    }

    fn sketch(&self) -> String {
        list(self, |turn| {
            let events: Vec<&str> = turn.events.iter().map(WorkflowEvent::event_type).collect();
            let tasks: Vec<String> = turn
                .tasks
                .iter()
                .map(|task| format!("{}{}", task.activity_id, if task.lease { "*" } else { "" }))
                .collect();
            format!(
                "run {} turn {} after {} facts to {}: {} tasks {}",
                turn.run_id,
                turn.turn_id,
                turn.expected_sequence,
                turn.facts_through,
                events.join(" "),
                tasks.join(" ")
            )
        })
    }
}

/// Items, each by its own sketch.
pub(super) fn list<T>(items: &[T], sketch: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(|item| short(&sketch(item))).collect();
    format!("[{}]", items.join(", "))
}
