//! What is said of a program that waits.

use std::time::Duration;

use everruns_durable::testing::{TestEnv, TestRun};
use serde_json::json;

use crate::world::{start, world};

async fn waits(env: &TestEnv, run: &TestRun<durable_program::ProgramWorkflow>) -> Vec<String> {
    let id = run.id();
    let why = env.with(move |client| async move { client.why(id).await });
    let why = why.await.expect("told");
    why.waits.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_update_that_a_program_waits_for_is_named() {
    let env = world().await;
    let any = json!({"vars": {"a": 0}, "steps": [{"do": "wait_update"}]});
    let run = start(&env, &any).await;
    env.advance(Duration::from_millis(10)).await;
    assert_eq!(waits(&env, &run).await, [r#"an update "set_var""#]);
    let one = json!({"vars": {"a": 0}, "steps": [{"do": "wait_update", "name": "a"}]});
    let run = start(&env, &one).await;
    env.advance(Duration::from_millis(10)).await;
    let expected = [r#"an update "set_var" of variable "a""#];
    assert_eq!(waits(&env, &run).await, expected);
}

#[tokio::test]
async fn signals_and_updates_are_told_beside_timers() {
    let env = world().await;
    let program = json!({"vars": {"a": 0}, "steps": [{"do": "parallel", "branches": [
        [{"do": "sleep", "ms": 60_000}],
        [{"do": "wait_signal", "name": "go"}],
        [{"do": "scope", "cancel_on_signal": "stop", "steps": [{"do": "wait_update"}]}]
    ]}]});
    let run = start(&env, &program).await;
    env.advance(Duration::from_millis(10)).await;
    let waits = waits(&env, &run).await;
    assert!(
        waits[0].starts_with("timer 1, which fires at "),
        "{waits:?}"
    );
    let expected = [
        r#"signal "go""#,
        r#"signal "stop""#,
        r#"an update "set_var""#,
    ];
    assert_eq!(waits[1..], expected);
}
