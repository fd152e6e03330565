//! S0's operations by their names, for every store: thin wrappers over the set-based intents.
//!
//! Where S0 would let a zombie overwrite a newer attempt, the wrapper takes the lease instead of the task's id.

use std::time::Duration;

use async_trait::async_trait;
use durable_core::{
    ActivityOptions, Failure, Payload, Timestamp, TraceContext, WorkflowError, WorkflowEvent,
    WorkflowSignal,
};
use uuid::Uuid;

use super::model::{
    ClaimTasks, ClaimedTask, DeadLetterDecision, DecisionOutcome, FinishOutcome, LeaseExtension,
    LeaseState, NewSignal, NewTask, Next, ReapLeases, Rejection, SendOutcome, SendRejection,
    SendSignal, StartOutcome, StartRun, TaskFilter, TaskLease, TaskOutcome, TaskRecord,
    TaskRelease, TaskResult, TaskStatus, TurnCommit, TurnOutcome, WorkflowStatus,
};
use super::model::{Page, after};
use super::whole_history;
use super::{StoreError, StoreResult, WorkflowEventStore};

/// A task to enqueue.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDefinition {
    /// The run.
    pub workflow_id: Uuid,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: Payload,
    /// How to run it.
    pub options: ActivityOptions,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatResponse {
    /// Whether the task is still the worker's.
    pub accepted: bool,
    /// Whether the activity should stop.
    pub should_cancel: bool,
}

/// What follows a failed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskFailureOutcome {
    /// It will be tried again.
    WillRetry {
        /// From when on.
        visible_at: Timestamp,
    },
    /// It is a dead letter.
    MovedToDlq,
}

/// S0's operations, single items.
#[async_trait]
pub trait SeedOperations: WorkflowEventStore {
    /// Creates a workflow instance.
    async fn create_workflow(
        &self,
        workflow_id: Uuid,
        workflow_type: &str,
        input: Payload,
        trace_context: Option<&TraceContext>,
    ) -> StoreResult<()> {
        let mut start = StartRun::new(workflow_id, workflow_type, input);
        start.trace = trace_context.cloned();
        match single(self.start_runs(vec![start], None).await?) {
            StartOutcome::Started { .. } | StartOutcome::Existing { .. } => Ok(()),
            StartOutcome::Rejected(why) => Err(StoreError::Conflict(why.to_string())),
        }
    }

    /// Appends events if the run's last event is the expected one; answers the new last sequence number.
    /// A terminal event ends the run.
    async fn append_events(
        &self,
        workflow_id: Uuid,
        expected_sequence: i64,
        events: Vec<WorkflowEvent>,
    ) -> StoreResult<i64> {
        let mut turn = self.next_turn(workflow_id).await?;
        turn.expected_sequence = expected_sequence;
        turn.next = match events.last() {
            Some(WorkflowEvent::WorkflowCompleted { result }) => Next::Complete {
                result: result.clone(),
            },
            Some(WorkflowEvent::WorkflowFailed { error }) => Next::Fail {
                error: error.clone().into_failure(),
            },
            Some(WorkflowEvent::WorkflowCancelled { reason }) => Next::Cancel {
                reason: reason.clone(),
            },
            _ => Next::Wait,
        };
        turn.events = events;
        self.commit_turn(turn).await
    }

    /// Loads all events of a workflow.
    async fn load_events(&self, workflow_id: Uuid) -> StoreResult<Vec<(i64, WorkflowEvent)>> {
        let history = whole_history(self, workflow_id, 0)
            .await?
            .ok_or_else(|| no_run(workflow_id))?;
        Ok(history
            .events
            .into_iter()
            .map(|e| (e.sequence_num, e.event))
            .collect())
    }

    /// Ends a run with the given status, result and error; the matching event is appended.
    async fn update_workflow_status(
        &self,
        workflow_id: Uuid,
        status: WorkflowStatus,
        result: Option<Payload>,
        error: Option<WorkflowError>,
    ) -> StoreResult<()> {
        let event = match status {
            WorkflowStatus::Completed => WorkflowEvent::WorkflowCompleted {
                result: result.unwrap_or_default(),
            },
            WorkflowStatus::Failed => WorkflowEvent::WorkflowFailed {
                error: error.unwrap_or_else(|| WorkflowError::new("Error", "no error was given")),
            },
            WorkflowStatus::Cancelled => WorkflowEvent::WorkflowCancelled {
                reason: error.map_or_else(String::new, |e| e.message.clone()),
            },
            WorkflowStatus::Pending | WorkflowStatus::Running => {
                return Err(StoreError::Invalid(format!(
                    "a run becomes {status} by its turns; only a final status can be set"
                )));
            }
        };
        let sequence = self.next_turn(workflow_id).await?.expected_sequence;
        self.append_events(workflow_id, sequence, vec![event])
            .await
            .map(drop)
    }

    /// Enqueues an activity task and records it; answers the task's id.
    async fn enqueue_task(&self, task: TaskDefinition) -> StoreResult<Uuid> {
        let mut turn = self.next_turn(task.workflow_id).await?;
        let task_id = Uuid::now_v7();
        turn.events.push(WorkflowEvent::ActivityScheduled {
            activity_id: task.activity_id.clone(),
            activity_type: task.activity_type.clone(),
            input: task.input.clone(),
            options: Box::new(task.options.clone()),
        });
        turn.tasks.push(NewTask {
            task_id,
            activity_id: task.activity_id,
            activity_type: task.activity_type,
            input: task.input,
            options: task.options,
            delay: None,
            lease: false,
            trace: None,
        });
        self.commit_turn(turn).await.map(|_| task_id)
    }

    /// Claims tasks with the default lease of 15 seconds.
    async fn claim_task(
        &self,
        worker_id: &str,
        activity_types: &[String],
        max_tasks: usize,
    ) -> StoreResult<Vec<ClaimedTask>> {
        self.claim_tasks(ClaimTasks {
            worker_id: worker_id.to_owned(),
            activity_types: activity_types.to_vec(),
            max: max_tasks,
            lease: LEASE,
            token: Uuid::now_v7(),
            first_shard: 0,
            now: None,
        })
        .await
    }

    /// Records a task's heartbeat.
    async fn heartbeat_task(
        &self,
        lease: &TaskLease,
        details: Option<Payload>,
    ) -> StoreResult<HeartbeatResponse> {
        let details = details.unwrap_or_else(Payload::null);
        let states = self.batch_heartbeat(vec![(lease.clone(), details)]).await?;
        Ok(single(states))
    }

    /// Records heartbeats of many tasks.
    async fn batch_heartbeat(
        &self,
        beats: Vec<(TaskLease, Payload)>,
    ) -> StoreResult<Vec<HeartbeatResponse>> {
        let extensions = beats
            .into_iter()
            .map(|(lease, details)| LeaseExtension {
                lease,
                extend: LEASE,
                heartbeat: Some(details),
            })
            .collect();
        let states = self.extend_leases(extensions, None).await?;
        Ok(states
            .into_iter()
            .map(|state| HeartbeatResponse {
                accepted: matches!(state, LeaseState::Extended { .. }),
                should_cancel: state == LeaseState::Lost,
            })
            .collect())
    }

    /// Completes a task.
    async fn complete_task(&self, lease: &TaskLease, result: Payload) -> StoreResult<()> {
        self.finish_task(lease, TaskOutcome::Completed { result })
            .await
            .map(drop)
    }

    /// Fails a task: it is tried again, or becomes a dead letter.
    async fn fail_task(
        &self,
        lease: &TaskLease,
        failure: Failure,
    ) -> StoreResult<TaskFailureOutcome> {
        match self
            .finish_task(lease, TaskOutcome::Failed { failure })
            .await?
        {
            FinishOutcome::Retrying { visible_at } => {
                Ok(TaskFailureOutcome::WillRetry { visible_at })
            }
            _ => Ok(TaskFailureOutcome::MovedToDlq),
        }
    }

    /// Fails a task for good.
    async fn move_to_dlq(&self, lease: &TaskLease, failure: Failure) -> StoreResult<()> {
        let failure = failure.non_retryable();
        self.finish_task(lease, TaskOutcome::Failed { failure })
            .await
            .map(drop)
    }

    /// Gives a task back unrun.
    async fn release_task(&self, lease: &TaskLease) -> StoreResult<()> {
        if single(
            self.release_tasks(vec![TaskRelease::now(lease.clone())], None)
                .await?,
        ) {
            Ok(())
        } else {
            Err(StoreError::LeaseLost(lease.task_id))
        }
    }

    /// Takes back tasks whose lease ran out; answers their ids.
    async fn reclaim_stale_tasks(&self) -> StoreResult<Vec<Uuid>> {
        let reap = ReapLeases {
            max: 1000,
            first_shard: 0,
            now: None,
        };
        Ok(self
            .reap_leases(reap)
            .await?
            .into_iter()
            .map(|task| task.task_id)
            .collect())
    }

    /// Sends a signal.
    async fn send_signal(&self, workflow_id: Uuid, signal: WorkflowSignal) -> StoreResult<()> {
        let send = SendSignal {
            run_id: workflow_id,
            signal: NewSignal {
                signal_id: signal.signal_id.unwrap_or_else(Uuid::now_v7),
                signal_type: signal.signal_type,
                payload: signal.payload,
            },
        };
        match single(self.send_signals(vec![send], None).await?) {
            SendOutcome::Accepted { .. } | SendOutcome::Duplicate { .. } => Ok(()),
            SendOutcome::Rejected(SendRejection::NotFound) => Err(no_run(workflow_id)),
            SendOutcome::Rejected(SendRejection::RunFinished { status }) => {
                Err(StoreError::RunFinished {
                    run_id: workflow_id,
                    status,
                })
            }
            SendOutcome::Rejected(why) => Err(StoreError::Conflict(why.to_string())),
        }
    }

    /// Signals that wait for a workflow, by arrival.
    async fn get_pending_signals(&self, workflow_id: Uuid) -> StoreResult<Vec<WorkflowSignal>> {
        let turn =
            single(self.load_turns(&[workflow_id]).await?).ok_or_else(|| no_run(workflow_id))?;
        Ok(turn
            .facts
            .into_iter()
            .filter_map(|fact| match fact.event {
                WorkflowEvent::SignalReceived { signal, .. } => Some(signal),
                _ => None,
            })
            .collect())
    }

    /// Puts a dead letter's task back into the queue; answers the task's id.
    async fn requeue_from_dlq(&self, workflow_id: Uuid, dlq_id: Uuid) -> StoreResult<Uuid> {
        let outcome = self
            .decide_dead_letter(workflow_id, dlq_id, DeadLetterDecision::Requeue, None)
            .await?;
        match outcome {
            DecisionOutcome::Done => Ok(dlq_id),
            DecisionOutcome::NotFound => Err(StoreError::NotFound {
                what: "dead letter",
                id: dlq_id.to_string(),
            }),
            other => Err(StoreError::Conflict(format!(
                "dead letter {dlq_id} cannot be put back: {other:?}"
            ))),
        }
    }

    /// Tasks that may be claimed now.
    async fn count_pending_tasks(&self) -> StoreResult<u64> {
        let counts = self.counts().await?;
        Ok(counts
            .tasks
            .values()
            .filter_map(|by| by.get(&TaskStatus::Pending))
            .sum())
    }

    /// Tasks that could have been claimed for longer than `threshold`, longest first.
    async fn find_stale_pending_tasks(
        &self,
        threshold: Duration,
        now: Timestamp,
    ) -> StoreResult<Vec<TaskRecord>> {
        let filter = TaskFilter {
            status: Some(TaskStatus::Pending),
            ..TaskFilter::default()
        };
        let mut tasks = self
            .list_tasks(
                filter,
                Page {
                    limit: 1000,
                    offset: 0,
                },
            )
            .await?;
        tasks.retain(|task| after(task.visible_at, threshold) <= now);
        tasks.sort_by_key(|task| (task.visible_at, task.id));
        Ok(tasks)
    }

    /// Leased tasks of which a clock has run out.
    async fn find_overtime_tasks(&self, now: Timestamp) -> StoreResult<Vec<TaskRecord>> {
        let filter = TaskFilter {
            status: Some(TaskStatus::Claimed),
            ..TaskFilter::default()
        };
        let mut tasks = self
            .list_tasks(
                filter,
                Page {
                    limit: 1000,
                    offset: 0,
                },
            )
            .await?;
        tasks.retain(|task| task.timeout_at().is_some_and(|at| at <= now));
        Ok(tasks)
    }

    /// A turn on the run as it is now.
    #[doc(hidden)]
    async fn next_turn(&self, run_id: Uuid) -> StoreResult<TurnCommit> {
        let run = self.get_run(run_id).await?.ok_or_else(|| no_run(run_id))?;
        let mut turn = TurnCommit::new(&run, Uuid::now_v7());
        turn.facts_through = run.arrivals;
        Ok(turn)
    }

    /// Commits one turn; a refusal is an error.
    #[doc(hidden)]
    async fn commit_turn(&self, turn: TurnCommit) -> StoreResult<i64> {
        let run_id = turn.run_id;
        match single(self.commit_turns(vec![turn], None).await?) {
            TurnOutcome::Committed(committed) => Ok(committed.sequence),
            TurnOutcome::Rejected(Rejection::NotFound) => Err(no_run(run_id)),
            TurnOutcome::Rejected(Rejection::RunFinished { status }) => {
                Err(StoreError::RunFinished { run_id, status })
            }
            TurnOutcome::Rejected(why) => Err(StoreError::Conflict(why.to_string())),
        }
    }

    /// Stores one result; a lost lease is an error.
    #[doc(hidden)]
    async fn finish_task(
        &self,
        lease: &TaskLease,
        outcome: TaskOutcome,
    ) -> StoreResult<FinishOutcome> {
        let result = TaskResult {
            lease: lease.clone(),
            outcome,
            jitter: 0.5,
            step_logs: Vec::new(),
        };
        match single(self.finish_tasks(vec![result], None).await?) {
            FinishOutcome::LeaseLost => Err(StoreError::LeaseLost(lease.task_id)),
            outcome => Ok(outcome),
        }
    }
}

impl<S: WorkflowEventStore + ?Sized> SeedOperations for S {}

/// The library's own lease on a task.
const LEASE: Duration = Duration::from_secs(15);

fn single<T>(mut answers: Vec<T>) -> T {
    debug_assert_eq!(answers.len(), 1, "one answer for one item");
    answers.remove(0)
}

fn no_run(run_id: Uuid) -> StoreError {
    StoreError::NotFound {
        what: "run",
        id: run_id.to_string(),
    }
}
