//! The workflow `durable.program`.

use everruns_durable::core::Failure;
use everruns_durable::core::strict::Strict;
use everruns_durable::prelude::{Payload, WorkflowContext, WorkflowError, WorkflowResult};
use everruns_durable::workflow::{Birth, Program, WorkflowDefinition, function_program};
use serde_json::json;
use serde_json::value::RawValue;

use crate::PROGRAM_TYPE;
use crate::expr::ExpressionError;
use crate::interpreter::{Interpreter, SetVar, Shared, raised, told};
use crate::mistake::Mistake;
use crate::steps;
use crate::value::Value;

/// The workflow `durable.program`: runs the program that is its input.
#[derive(Debug)]
pub struct ProgramWorkflow;

impl WorkflowDefinition for ProgramWorkflow {
    const TYPE: &'static str = PROGRAM_TYPE;
    type Input = Payload;
    /// The JSON text, with all its digits.
    type Output = Box<RawValue>;

    fn program(birth: Birth) -> Box<dyn Program> {
        function_program::<Self, _, _>(birth, run)
    }
}

async fn run(ctx: WorkflowContext, input: Payload) -> WorkflowResult<Box<RawValue>> {
    let program = steps::Program::read(&input).map_err(|mistake| invalid(&mistake))?;
    let shared = Shared::new(&ctx);
    set_up_handlers(&ctx, &shared);
    let result = Interpreter::new(ctx, &program, shared).run().await?;
    serde_json::value::to_raw_value(&result)
        .map_err(|error| WorkflowError::new(raised::EXPRESSION_ERROR, error.to_string()))
}

/// A run that was started without a look at its program.
fn invalid(mistake: &Mistake) -> WorkflowError {
    let (path, problem) = (told(mistake.path.clone()), told(mistake.problem.clone()));
    let details = json!({"path": path, "problem": problem});
    Failure::new(raised::INVALID_PROGRAM, told(mistake.to_string()))
        .non_retryable()
        .with_details(Payload::from_value(&details).unwrap_or_default())
        .into()
}

fn set_up_handlers(ctx: &WorkflowContext, shared: &Shared) {
    let vars = shared.vars.clone();
    ctx.on_query("vars", move |_: Value| vars.with(|vars| vars.all().clone()));
    let places = shared.places.clone();
    ctx.on_query("where", move |_: Value| {
        places.with(crate::interpreter::Whereabouts::show)
    });
    let (applied, checked) = (shared.clone(), shared.clone());
    ctx.on_update(SetVar::UPDATE, move |Strict(update): Strict<SetVar>| {
        // At once, and not when the future is polled: updates apply as they arrive.
        let answer = apply(&applied, &update);
        async move { answer }
    })
    .validate(move |update: &Strict<SetVar>| refuse(&checked, update));
}

/// Answers the variable's new value.
fn apply(shared: &Shared, update: &SetVar) -> WorkflowResult<Value> {
    let value = update.value.clone();
    let set = shared.vars.update(|vars| vars.set(&update.name, value));
    set.map_err(|error| not_set(&error))?;
    shared.updates.update(|updates| updates.applied(update));
    Ok(update.value.clone())
}

fn refuse(shared: &Shared, update: &SetVar) -> WorkflowResult<()> {
    shared.vars.with(|vars| {
        if !vars.contains(&update.name) {
            let known: Vec<&String> = vars.all().keys().collect();
            let message = format!(
                "there is no variable {:?}; there are {known:?}",
                update.name
            );
            return Err(WorkflowError::new("UnknownVariable", told(message)));
        }
        let admitted = vars.admits(&update.name, &update.value);
        admitted.map_err(|error| not_set(&error))
    })
}

fn not_set(error: &ExpressionError) -> WorkflowError {
    WorkflowError::new(raised::EXPRESSION_ERROR, told(error.to_string()))
}
