//! Finds out what a run waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use durable_core::{CircuitState, HistoryState, Timestamp, WorkflowEvent, effective_history};
use uuid::Uuid;

use super::why::{ActivityWait, Wait, Why};
use crate::client::Client;
use crate::error::Kind;
use crate::persistence::StoreError;
use crate::persistence::history_without_payloads;
use crate::persistence::limits::{BATCH_ITEMS_MAX, PAGE_ROWS_MAX};
use crate::persistence::model::{
    History, Page, RunRecord, TaskFilter, TaskRecord, TaskStatus, WorkerFilter, WorkerInfo,
    WorkerStatus,
};
use crate::{Error, Result};

/// From so long without a sign of life on, a worker counts as gone.
const WORKER_STALE_AFTER: Duration = Duration::from_secs(60);

impl Client {
    /// What exactly a run waits for, now.
    ///
    /// Activities, timers, children and updates are read from the store. The signals and conditions that the code waits for are known
    /// only where the workflow is hosted: elsewhere [`Wait::Unknown`] stands for them, whatever else the run waits for.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn why(&self, run_id: Uuid) -> Result<Why> {
        let run = self.get(run_id).await?;
        let mut why = Why {
            run_id,
            status: run.status,
            code: None,
            waits: Vec::new(),
        };
        if run.status.is_terminal() {
            why.waits.push(Wait::Ended { status: run.status });
            return Ok(why);
        }
        let aside = self.set_aside().into_iter();
        let aside = aside.filter(|aside| aside.run_id == run_id);
        why.waits.extend(aside.map(Wait::SetAside));
        let workers = self.live_workers().await?;
        if let Some(blocked) = run.blocked.clone() {
            let (build, reason) = (blocked.build, blocked.reason);
            why.waits.push(Wait::Blocked { build, reason });
        } else if let Some(since) = run.ready_at {
            why.waits.push(self.turn(&run, since, &workers));
        }
        let history = history_without_payloads(&**self.store(), run_id, run.history_start).await?;
        let history = history.ok_or(Kind::NotFound(run_id))?;
        why.waits.extend(self.activities(run_id, &workers).await?);
        why.waits.extend(self.recorded(history).await?);
        // Without a first turn there is no code to ask.
        if run.sequence > run.history_start {
            self.ask_the_code(&run, &mut why).await?;
        }
        Ok(why)
    }

    fn turn(&self, run: &RunRecord, since: Timestamp, workers: &[WorkerInfo]) -> Wait {
        let hosted = self.hosts(run)
            || workers
                .iter()
                .any(|worker| Self::says_it_hosts(worker, run));
        let owner = run.owner.as_ref().map(|owner| owner.worker_id.clone());
        Wait::Turn {
            since,
            owner,
            hosted,
        }
    }

    async fn live_workers(&self) -> Result<Vec<WorkerInfo>> {
        let now = self.store().clock(None).await?;
        let filter = WorkerFilter {
            status: Some(WorkerStatus::Active),
            heartbeat_since: now.checked_sub(WORKER_STALE_AFTER).ok(),
            ..WorkerFilter::default()
        };
        Ok(self.store().list_workers(filter).await?)
    }

    /// The run's tasks, those first that may be on their way.
    async fn activities(&self, run_id: Uuid, workers: &[WorkerInfo]) -> Result<Vec<Wait>> {
        let filter = TaskFilter {
            run_id: Some(run_id),
            ..TaskFilter::default()
        };
        let page = Page {
            limit: PAGE_ROWS_MAX,
            offset: 0,
        };
        let mut tasks = self.store().list_tasks(filter, page).await?;
        tasks.sort_by_key(|task| (task.status == TaskStatus::InLine, task.line));
        let types: BTreeSet<&str> = workers
            .iter()
            .flat_map(|worker| worker.activity_types.iter().map(String::as_str))
            .collect();
        let mut waits = Vec::new();
        let mut before: Option<String> = None;
        for task in tasks {
            let breaker = self.breaker_before(&task).await?;
            let sequential = task.options.sequential;
            let behind = before.clone().filter(|_| task.status == TaskStatus::InLine);
            let hosted = types.contains(task.activity_type.as_str());
            if sequential {
                before = Some(task.activity_id.clone());
            }
            let wait = activity(task, behind, breaker, hosted);
            waits.push(Wait::Activity(Box::new(wait)));
        }
        Ok(waits)
    }

    /// The breaker of a task, unless it lets everything through.
    async fn breaker_before(&self, task: &TaskRecord) -> Result<Option<(String, CircuitState)>> {
        let Some(config) = &task.options.circuit_breaker else {
            return Ok(None);
        };
        let key = config.key_for(&task.activity_type);
        let breaker = self.store().get_breaker(&key).await?;
        let state = breaker.map(|breaker| breaker.state);
        Ok(state
            .filter(|state| *state != CircuitState::Closed)
            .map(|state| (key, state)))
    }

    /// What history has begun and not ended.
    async fn recorded(&self, history: History) -> Result<Vec<Wait>> {
        let mut fires_at = BTreeMap::new();
        for event in &history.events {
            if let WorkflowEvent::TimerStarted {
                timer_id,
                duration_ms,
            } = &event.event
            {
                let after = event
                    .created_at
                    .checked_add(Duration::from_millis(*duration_ms));
                fires_at.insert(timer_id.clone(), after.ok());
            }
        }
        let state = state_of(history)?;
        let timers = state.pending_timers().map(|timer_id| Wait::Timer {
            timer_id: timer_id.to_owned(),
            fires_at: fires_at.get(timer_id).copied().flatten(),
        });
        let updates = state.open_updates().map(|update_id| Wait::Update {
            update_id: update_id.to_owned(),
        });
        let people = state.open_human_tasks().map(|task_id| Wait::HumanTask {
            task_id: task_id.to_owned(),
        });
        let mut waits: Vec<Wait> = timers.chain(updates).chain(people).collect();
        let children: Vec<(&str, Uuid)> = state.pending_children().collect();
        for some in children.chunks(BATCH_ITEMS_MAX) {
            let ids: Vec<Uuid> = some.iter().map(|(_, child)| *child).collect();
            let marks = self.store().run_marks(&ids).await?;
            // The parent's history names the child before the message that creates it is delivered.
            waits.extend(
                some.iter()
                    .zip(marks)
                    .map(|((child_id, child), mark)| Wait::Child {
                        child_id: (*child_id).to_owned(),
                        run_id: *child,
                        status: mark.map(|mark| mark.status),
                    }),
            );
        }
        Ok(waits)
    }

    /// Which signals and conditions the code waits for, and where.
    async fn ask_the_code(&self, run: &RunRecord, why: &mut Why) -> Result<()> {
        let workflow_type = &run.workflow_type;
        let reason = match self.reader().rebuilt(run.id).await {
            Ok(program) => {
                let program = program.program();
                why.code = program.locate(None);
                let names = program.awaited_signals().into_iter();
                why.waits.extend(names.map(|name| Wait::Signal { name }));
                let conditions = program.awaited_conditions().into_iter();
                why.waits
                    .extend(conditions.map(|what| Wait::Condition { what }));
                if !why.waits.is_empty() {
                    return Ok(());
                }
                format!("the code of workflow {workflow_type:?} does not say what it waits for")
            }
            // Its turn is awaited, which is said already.
            Err(error) if error.is_not_begun() => return Ok(()),
            Err(error) if error.is_no_worker_for_type() => {
                format!("workflow {workflow_type:?} is not hosted here")
            }
            // A history that cannot be replayed here, or is too large to be read for this.
            Err(error) if error.is_unreadable() || error.is_invalid() => error.to_string(),
            Err(error) => return Err(error),
        };
        why.waits.push(Wait::Unknown { reason });
        Ok(())
    }
}

fn state_of(history: History) -> Result<HistoryState> {
    let (run_id, start) = (history.run.id, history.run.history_start);
    let corrupt = |error: durable_core::HistoryError| {
        Error::from(StoreError::Corrupt {
            message: format!("the history of run {run_id}: {error}"),
            source: None,
        })
    };
    let log = history
        .events
        .into_iter()
        .map(|event| (event.sequence_num, event.event));
    let effective = effective_history(log).map_err(corrupt)?;
    let mut state = HistoryState::after(start);
    for (sequence_num, event) in &effective.events {
        state.accept(*sequence_num, event).map_err(corrupt)?;
    }
    Ok(state)
}

fn activity(
    task: TaskRecord,
    behind: Option<String>,
    breaker: Option<(String, CircuitState)>,
    hosted: bool,
) -> ActivityWait {
    let begun = matches!(task.status, TaskStatus::Claimed | TaskStatus::Dead);
    ActivityWait {
        next_at: task.timeout_at(),
        task_id: task.id,
        status: task.status,
        attempt: if begun {
            task.attempt
        } else {
            task.attempt + 1
        },
        max_attempts: task.options.retry_policy.max_attempts,
        since: task.claimed_at.unwrap_or(task.scheduled_at),
        claimed_by: task.claimed_by,
        last_error: task.attempts.last().map(|last| last.failure.clone()),
        activity_id: task.activity_id,
        activity_type: task.activity_type,
        behind,
        breaker,
        hosted,
    }
}
