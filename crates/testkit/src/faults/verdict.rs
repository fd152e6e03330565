//! What the workload must have left behind: each thing once.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use durable_core::{Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{RunDump, WorkflowStatus};
use uuid::Uuid;

use super::program::{ACTIVITIES, CHILD, PARENT, SIGNALS};
use crate::audit;

/// Reads the store behind the faults.
pub(super) async fn judge(
    store: &dyn WorkflowEventStore,
    now: Timestamp,
    started: &BTreeMap<String, Uuid>,
) -> anyhow::Result<()> {
    let report = audit::audit(store, Some(now)).await?;
    ensure!(report.is_clean(), "the audit says:\n{report}");
    let dump = store.dump().await?;
    let parents: Vec<&RunDump> = of_type(&dump.runs, PARENT);
    let children: Vec<&RunDump> = of_type(&dump.runs, CHILD);
    ensure!(
        parents.len() == started.len(),
        "{} keys started {} runs",
        started.len(),
        parents.len()
    );
    ensure!(
        children.len() == parents.len(),
        "{} runs started {} children",
        parents.len(),
        children.len()
    );
    for (key, run_id) in started {
        let run = parents
            .iter()
            .find(|run| run.run.id == *run_id)
            .with_context(|| format!("the run of {key} is gone"))?;
        judge_run(run).with_context(|| format!("run of {key}"))?;
        let letters = dump.dead_letters.iter().filter(|l| l.run_id == *run_id);
        let failures = run.events.iter().filter(|e| is_final_failure(&e.event));
        let (letters, failures) = (letters.count(), failures.count());
        ensure!(
            letters == failures,
            "run of {key}: {failures} activities failed for good and left {letters} dead letters"
        );
    }
    Ok(())
}

fn is_final_failure(event: &WorkflowEvent) -> bool {
    matches!(
        event,
        WorkflowEvent::ActivityTimedOut { .. }
            | WorkflowEvent::ActivityFailed {
                will_retry: false,
                ..
            }
    )
}

fn of_type<'a>(runs: &'a [RunDump], workflow_type: &str) -> Vec<&'a RunDump> {
    runs.iter()
        .filter(|run| run.run.workflow_type == workflow_type)
        .collect()
}

fn judge_run(run: &RunDump) -> anyhow::Result<()> {
    ensure!(
        run.run.status == WorkflowStatus::Completed,
        "it is {}",
        run.run.status
    );
    let count = |wanted: &dyn Fn(&WorkflowEvent) -> bool| {
        run.events
            .iter()
            .filter(|event| wanted(&event.event))
            .count()
    };
    let ends = count(&|event| event.is_terminal());
    ensure!(ends == 1, "it has ended {ends} times");
    for number in 0..SIGNALS {
        let payload = Payload::from_value(&number)?;
        let taken = count(
            &|event| matches!(event, WorkflowEvent::SignalReceived { signal, .. } if signal.payload == payload),
        );
        ensure!(taken == 1, "signal {number} was taken {taken} times");
    }
    for activity in ACTIVITIES {
        let ends = count(&|event| match event {
            WorkflowEvent::ActivityCompleted { activity_id, .. }
            | WorkflowEvent::ActivityTimedOut { activity_id, .. }
            | WorkflowEvent::ActivityFailed {
                activity_id,
                will_retry: false,
                ..
            } => activity_id == activity,
            _ => false,
        });
        ensure!(ends == 1, "activity {activity} has ended {ends} times");
    }
    let fired = count(&|event| matches!(event, WorkflowEvent::TimerFired { .. }));
    ensure!(fired == 1, "its timer fired {fired} times");
    let children = count(&|event| matches!(event, WorkflowEvent::ChildWorkflowCompleted { .. }));
    ensure!(children == 1, "its child has ended {children} times");
    Ok(())
}
