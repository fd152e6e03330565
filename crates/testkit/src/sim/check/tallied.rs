//! Counts what the histories show to have happened.

use durable_core::{TimeoutType, WorkflowEvent, error_types};
use everruns_durable::persistence::model::{RunDump, WorkflowStatus};

use super::Scene;
use crate::sim::plan::Deed;
use crate::sim::program::Code;
use crate::sim::tally::Happening;

pub(super) fn count(scene: &Scene<'_>) {
    let world = scene.world;
    world.count(Happening::DeadLetter, scene.dump.dead_letters.len());
    for told in scene.told {
        if let (Code::Plan(plan), WorkflowStatus::Completed) =
            (&told.plan.program.code, told.run.status)
        {
            plan.deeds.iter().for_each(|deed| count_deed(scene, deed));
        }
    }
    for run in &scene.dump.runs {
        let terminated = run
            .run
            .error
            .as_ref()
            .is_some_and(|error| error.error_type == error_types::WORKFLOW_TERMINATED);
        match run.run.status {
            WorkflowStatus::Completed => world.count(Happening::RunCompleted, 1),
            WorkflowStatus::Cancelled => world.count(Happening::RunCancelled, 1),
            WorkflowStatus::Failed if terminated => world.count(Happening::RunTerminated, 1),
            WorkflowStatus::Failed if has_timed_out(run) => world.count(Happening::RunTimedOut, 1),
            _ => world.count(Happening::RunFailed, 1),
        }
        for event in &run.events {
            if let Some(what) = happening(&event.event) {
                world.count(what, 1);
            }
        }
        for carried in carried(&run.events) {
            world.count(Happening::SignalCarried, carried);
        }
    }
}

/// A deed of a run that completed was done.
fn count_deed(scene: &Scene<'_>, deed: &Deed) {
    let what = match deed {
        Deed::SignalTwice { .. } => Happening::SignalOrTime,
        Deed::Handle { .. } => Happening::SignalHandled,
        Deed::Updates { .. } => Happening::UpdatesApplied,
        Deed::FailFast => Happening::FailedFast,
        Deed::Race(_) => Happening::RaceDecided,
        Deed::Scope { .. } => Happening::ScopeAbandoned,
        Deed::Detached { .. } => Happening::ChildDetached,
        Deed::Saga { fails: false, .. } => Happening::SagaKept,
        Deed::Saga { fails: true, .. } => Happening::SagaUndone,
        Deed::Activity { name, .. } if name == "once" => Happening::DoneOnce,
        Deed::Gather { branches } => {
            branches
                .iter()
                .flatten()
                .for_each(|deed| count_deed(scene, deed));
            Happening::Gathered
        }
        Deed::ContinueAsNew { plan } => {
            return plan.deeds.iter().for_each(|deed| count_deed(scene, deed));
        }
        _ => return,
    };
    scene.world.count(what, 1);
}

fn has_timed_out(run: &RunDump) -> bool {
    run.run.error.as_ref().is_some_and(|error| {
        [error_types::EXECUTION_TIMEOUT, error_types::RUN_TIMEOUT].contains(&&*error.error_type)
    })
}

/// How many signals each continuation carried over: they stand directly behind its start.
fn carried(events: &[everruns_durable::persistence::model::HistoryEvent]) -> Vec<usize> {
    let mut counts = Vec::new();
    for (place, event) in events.iter().enumerate() {
        if matches!(event.event, WorkflowEvent::WorkflowContinuedAsNew { .. }) {
            let next_turn = events.get(place + 1).map(|first| first.created_at);
            let signals = events[place + 1..]
                .iter()
                .take_while(|later| Some(later.created_at) == next_turn)
                .filter(|later| matches!(later.event, WorkflowEvent::SignalReceived { .. }));
            counts.push(signals.count());
        }
    }
    counts
}

fn happening(event: &WorkflowEvent) -> Option<Happening> {
    use WorkflowEvent as E;
    Some(match event {
        E::ActivityCompleted { .. } => Happening::ActivityCompleted,
        E::ActivityFailed {
            will_retry: false, ..
        } => Happening::ActivityFailed,
        E::ActivityTimedOut { timeout_type, .. } => match timeout_type {
            TimeoutType::ScheduleToStart => Happening::ScheduleToStart,
            TimeoutType::ScheduleToClose => Happening::ScheduleToClose,
            TimeoutType::Heartbeat => Happening::HeartbeatMissed,
            TimeoutType::StartToClose => Happening::ActivityTimedOut,
        },
        E::ActivityFailed { error, .. } if error.error_type == error_types::HEARTBEAT_TIMEOUT => {
            Happening::HeartbeatMissed
        }
        E::ActivityFailed { error, .. }
            if error.error_type == error_types::START_TO_CLOSE_TIMEOUT =>
        {
            Happening::ActivityTimedOut
        }
        E::ActivityCancelled { .. } => Happening::ActivityCancelled,
        E::TimerFired { .. } => Happening::TimerFired,
        E::TimerCancelled { .. } => Happening::TimerCancelled,
        E::SignalReceived { unread: true, .. } => Happening::SignalUnread,
        E::ChildWorkflowStarted { .. } => Happening::ChildStarted,
        E::ChildWorkflowCompleted { .. } => Happening::ChildCompleted,
        E::ChildWorkflowFailed { .. } => Happening::ChildFailed,
        E::WorkflowContinuedAsNew { .. } => Happening::ContinuedAsNew,
        E::ChildWorkflowCancelRequested { .. } => Happening::ChildCancelled,
        E::SideEffectRecorded { .. } => Happening::SideEffect,
        E::LocalActivityCompleted { .. } => Happening::LocalActivity,
        E::SearchAttributesUpserted { .. } => Happening::AttributeSet,
        E::PatchMarked { .. } => Happening::Patched,
        _ => return None,
    })
}
