//! What comes out of a store call: what it shows to have happened, and how the trace shows it.

use std::fmt::Debug;

use durable_core::{CircuitState, Payload, Timestamp};
use everruns_durable::persistence::model::{
    Attributes, BreakerRecord, ClaimedTask, ClaimedTurn, Committed, DeadLetter, DecisionOutcome,
    DeleteOutcome, FinishOutcome, Fired, Glance, History, LeaseState, OutboxRecord, PlacedTask,
    PurgedOld, ReapedTask, Rejection, Relayed, RollupRecord, RunCount, RunMark, RunPage, RunRecord,
    RunSummary, ScheduleOutcome, ScheduleRecord, SendOutcome, StartOutcome, StepLogPage,
    StoreCounts, TaskPlace, TaskRecord, TerminateOutcome, TurnOutcome, UpdateRecord, WaitingTypes,
    WorkerInfo, WorkerStatus,
};

use super::argument::list;
use super::tally::Happening;
use super::trace::short;
use super::world::World;

/// The answer of a store call.
pub(super) trait Answer: Debug {
    /// Counts what it tells of.
    fn tell(&self, _world: &World) {}

    /// Of each turn, whether it was committed just now and handed a task over.
    fn handed_over(&self) -> Vec<bool> {
        Vec::new()
    }

    /// For the trace.
    fn sketch(&self) -> String {
        short(&format!("{self:?}"))
    }
}

macro_rules! plain {
    ($($ty:ty),+ $(,)?) => { $(impl Answer for $ty {})+ };
}

plain! {
    (), bool, u64, Timestamp, Glance, WaitingTypes, Vec<String>, Payload, Option<Payload>, Attributes,
    Vec<BreakerRecord>, Vec<DeadLetter>, DecisionOutcome, Fired, Vec<OutboxRecord>, Relayed,
    Vec<RollupRecord>, RunPage, RunCount, Vec<Option<RunSummary>>, Option<DeadLetter>, Vec<ScheduleOutcome>, Option<ScheduleRecord>,
    Vec<ScheduleRecord>, Vec<StartOutcome>, StepLogPage, StoreCounts, Vec<TaskRecord>,
    Vec<TerminateOutcome>, Option<UpdateRecord>, Vec<WorkerInfo>, Vec<Option<WorkerStatus>>,
    Vec<SendOutcome>, Vec<bool>, PurgedOld, DeleteOutcome, Vec<Option<RunMark>>,
}

impl Answer for Option<BreakerRecord> {
    fn tell(&self, world: &World) {
        let open = |breaker: &BreakerRecord| breaker.state == CircuitState::Open;
        let opened = self.as_ref().is_some_and(open);
        world.count(Happening::BreakerOpened, usize::from(opened));
    }
}

impl Answer for Option<RunRecord> {
    fn sketch(&self) -> String {
        self.as_ref().map_or_else(
            || "none".to_owned(),
            |run| {
                format!(
                    "{} at {} iteration {}",
                    run.status, run.sequence, run.iteration
                )
            },
        )
    }
}

impl Answer for Option<History> {
    fn sketch(&self) -> String {
        self.as_ref().map_or_else(
            || "none".to_owned(),
            |history| format!("{} events", history.events.len()),
        )
    }
}

impl Answer for Vec<ClaimedTurn> {
    fn tell(&self, world: &World) {
        world.count(Happening::TurnClaimed, self.len());
    }

    fn sketch(&self) -> String {
        list(self, sketch_turn)
    }
}

impl Answer for Vec<Option<ClaimedTurn>> {
    fn sketch(&self) -> String {
        list(self, |turn| {
            turn.as_ref().map_or_else(|| "none".to_owned(), sketch_turn)
        })
    }
}

fn sketch_turn(turn: &ClaimedTurn) -> String {
    let facts: Vec<&str> = turn
        .facts
        .iter()
        .map(|fact| fact.event.event_type())
        .collect();
    let run = &turn.run;
    format!(
        "run {} at {} facts {}",
        run.id,
        run.sequence,
        facts.join(" ")
    )
}

impl Answer for Vec<ClaimedTask> {
    fn tell(&self, world: &World) {
        world.count(Happening::TaskClaimed, self.len());
    }

    fn sketch(&self) -> String {
        list(self, |task| {
            format!(
                "{}/{} attempt {}",
                task.lease.run_id, task.activity_id, task.lease.attempt
            )
        })
    }
}

impl Answer for Vec<FinishOutcome> {
    fn tell(&self, world: &World) {
        let lost = self
            .iter()
            .filter(|outcome| **outcome == FinishOutcome::LeaseLost);
        world.count(Happening::LeaseLost, lost.count());
    }
}

impl Answer for Vec<LeaseState> {
    fn tell(&self, world: &World) {
        let lost = self.iter().filter(|state| **state == LeaseState::Lost);
        world.count(Happening::LeaseLost, lost.count());
    }
}

impl Answer for Vec<ReapedTask> {
    fn tell(&self, world: &World) {
        world.count(Happening::LeaseReaped, self.len());
        world.ledger.taken_back(self, world.millis());
    }
}

/// Tasks that the turn's process may begin at once.
fn leased(committed: &Committed) -> impl Iterator<Item = &PlacedTask> {
    let tasks = committed.tasks.iter();
    tasks.filter(|task| matches!(task.place, TaskPlace::Leased { .. }))
}

impl Answer for Vec<TurnOutcome> {
    fn handed_over(&self) -> Vec<bool> {
        let handed = |outcome: &TurnOutcome| match outcome {
            TurnOutcome::Committed(committed) => {
                !committed.repeated && leased(committed).next().is_some()
            }
            TurnOutcome::Rejected(_) => false,
        };
        self.iter().map(handed).collect()
    }

    fn tell(&self, world: &World) {
        for outcome in self {
            match outcome {
                TurnOutcome::Committed(committed) => {
                    world.count(Happening::TurnRepeated, usize::from(committed.repeated));
                    world.count(Happening::TaskHandedOver, leased(committed).count());
                }
                TurnOutcome::Rejected(Rejection::LeaseLost { .. }) => {
                    world.count(Happening::LeaseLost, 1);
                }
                TurnOutcome::Rejected(Rejection::UnseenFacts { .. }) => {
                    world.count(Happening::UnseenFacts, 1);
                }
                TurnOutcome::Rejected(_) => world.count(Happening::Conflict, 1),
            }
        }
    }

    fn sketch(&self) -> String {
        list(self, |outcome| match outcome {
            TurnOutcome::Committed(committed) => format!(
                "committed at {} arrivals {}{}",
                committed.sequence,
                committed.arrivals,
                if committed.repeated {
                    " (repeated)"
                } else {
                    ""
                }
            ),
            TurnOutcome::Rejected(rejection) => format!("refused: {rejection}"),
        })
    }
}
