//! What listeners heard: every event is in its run's history, none was told twice, one process tells those of a run in order, and where
//! no process dies none is missing.

use std::collections::BTreeMap;

use durable_core::WorkflowEvent;
use everruns_durable::observability::listener::{Lifecycle, LifecycleEvent};
use everruns_durable::persistence::model::{HistoryEvent, RunDump};
use uuid::Uuid;

use super::Scene;
use crate::sim::tally::Happening;
use crate::sim::weather::Climate;

/// What nobody may be told twice: run, sequence number and name of the event.
type Key = (Uuid, i64, &'static str);

pub(super) fn check(scene: &Scene<'_>) {
    if !scene.world.extras.listeners {
        return;
    }
    scene.world.count(Happening::Heard, scene.heard.len());
    let told = each_once(scene);
    in_order(scene);
    for heard in &scene.heard {
        let event = &heard.event;
        match scene.run(event.run_id) {
            Some(run) if is_in_history(run, event) => {}
            Some(run) => scene.violated(
                run,
                format!("{} told {event:?}, which never was", heard.node),
            ),
            None => scene
                .world
                .violated(format!("{} told of a run that is not there", heard.node)),
        }
    }
    if scene.world.climate == Climate::Calm {
        none_missing(scene, &told);
    }
}

fn each_once(scene: &Scene<'_>) -> BTreeMap<Key, usize> {
    let mut told = BTreeMap::new();
    for heard in &scene.heard {
        let event = &heard.event;
        let times = told.entry((event.run_id, event.sequence, event.name()));
        let times = times.and_modify(|times| *times += 1).or_insert(1);
        if *times > most(scene, event) {
            scene.world.violated(format!(
                "{} told {} of run {} at {}, which was told before",
                heard.node,
                event.name(),
                event.run_id,
                event.sequence
            ));
        }
    }
    told
}

/// How often an event may be told: once, and that a run waits once more for every turn that recorded nothing.
fn most(scene: &Scene<'_>, event: &LifecycleEvent) -> usize {
    let ledger = &scene.world.ledger;
    match event.what {
        Lifecycle::RunSuspended => 1 + ledger.empty_turns_after(event.run_id, event.sequence),
        _ => 1,
    }
}

fn in_order(scene: &Scene<'_>) {
    let mut last: BTreeMap<(&str, Uuid), i64> = BTreeMap::new();
    for heard in &scene.heard {
        let event = &heard.event;
        let before = last.insert((&heard.node, event.run_id), event.sequence);
        if before.is_some_and(|before| before > event.sequence) {
            scene.world.violated(format!(
                "{} told event {} of run {} after event {before:?}",
                heard.node, event.sequence, event.run_id
            ));
        }
    }
}

fn is_in_history(run: &RunDump, told: &LifecycleEvent) -> bool {
    let at = |sequence: i64| {
        let mut events = run.events.iter();
        events.find(|event| event.sequence_num == sequence)
    };
    let Some(recorded) = at(told.sequence) else {
        return false;
    };
    let attempt = match at(told.sequence - 1).map(|before| &before.event) {
        Some(WorkflowEvent::ActivityStarted { attempt, .. }) => *attempt,
        _ => 0,
    };
    told.workflow_type == run.run.workflow_type && fits(recorded, attempt, &told.what)
}

/// Whether an event, with the attempt that began just before it, is what was told.
fn fits(recorded: &HistoryEvent, attempt: u32, told: &Lifecycle) -> bool {
    use WorkflowEvent as E;
    match (&recorded.event, told) {
        (E::WorkflowStarted { .. }, Lifecycle::RunStarted) => true,
        (event, Lifecycle::RunSuspended) => !event.is_terminal(),
        (E::WorkflowCompleted { result }, Lifecycle::RunCompleted { result: told }) => {
            result == told
        }
        (E::WorkflowFailed { error }, Lifecycle::RunFailed { error: told }) => {
            error.clone().into_failure() == *told
        }
        (E::WorkflowCancelled { reason }, Lifecycle::RunCancelled { reason: told }) => {
            reason == told
        }
        (
            E::ActivityScheduled {
                activity_id,
                activity_type,
                ..
            },
            Lifecycle::ActivityScheduled {
                activity_id: told_id,
                activity_type: told_type,
            },
        ) => (activity_id, activity_type) == (told_id, told_type),
        (
            E::ActivityCompleted { activity_id, .. },
            Lifecycle::ActivityCompleted {
                activity_id: told_id,
                attempt: told_attempt,
            },
        ) => (activity_id, &attempt) == (told_id, told_attempt),
        (
            E::ActivityFailed {
                activity_id,
                error,
                will_retry,
            },
            Lifecycle::ActivityFailed {
                activity_id: told_id,
                attempt: told_attempt,
                error: told_error,
                will_retry: told_retry,
            },
        ) => {
            (activity_id, &attempt, error, will_retry)
                == (told_id, told_attempt, told_error, told_retry)
        }
        (
            E::ActivityTimedOut { activity_id, .. },
            Lifecycle::ActivityFailed {
                activity_id: told_id,
                will_retry: false,
                ..
            },
        ) => activity_id == told_id,
        _ => false,
    }
}

/// Where no process dies, all that turns recorded was told.
fn none_missing(scene: &Scene<'_>, told: &BTreeMap<Key, usize>) {
    // A reset is recorded by a client, and clients have no listeners.
    for run in scene.dump.runs.iter().filter(|run| run.run.epoch == 0) {
        let id = run.run.id;
        for (place, recorded) in run.events.iter().enumerate() {
            let Some(name) = name_of(&recorded.event, place) else {
                continue;
            };
            if !told.contains_key(&(id, recorded.sequence_num, name)) {
                let number = recorded.sequence_num;
                scene.violated(run, format!("nobody was told {name} at {number}"));
            }
        }
    }
}

/// By which name an event that a turn recorded is told.
fn name_of(event: &WorkflowEvent, place: usize) -> Option<&'static str> {
    use WorkflowEvent as E;
    Some(match event {
        E::WorkflowStarted { .. } if place == 0 => "run.started",
        E::WorkflowCompleted { .. } => "run.completed",
        E::WorkflowCancelled { .. } => "run.cancelled",
        E::ActivityScheduled { .. } => "activity.scheduled",
        E::ActivityCompleted { .. } => "activity.completed",
        E::ActivityFailed { .. } | E::ActivityTimedOut { .. } => "activity.failed",
        // One that fails may have been ended from outside, by a client on its own.
        _ => return None,
    })
}
