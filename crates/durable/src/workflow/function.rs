//! An `async fn` as a workflow's program.

use std::future::Future;

use durable_core::function::{Body, Ending, FunctionProgram};
use durable_core::{Payload, WorkflowError};
use tokio::task::unconstrained;

use super::{Birth, Program, WorkflowContext, WorkflowDefinition};

/// What a workflow answers. `?` on any error fails the run with it.
pub type WorkflowResult<T> = Result<T, WorkflowError>;

/// The program of a workflow that is written as an `async fn`: what `#[workflow]` makes of one.
pub fn function_program<W, F, Fut>(birth: Birth, body: F) -> Box<dyn Program>
where
    W: WorkflowDefinition,
    F: FnOnce(WorkflowContext, W::Input) -> Fut + Send + 'static,
    Fut: Future<Output = WorkflowResult<W::Output>> + Send + 'static,
{
    let body: Body = Box::new(|context, input| {
        let input = input.to_value()?;
        let future = body(WorkflowContext::new(context), input);
        // A turn is polled within a task whose budget others have used up: tokio's own futures would wait for more of it,
        // for which no fact ever comes.
        Ok(Box::pin(unconstrained(async move {
            match future.await {
                Ok(output) => {
                    Payload::from_value(&output).map_or_else(Ending::Unreadable, Ending::Completed)
                }
                Err(error) => Ending::Failed(error),
            }
        })))
    });
    Box::new(FunctionProgram::new(birth, body))
}
