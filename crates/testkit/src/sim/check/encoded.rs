//! Where a seed has a codec, the store has no payload in the clear; where it has none, it has no other.

use durable_core::{Failure, Payload, WorkflowEvent, signal_types};
use everruns_durable::persistence::model::{
    Dump, HistoryEvent, RunDump, SignalRecord, UpdateState,
};

use super::Scene;
use crate::sim::tally::Happening;

pub(super) fn check(scene: &Scene<'_>) {
    let wanted = scene.world.extras.codec;
    let mut encoded = 0;
    for (place, payload) in payloads(scene.stored) {
        if payload.is_encoded() != wanted {
            let form = if wanted { "in the clear" } else { "encoded" };
            scene
                .world
                .violated(format!("the {place} is stored {form}: {payload:?}"));
        }
        encoded += usize::from(payload.is_encoded());
    }
    scene.world.count(Happening::PayloadEncoded, encoded);
}

/// Every payload that is there, with where it is.
fn payloads(dump: &Dump) -> Vec<(String, Payload)> {
    let mut all = Vec::new();
    for run in &dump.runs {
        let id = run.run.id;
        let found = of_run(run).into_iter();
        all.extend(found.map(|(place, payload)| (format!("{place} of run {id}"), payload)));
    }
    for letter in &dump.dead_letters {
        let mut add =
            |place: &str, payload| all.push((format!("{place} of a dead letter"), payload));
        add("input", letter.input.clone());
        add("error", letter.last_error.details.clone());
    }
    for schedule in &dump.schedules {
        all.push(("input of a schedule".to_owned(), schedule.input.clone()));
    }
    for worker in &dump.workers {
        all.push(("metadata of a worker".to_owned(), worker.metadata.clone()));
    }
    for done in &dump.dedup {
        all.push((
            "result of what was done once".to_owned(),
            done.result.clone(),
        ));
    }
    all.retain(|(_, payload)| !payload.is_absent());
    all
}

fn of_run(dump: &RunDump) -> Vec<(&'static str, Payload)> {
    let run = &dump.run;
    let mut all = vec![
        ("input", run.input.clone()),
        ("memo", run.memo.clone()),
        ("result", run.result.clone()),
    ];
    all.extend(run.error.iter().flat_map(details));
    // An end keeps such a signal as the store wrote it: see below.
    let is_the_stores = |event: &&HistoryEvent| {
        matches!(&event.event, WorkflowEvent::SignalReceived { signal, unread: true }
            if signal.signal_type == signal_types::CANCEL && signal.payload == Payload::null())
    };
    for event in dump.events.iter().filter(|event| !is_the_stores(event)) {
        let name = event.event.event_type();
        match event.event.payload() {
            Some(payload) => all.push((name, payload.clone())),
            None => all.extend(
                event
                    .event
                    .clone()
                    .failure_mut()
                    .iter()
                    .flat_map(|failure| details(failure)),
            ),
        }
    }
    for task in &dump.tasks {
        all.push(("input of a task", task.input.clone()));
        all.push(("heartbeat of a task", task.heartbeat_details.clone()));
    }
    // The store itself asks the children of a run that is over to stop, and has nothing to hide in that.
    let is_the_stores = |signal: &&SignalRecord| {
        signal.signal_type == signal_types::CANCEL && signal.payload == Payload::null()
    };
    for signal in dump.signals.iter().filter(|signal| !is_the_stores(signal)) {
        all.push(("signal", signal.payload.clone()));
    }
    for update in &dump.updates {
        all.push(("input of an update", update.input.clone()));
        match &update.state {
            UpdateState::Pending => {}
            UpdateState::Completed(result) => all.push(("result of an update", result.clone())),
            UpdateState::Failed(failure) => all.extend(details(failure)),
        }
    }
    for log in &dump.step_logs {
        all.push(("meta of a log line", log.meta.clone()));
    }
    all
}

/// Of a failure and all its causes.
fn details(failure: &Failure) -> Vec<(&'static str, Payload)> {
    let causes = std::iter::successors(Some(failure), |failure| failure.cause.as_deref());
    causes
        .map(|failure| ("details of a failure", failure.details.clone()))
        .collect()
}
