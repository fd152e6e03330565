//! The built-in workflow that runs one activity.

use std::marker::PhantomData;

use durable_core::{ActivityOptions, Payload};
use serde::{Deserialize, Serialize};

use super::{Birth, Program, WorkflowContext, WorkflowDefinition, function_program};
use crate::activity::Activity;

/// Name of the type; SQL's `durable_enqueue` writes it too.
const TYPE: &str = "durable.activity";

/// The built-in workflow `durable.activity`: runs one activity and answers what that answers. Every engine hosts it.
#[derive(Debug)]
pub struct ActivityRun<A>(PhantomData<fn() -> A>);

/// Which activity, with what, and how: the input of an [`ActivityRun`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityRequest<I> {
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: I,
    /// How it is run; none: by the library's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ActivityOptions>,
}

impl<I> ActivityRequest<I> {
    /// A call of an activity, by its own options.
    pub fn of<A: Activity<Input = I>>(input: I) -> Self {
        let options = A::options();
        Self {
            activity_type: A::TYPE.to_owned(),
            input,
            // What is the default anyway is not written: then it is the same request that SQL makes.
            options: (options != ActivityOptions::default()).then_some(options),
        }
    }
}

impl ActivityRequest<Payload> {
    /// Name of the workflow whose input it is.
    pub const WORKFLOW_TYPE: &'static str = TYPE;
}

impl From<ActivityRequest<Self>> for Payload {
    fn from(request: ActivityRequest<Self>) -> Self {
        Self::from_value(&request).expect("a name, a payload and options have a JSON form")
    }
}

impl<A: Activity> WorkflowDefinition for ActivityRun<A> {
    const TYPE: &'static str = TYPE;
    type Input = ActivityRequest<A::Input>;
    type Output = A::Output;

    fn program(birth: Birth) -> Box<dyn Program> {
        AnyActivityRun::program(birth)
    }
}

/// What engines host: payloads pass through as they are, whatever the activity.
pub(super) struct AnyActivityRun;

impl WorkflowDefinition for AnyActivityRun {
    const TYPE: &'static str = TYPE;
    type Input = ActivityRequest<Payload>;
    type Output = Payload;

    fn program(birth: Birth) -> Box<dyn Program> {
        function_program::<Self, _, _>(birth, run)
    }
}

async fn run(
    ctx: WorkflowContext,
    request: ActivityRequest<Payload>,
) -> super::WorkflowResult<Payload> {
    ctx.activity_named(request.activity_type, request.input)
        .options(request.options.unwrap_or_default())
        .await
}
