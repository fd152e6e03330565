//! Runs programs: the shipped engine on a store in memory, in virtual time, each turn replayed from its history.

use durable_program::{
    Add, Echo, FailN, HostAllowList, Http, Log, Mistake, ProgramWorkflow, SleepFor,
};
use everruns_durable::persistence::model::WorkflowStatus;
use everruns_durable::prelude::Payload;
use everruns_durable::testing::{TestEnv, TestEnvBuilder, TestRun};
use serde_json::{Value, json};

/// What programs run on.
pub(crate) fn built_ins(env: TestEnvBuilder) -> TestEnvBuilder {
    env.activity(Echo)
        .activity(SleepFor)
        .activity(FailN)
        .activity(Add)
        .activity(Http::new(HostAllowList::loopback()))
        .activity(Log)
}

pub(crate) async fn world() -> TestEnv {
    built_ins(TestEnv::new().workflow::<ProgramWorkflow>())
        .always_replay()
        .start()
        .await
}

pub(crate) fn payload(program: &Value) -> Payload {
    Payload::from_value(program).expect("JSON")
}

/// A program with these steps and no variables.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a call site reads better without a reference"
)]
pub(crate) fn steps(steps: Value) -> Value {
    json!({"steps": steps})
}

pub(crate) async fn start(env: &TestEnv, program: &Value) -> TestRun<ProgramWorkflow> {
    let input = payload(program);
    durable_program::check(&input).expect("a program");
    env.start::<ProgramWorkflow>(input).await.expect("starts")
}

/// How a run ended: with its result, or with its error as a program would see it (a cancelled run's is "Cancelled").
pub(crate) async fn end(run: &TestRun<ProgramWorkflow>) -> Result<Value, Value> {
    let record = run.ended().await.expect("ends");
    match record.status {
        WorkflowStatus::Completed => Ok(record.result.to_value().expect("JSON")),
        WorkflowStatus::Cancelled => Err(json!({"type": "Cancelled"})),
        _ => {
            let error = record.error.expect("a failed run has an error");
            let details: Value = error.details.to_value().expect("JSON");
            Err(json!({"type": error.error_type, "message": error.message, "details": details}))
        }
    }
}

/// Runs a program to its end.
pub(crate) async fn run(program: Value) -> Result<Value, Value> {
    let env = world().await;
    end(&start(&env, &program).await).await
}

/// What a program returns.
pub(crate) async fn result(program: Value) -> Value {
    let shown = program.to_string();
    run(program)
        .await
        .unwrap_or_else(|error| panic!("{shown} failed: {error}"))
}

/// The type of the error that a program fails with.
pub(crate) async fn error_type(program: Value) -> String {
    let shown = program.to_string();
    let error = run(program).await;
    let error = error.expect_err(&shown);
    error["type"].as_str().expect("a type").to_owned()
}

/// Why a program is refused.
pub(crate) fn mistake(program: &Value) -> Mistake {
    let refused = durable_program::check(&payload(program));
    refused.expect_err(&program.to_string())
}

/// A program that returns what its steps wrote into `log`, with a step that writes.
pub(crate) fn note(what: &str) -> Value {
    json!({"do": "set", "var": "log", "value": {"$concat": [{"$": "log"}, [what]]}})
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a call site reads better without a reference"
)]
pub(crate) fn logged(list: Value) -> Value {
    json!({"vars": {"log": []}, "steps": list})
}

pub(crate) fn return_log() -> Value {
    json!({"do": "return", "value": {"$": "log"}})
}

pub(crate) fn echoes(env: &everruns_durable::testing::TestEnv) -> Vec<Value> {
    let calls = env.calls::<durable_program::Echo>();
    let calls = calls.iter().map(|call| call.to_value().expect("JSON"));
    calls.collect()
}
