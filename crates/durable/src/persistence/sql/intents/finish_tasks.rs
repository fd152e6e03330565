//! Results of attempts.

use durable_core::{Timestamp, WorkflowEvent};

use crate::persistence::model::{
    FinishOutcome, RollupOutcome, TaskOutcome, TaskRecord, TaskResult,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::tasks::Finality;
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};
use crate::persistence::{Bug, StoreResult, planted};

/// Stores results.
#[derive(Debug)]
pub(crate) struct FinishTasks {
    pub(crate) results: Vec<TaskResult>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for FinishTasks {
    type Answer = Vec<FinishOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let mut load = Load::default();
        for result in &self.results {
            let lease = &result.lease;
            load.runs.push(lease.run_id);
            // One that is tried again keeps its heartbeat, which may be extended right now: its row
            // is locked too.
            let tasks = match result.outcome {
                TaskOutcome::Failed { .. } => &mut load.tasks,
                TaskOutcome::Completed { .. } | TaskOutcome::Cancelled { .. } => &mut load.leased,
            };
            tasks.push((lease.run_id, lease.task_id));
        }
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let outcomes = self
            .results
            .iter()
            .map(|result| work.finish_task(result))
            .collect();
        Ok((outcomes, work.finish()))
    }
}

impl Work {
    fn finish_task(&mut self, result: &TaskResult) -> FinishOutcome {
        let lease = &result.lease;
        let Some(task) = self
            .loaded
            .tasks
            .get(&(lease.run_id, lease.task_id))
            .cloned()
        else {
            return FinishOutcome::LeaseLost;
        };
        if !task.is_leased_as(lease) && !planted(Bug::UnfencedFinish) {
            return FinishOutcome::LeaseLost;
        }
        self.write_logs(lease.run_id, &result.step_logs);
        let activity_id = task.activity_id.clone();
        match &result.outcome {
            TaskOutcome::Completed { result } => {
                let event = WorkflowEvent::ActivityCompleted {
                    activity_id,
                    result: result.clone(),
                };
                self.end_as(&task, RollupOutcome::Completed, event)
            }
            TaskOutcome::Cancelled { reason } => {
                let event = WorkflowEvent::ActivityCancelled {
                    activity_id,
                    reason: reason.clone(),
                };
                self.end_as(&task, RollupOutcome::Cancelled, event)
            }
            TaskOutcome::Failed { failure } => {
                self.fail_attempt(task, Finality::Failed(failure.clone()), result.jitter)
            }
        }
    }

    fn end_as(
        &mut self,
        task: &TaskRecord,
        outcome: RollupOutcome,
        event: WorkflowEvent,
    ) -> FinishOutcome {
        self.count_activity(task, outcome);
        self.end_activity(task, event)
    }
}
