//! The built-in workflow that asks a run a question where its code is.

use durable_core::{Failure, Payload};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Birth, LocalActivityCall, Program, WorkflowContext, WorkflowDefinition, WorkflowResult,
    function_program,
};

/// How the types of questions begin; the type of the run that is asked follows.
const PREFIX: &str = "durable.query/";

/// The local activity that answers. The engine has it built in: it needs the store.
pub(crate) const ANSWER: &str = "durable.answer";

/// The workflow type of questions to runs of a type. Hosted by whoever hosts that type, so that claims find the way.
pub(crate) fn question_type(workflow_type: &str) -> String {
    format!("{PREFIX}{workflow_type}")
}

/// The type of the run that is asked, if this is the type of a question.
pub(super) fn asked_type(workflow_type: &str) -> Option<&str> {
    workflow_type.strip_prefix(PREFIX)
}

/// A query, on its way to a process that hosts the run's workflow.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Who is asked.
    pub(crate) run_id: Uuid,
    /// By which query.
    pub(crate) name: String,
    /// Its input.
    pub(crate) input: Payload,
}

/// What became of a question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// What the query's handler said.
    Answered(Payload),
    /// There is no such query; these are there.
    NoSuchQuery { known: Vec<String> },
    /// The handler failed.
    Failed(Failure),
    /// The run could not be asked.
    Unreadable(String),
}

/// What engines host for every workflow of theirs.
pub(super) struct QuestionRun;

impl WorkflowDefinition for QuestionRun {
    const TYPE: &'static str = PREFIX;
    type Input = Question;
    type Output = Answer;

    fn program(birth: Birth) -> Box<dyn Program> {
        function_program::<Self, _, _>(birth, run)
    }
}

async fn run(ctx: WorkflowContext, question: Question) -> WorkflowResult<Answer> {
    let ticket = ctx.core.ticket(std::panic::Location::caller());
    let question = Payload::from_value(&question);
    LocalActivityCall::new(ticket, ANSWER.to_owned(), question).await
}
