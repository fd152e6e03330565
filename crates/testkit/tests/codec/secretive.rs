//! A workflow that has a payload wherever a trait workflow can have one.

use std::time::Duration;

use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::LogLevel;
use everruns_durable::prelude::*;
use serde_json::{Value, json};

use crate::{canary, payload};

/// Runs an activity that fails once, has one fail for good, starts a child, answers updates, takes a signal, asks a person,
/// goes on as new, and completes.
pub(crate) struct Secretive {
    second: bool,
    is_child: bool,
    seen: Vec<Value>,
}

/// What must have been seen before the first iteration ends: two activities, a child, a signal, two updates.
const NEWS: usize = 6;

impl Secretive {
    fn note(&mut self, what: Value) -> Vec<WorkflowAction> {
        self.seen.push(what);
        if self.seen.len() < NEWS {
            return vec![];
        }
        let input = json!({ "second": true, "secret": canary("continued") });
        vec![WorkflowAction::ContinueAsNew {
            input: Payload::from_value(&input).expect("it is JSON"),
        }]
    }
}

fn activity(name: &str) -> WorkflowAction {
    let retry_policy = RetryPolicy {
        initial_interval: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    WorkflowAction::ScheduleActivity {
        activity_id: name.to_owned(),
        activity_type: name.to_owned(),
        input: payload(name),
        options: ActivityOptions {
            retry_policy,
            sequential: false,
            ..ActivityOptions::default()
        },
    }
}

/// A failure with details, as has its cause.
fn failure() -> durable_core::Failure {
    let cause = durable_core::Failure::new("Cause", "no secret").with_details(payload("cause"));
    durable_core::Failure::new("Boom", "no secret")
        .with_details(payload("details"))
        .with_cause(cause)
}

impl Workflow for Secretive {
    const TYPE: &'static str = "secretive";
    type Input = Value;
    type Output = Value;

    fn new(input: Value) -> Self {
        Self {
            second: input["second"] == true,
            is_child: input["place"] == "child",
            seen: Vec::new(),
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        if self.is_child || self.second {
            return vec![];
        }
        vec![
            activity("flaky"),
            activity("doomed"),
            WorkflowAction::OpenHumanTask {
                task_id: "ask".to_owned(),
                request: payload("human task"),
            },
            WorkflowAction::ScheduleChildWorkflow {
                workflow_id: "child".to_owned(),
                workflow_type: Self::TYPE.to_owned(),
                input: payload("child"),
            },
        ]
    }

    fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        assert_eq!(result, canary("result"));
        self.note(result)
    }

    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let details: Value = error.details.to_value().expect("details are decoded");
        assert_eq!(details, canary("details"));
        let cause = error.cause.as_ref().expect("the cause is kept");
        assert_eq!(cause.details.to_value(), Ok(canary("cause")));
        self.note(details)
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        self.note(signal.payload.to_value().expect("a signal is decoded"))
    }

    fn on_child_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        self.note(result)
    }

    fn on_update(&mut self, update_id: &str, name: &str, input: Value) -> Vec<WorkflowAction> {
        let update_id = update_id.to_owned();
        let answer = if name == "refused" {
            let error = failure();
            WorkflowAction::FailUpdate { update_id, error }
        } else {
            let result = payload("update result");
            WorkflowAction::CompleteUpdate { update_id, result }
        };
        let mut actions = vec![answer];
        actions.extend(self.note(input));
        actions
    }

    fn is_completed(&self) -> bool {
        self.is_child || self.second
    }

    fn result(&self) -> Option<Result<Value, WorkflowError>> {
        self.is_completed().then(|| Ok(canary("workflow result")))
    }
}

/// Fails with details.
pub(crate) struct Failing;

impl Workflow for Failing {
    const TYPE: &'static str = "failing";
    type Input = Value;
    type Output = Value;

    fn new(_input: Value) -> Self {
        Self
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        let error = failure().into();
        vec![WorkflowAction::FailWorkflow { error }]
    }

    fn on_activity_completed(&mut self, _id: &str, _result: Value) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_activity_failed(&mut self, _id: &str, _error: &ActivityError) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }
}

/// An engine that runs all this.
pub(crate) fn hosting(engine: EngineBuilder) -> EngineBuilder {
    engine
        .workflow::<Secretive>()
        .workflow::<Failing>()
        .activity_fn("flaky", flaky)
        .activity_fn("doomed", |_ctx, _input: Value| async move {
            Err::<Value, _>(ActivityError::from_failure(failure().non_retryable()))
        })
}

/// Fails once, beats, logs, and succeeds.
async fn flaky(ctx: ActivityContext, input: Value) -> ActivityResult<Value> {
    assert_eq!(input, canary("flaky"));
    ctx.log_with(LogLevel::Info, "no secret", &canary("log"));
    if ctx.attempt == 1 {
        return Err(ActivityError::from_failure(failure()));
    }
    ctx.heartbeat_with(&canary("heartbeat"))?;
    Ok(canary("result"))
}
