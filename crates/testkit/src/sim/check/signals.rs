//! Every acknowledged signal is in exactly one history, once.

use durable_core::WorkflowEvent;
use uuid::Uuid;

use super::Scene;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let Some(run) = scene.run(told.run.id) else {
            continue;
        };
        for (signal_id, accepted) in &told.signals {
            let times = times_received(scene, *signal_id);
            if *accepted && times != 1 {
                scene.violated(
                    run,
                    format!("signal {signal_id} was acknowledged and received {times} times"),
                );
            }
            // Refused after an earlier try came through unseen: then it may be there.
            if !accepted && times > 1 {
                scene.violated(
                    run,
                    format!("signal {signal_id} was received {times} times"),
                );
            }
        }
    }
}

fn times_received(scene: &Scene<'_>, id: Uuid) -> usize {
    let events = scene.dump.runs.iter().flat_map(|run| &run.events);
    events
        .filter(|event| {
            matches!(&event.event, WorkflowEvent::SignalReceived { signal, .. }
                if signal.signal_id == Some(id))
        })
        .count()
}
