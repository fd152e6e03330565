//! Questions to runs: answered from what is committed, wherever the run's code is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use durable_core::{Failure, NumberedEvent, Payload, ProgramState, QueryError, error_types};
use uuid::Uuid;

use super::elsewhere::query_elsewhere;
use super::hub::Hub;
use super::load::{birth, rebuild};
use super::turner::panic_text;
use crate::Result;
use crate::error::Kind;
use crate::hosting::HostError;
use crate::persistence::WorkflowEventStore;
use crate::persistence::model::RunRecord;
use crate::persistence::whole_history;
use crate::runtime::Runtime;
use crate::workflow::{Answer, Question, WorkflowRegistry};

/// How often a run that has not begun is looked at again, and the wait in between.
const LOOKS_MAX: u32 = 8;
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// Hosts that are asked in turn, where each goes away before it answers.
const HOSTS_ASKED_MAX: u32 = 3;

/// Reads runs by their code.
pub(crate) struct Reader<'a> {
    pub(crate) store: &'a dyn WorkflowEventStore,
    pub(crate) runtime: &'a Runtime,
    pub(crate) workflows: &'a WorkflowRegistry,
    pub(crate) hub: &'a Hub,
}

impl Reader<'_> {
    /// Asks a run, rebuilt for that: nothing of it is changed, and half a turn is never seen.
    ///
    /// # Errors
    /// `NotFound`, `NoWorkerForType` where it is not hosted here, `Unreadable`, `NotBegun`, `Query`; the store's.
    pub(crate) async fn query(&self, run_id: Uuid, name: &str, input: &Payload) -> Result<Payload> {
        let (run, events) = self.read(run_id).await?;
        let (workflow_type, version) = (&run.workflow_type, &run.version);
        if self
            .workflows
            .elsewhere_for(workflow_type, version)
            .is_some()
        {
            return self.query_elsewhere(&run, events, name, input).await;
        }
        let program = self.program(&run, events)?;
        let asked = catch_unwind(AssertUnwindSafe(|| program.program().query(name, input)));
        let answer = asked.unwrap_or_else(|panic| {
            let message = format!("the query panicked: {}", panic_text(&*panic));
            Err(QueryError::Failed {
                name: name.to_owned(),
                failure: Failure::new(error_types::GENERIC, message).non_retryable(),
            })
        });
        answer.map_err(|source| Kind::Query { run_id, source }.into())
    }

    /// Asks a host that is attached here; another one where the first goes away meanwhile.
    async fn query_elsewhere(
        &self,
        run: &RunRecord,
        events: Vec<NumberedEvent>,
        name: &str,
        input: &Payload,
    ) -> Result<Payload> {
        let run_id = run.id;
        let mut reason = "no worker hosts it any more".to_owned();
        for _ in 0..HOSTS_ASKED_MAX {
            let hosts = self.workflows;
            let Some(host) = hosts.elsewhere_for(&run.workflow_type, &run.version) else {
                break;
            };
            let info = birth(run, self.runtime).info;
            let asked = query_elsewhere(&host, info, events.clone(), name, input.clone());
            match asked.await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => {
                    let name = name.to_owned();
                    let source = QueryError::Failed { name, failure };
                    return Err(Kind::Query { run_id, source }.into());
                }
                Err(HostError::Broken(why)) => {
                    return Err(Kind::Unreadable {
                        run_id,
                        reason: why,
                    }
                    .into());
                }
                Err(gone) => reason = gone.to_string(),
            }
        }
        Err(Kind::Unreadable { run_id, reason }.into())
    }

    /// The run's program as its committed history leaves it, where its code is here.
    pub(crate) async fn rebuilt(&self, run_id: Uuid) -> Result<ProgramState> {
        let (run, events) = self.read(run_id).await?;
        self.program(&run, events)
    }

    fn program(&self, run: &RunRecord, events: Vec<NumberedEvent>) -> Result<ProgramState> {
        let run_id = run.id;
        match rebuild(self.workflows, self.runtime, run, events) {
            Ok((program, _)) => Ok(program),
            Err(reason) => Err(Kind::Unreadable { run_id, reason }.into()),
        }
    }

    /// The run and what is committed of its current iteration.
    async fn read(&self, run_id: Uuid) -> Result<(RunRecord, Vec<NumberedEvent>)> {
        for _ in 0..LOOKS_MAX {
            let run = self.store.get_run(run_id).await?;
            let after = run.ok_or(Kind::NotFound(run_id))?.history_start;
            let history = whole_history(self.store, run_id, after).await?;
            let history = history.ok_or(Kind::NotFound(run_id))?;
            let run = history.run;
            if !self.workflows.hosts(&run.workflow_type, &run.version) {
                let workflow_type = run.workflow_type;
                return Err(Kind::NoWorkerForType {
                    run_id,
                    workflow_type,
                }
                .into());
            }
            if run.history_start != after || run.sequence == after {
                // It went on as new in between, or waits for its first turn: perhaps here, for a slot.
                self.hub.desk.hurry(run_id);
                self.runtime.sleep(LOOK_AGAIN).await;
                continue;
            }
            let events = history
                .events
                .into_iter()
                .filter(|event| event.sequence_num <= run.sequence)
                .map(|event| (event.sequence_num, event.event))
                .collect();
            return Ok((run, events));
        }
        Err(Kind::NotBegun { run_id }.into())
    }

    /// Answers a question that came from a process which does not host the run's workflow.
    pub(crate) async fn answer(&self, question: &Payload) -> Result<Payload, Failure> {
        let question: Question = question.to_value().map_err(|error| {
            Failure::new(error_types::INVALID_INPUT, error.to_string()).non_retryable()
        })?;
        let Question {
            run_id,
            name,
            input,
        } = &question;
        let answer = match self.query(*run_id, name, input).await {
            Ok(answer) => Answer::Answered(answer),
            Err(error) => match error.into_kind() {
                Kind::Query {
                    source: QueryError::NotFound { known, .. },
                    ..
                } => Answer::NoSuchQuery { known },
                Kind::Query {
                    source: QueryError::Failed { failure, .. },
                    ..
                } => Answer::Failed(failure),
                Kind::Unreadable { reason, .. } => Answer::Unreadable(reason),
                other => Answer::Unreadable(other.to_string()),
            },
        };
        Payload::from_value(&answer).map_err(|error| {
            Failure::new(error_types::INVALID_OUTPUT, error.to_string()).non_retryable()
        })
    }
}
