//! Asking a run about its state.

use std::time::Duration;

use durable_core::{Payload, QueryError, error_types};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::start::Untyped;
use super::{Client, RunHandle};
use crate::engine::Reader;
use crate::error::Kind;
use crate::persistence::model::StartRun;
use crate::workflow::{Answer, Question, question_type};
use crate::{Error, Result};

/// How long an answer from another process is waited for.
const ASK_WITHIN: Duration = Duration::from_secs(10);

impl Client {
    /// Asks a run about its state by one of the queries that its code set up; changes nothing. Also answers for runs that have ended.
    ///
    /// The run is rebuilt from what is committed, so the answer never shows half a turn. Where this process does not host the
    /// workflow, one that does is asked, within 10 s: by a run of the built-in type `durable.query/…`, which stays in the store
    /// until retention takes it.
    ///
    /// # Errors
    /// [`Error::is_not_found`], [`Error::is_query_not_found`]; [`Error::is_no_worker_for_type`] where nobody hosts the workflow;
    /// [`Error::failure`] where the handler failed or panicked; [`Error::is_retryable`] where the process that was asked does not
    /// answer; the store's.
    pub async fn query<R: DeserializeOwned>(
        &self,
        run_id: Uuid,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<R> {
        let input = Payload::from_value(input)
            .map_err(|error| Error::payload(format!("the input of query {name}"), error))?;
        let answer = match self.reader().query(run_id, name, &input).await {
            Err(error) if error.is_no_worker_for_type() => {
                let question = Question {
                    run_id,
                    name: name.to_owned(),
                    input,
                };
                self.ask_elsewhere(question, error).await?
            }
            answered => answered?,
        };
        answer
            .to_value()
            .map_err(|error| Error::payload(format!("the answer of query {name}"), error))
    }

    /// Reads runs by the code that this process hosts.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader {
            store: &*self.shared.store,
            runtime: &self.shared.runtime,
            workflows: &self.shared.workflows,
            hub: &self.shared.hub,
        }
    }

    /// Asks a process that hosts the workflow; `nobody` is the answer if there is none.
    ///
    /// The question is a run of a type that is hosted by whoever hosts the type of the run that is asked. So it is claimed, carried
    /// on after a crash, and answered for runs that have ended, which take nothing into their inbox any more.
    async fn ask_elsewhere(&self, question: Question, nobody: Error) -> Result<Payload> {
        let run_id = question.run_id;
        let run = self.get(run_id).await?;
        if !self.is_hosted(&run).await? {
            return Err(nobody);
        }
        let input = Payload::from_value(&question)
            .map_err(|error| Error::payload(format!("query {}", question.name), error))?;
        let new_id = self.shared.runtime.new_id();
        let mut start = StartRun::new(new_id, question_type(&run.workflow_type), input);
        start.version = run.version;
        start.execution_timeout = Some(ASK_WITHIN);
        let asked: RunHandle<Untyped> = self.start_run(start).await?;
        let unanswered = || {
            let within = ASK_WITHIN;
            Error::from(Kind::Unanswered { run_id, within })
        };
        let answer = tokio::select! {
            biased;
            answered = asked.result() => answered.map_err(|error| match error.failure() {
                Some(failure) if failure.is(error_types::EXECUTION_TIMEOUT) => unanswered(),
                _ => error,
            })?,
            () = self.shared.runtime.sleep(ASK_WITHIN) => return Err(unanswered()),
        };
        let answer = answer
            .to_value()
            .map_err(|error| Error::payload("the answer of another process", error))?;
        let name = question.name;
        let source = match answer {
            Answer::Answered(answer) => return Ok(answer),
            Answer::NoSuchQuery { known } => QueryError::NotFound { name, known },
            Answer::Failed(failure) => QueryError::Failed { name, failure },
            Answer::Unreadable(reason) => return Err(Kind::Unreadable { run_id, reason }.into()),
        };
        Err(Kind::Query { run_id, source }.into())
    }
}

impl<W> RunHandle<W> {
    /// Asks the run about its state; see [`Client::query`].
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn query<R: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<R> {
        self.client.query(self.id(), name, input).await
    }
}
