//! Every acknowledged signal is in exactly one history, once; carried over, or come again after a reset, once in each stretch of it.

use durable_core::WorkflowEvent;
use uuid::Uuid;

use super::Scene;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let Some(run) = scene.run(told.run.id) else {
            continue;
        };
        for (signal_id, accepted) in &told.signals {
            let (times, runs) = times_received(scene, *signal_id);
            // Carried over to the next iteration, or come again after a reset, it is there again.
            let again = run.run.iteration + run.run.epoch;
            let most = 1 + usize::try_from(again).unwrap_or(usize::MAX);
            if *accepted && (times == 0 || times > most || runs != 1) {
                scene.violated(
                    run,
                    format!("signal {signal_id} was acknowledged and received {times} times"),
                );
            }
            // Refused after an earlier try came through unseen: then it may be there.
            if !accepted && times > most {
                scene.violated(
                    run,
                    format!("signal {signal_id} was received {times} times"),
                );
            }
        }
    }
}

/// How often, and by how many runs.
fn times_received(scene: &Scene<'_>, id: Uuid) -> (usize, usize) {
    let times = scene.dump.runs.iter().map(|run| {
        let events = run.events.iter();
        let received = events.filter(|event| {
            matches!(&event.event, WorkflowEvent::SignalReceived { signal, .. }
                if signal.signal_id == Some(id))
        });
        received.count()
    });
    let times: Vec<usize> = times.filter(|times| *times > 0).collect();
    (times.iter().sum(), times.len())
}
