//! Turns made by hand, for jobs that measure the store without an engine or fill it.

use everruns_durable::core::{ActivityOptions, Payload, WorkflowEvent};
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{NewTask, Next, StartRun, TurnCommit};
use uuid::Uuid;

/// Runs started by one call.
const STARTS_AT_ONCE: usize = 1_000;

/// Starts so many runs of a type that nobody hosts.
pub(crate) async fn start(
    store: &dyn WorkflowEventStore,
    runs: usize,
    workflow_type: &str,
) -> anyhow::Result<Vec<Uuid>> {
    let ids: Vec<Uuid> = (0..runs).map(|_| Uuid::now_v7()).collect();
    let input = Payload::from_json_text(r#"{"order":"A-1","amount":1999}"#)?;
    for ids in ids.chunks(STARTS_AT_ONCE) {
        let starts = ids
            .iter()
            .map(|id| StartRun::new(*id, workflow_type, input.clone()));
        store.start_runs(starts.collect(), None).await?;
    }
    Ok(ids)
}

/// A turn that writes nothing yet.
pub(crate) fn blank(run_id: Uuid, sequence: i64) -> TurnCommit {
    TurnCommit {
        run_id,
        turn_id: Uuid::now_v7(),
        expected_sequence: sequence,
        expected_epoch: 0,
        facts_through: 0,
        finished_tasks: Vec::new(),
        fired_timers: Vec::new(),
        events: Vec::new(),
        tasks: Vec::new(),
        cancelled_activities: Vec::new(),
        timers: Vec::new(),
        cancelled_timers: Vec::new(),
        children: Vec::new(),
        signals: Vec::new(),
        updates: Vec::new(),
        attributes: std::collections::BTreeMap::new(),
        outbox: Vec::new(),
        step_logs: Vec::new(),
        requeued_letters: Vec::new(),
        next: Next::Wait,
        lease: None,
        owner: None,
    }
}

/// A task that anybody may claim.
pub(crate) fn task(activity_id: String, input: Payload) -> NewTask {
    NewTask {
        task_id: Uuid::now_v7(),
        activity_id,
        activity_type: "noop".into(),
        input,
        options: ActivityOptions::default(),
        delay: None,
        lease: false,
        trace: None,
    }
}

/// The event that tells of a task.
pub(crate) fn scheduled(task: &NewTask) -> WorkflowEvent {
    WorkflowEvent::ActivityScheduled {
        activity_id: task.activity_id.clone(),
        activity_type: task.activity_type.clone(),
        input: task.input.clone(),
        options: task.options.clone(),
    }
}
