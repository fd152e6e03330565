//! Turns made by hand, for jobs that measure the store without an engine or fill it.

use std::sync::Arc;

use anyhow::Context as _;
use everruns_durable::core::{ActivityOptions, Payload, WorkflowEvent};
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{NewTask, RunRecord, StartRun, TurnCommit};
use uuid::Uuid;

/// Runs started by one call.
const STARTS_AT_ONCE: usize = 1_000;

/// Runs that were started and have taken no turn.
#[derive(Clone)]
pub(crate) struct Started {
    /// Their ids.
    pub(crate) ids: Vec<Uuid>,
    /// One of them, as a pattern for the turns of all.
    pattern: Arc<RunRecord>,
}

impl Started {
    /// Starts so many runs of a type that nobody hosts.
    pub(crate) async fn new(
        store: &dyn WorkflowEventStore,
        runs: usize,
        workflow_type: &str,
    ) -> anyhow::Result<Self> {
        let ids: Vec<Uuid> = (0..runs).map(|_| Uuid::now_v7()).collect();
        let input = Payload::from_json_text(r#"{"order":"A-1","amount":1999}"#)?;
        for ids in ids.chunks(STARTS_AT_ONCE) {
            let starts = ids
                .iter()
                .map(|id| StartRun::new(*id, workflow_type, input.clone()));
            store.start_runs(starts.collect(), None).await?;
        }
        let first = ids.first().context("no run was asked for")?;
        let pattern = store.get_run(*first).await?.context("it was started")?;
        let pattern = Arc::new(pattern);
        Ok(Self { ids, pattern })
    }

    /// A turn of one of them that writes nothing yet.
    pub(crate) fn turn(&self, run_id: Uuid, sequence: i64) -> TurnCommit {
        let mut turn = TurnCommit::new(&self.pattern, Uuid::now_v7());
        turn.run_id = run_id;
        turn.expected_sequence = sequence;
        turn
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
        options: Box::new(task.options.clone()),
    }
}
