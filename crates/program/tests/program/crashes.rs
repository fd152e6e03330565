//! Programs survive a crash anywhere: every call of the store fails, and the process dies at every await.

use crate::world::{built_ins, payload};
use durable_program::ProgramWorkflow;
use everruns_durable::testing::{Simulated, simulate};
use serde_json::{Value, json};

const FAULTS_MAX: usize = 40;

async fn survives(program: Value) -> Simulated {
    let simulation = simulate::<ProgramWorkflow>(payload(&program), 0..2)
        .world(built_ins)
        .faults_max(FAULTS_MAX);
    let simulated = simulation.await.unwrap_or_else(|found| panic!("{found}"));
    assert!(simulated.crashes > 0);
    simulated
}

#[tokio::test]
async fn a_program_of_activities_timers_and_side_effects_survives_any_crash() {
    survives(json!({"vars": {"n": 0}, "steps": [
        {"do": "side_effect", "kind": "uuid", "save": "id"},
        {"do": "repeat", "times": 2, "steps": [
            {"do": "activity", "type": "add", "input": {"a": {"$": "n"}, "b": 1}, "save": "n"},
            {"do": "sleep", "ms": 10}
        ]},
        {"do": "local", "type": "echo", "input": {"$": "n"}, "save": "local"},
        {"do": "return", "value": {"$": "local"}}
    ]}))
    .await;
}

#[tokio::test]
async fn branches_races_and_their_finally_survive_any_crash() {
    survives(json!({"vars": {"log": []}, "steps": [
        {"do": "race", "branches": [
            [{"do": "try", "steps": [{"do": "sleep", "ms": 100_000}], "finally": [{"do": "activity", "type": "echo", "input": "lost"}]}],
            [{"do": "activity", "type": "echo", "input": 1}, {"do": "return", "value": "won"}]
        ], "save": "won"},
        {"do": "parallel", "branches": [
            [{"do": "sleep", "ms": 5}, {"do": "return", "value": 1}],
            [{"do": "sleep", "ms": 9}, {"do": "return", "value": 2}]
        ], "save": "both"},
        {"do": "return", "value": [{"$": "won"}, {"$": "both"}]}
    ]}))
    .await;
}

#[tokio::test]
async fn compensations_children_and_continuing_survive_any_crash() {
    survives(json!({"vars": {"n": 1}, "steps": [
        {"do": "if", "cond": {"$eq": [{"$": "n"}, 1]}, "then": [
            {"do": "child", "program": {"vars": {"x": {"$": "n"}}, "steps": [{"do": "sleep", "ms": 5}, {"do": "return", "value": {"$": "x"}}]}, "save": "child"},
            {"do": "continue_as_new", "vars": {"n": 2}}
        ]},
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undo 1"}]},
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undo 2"}]},
        {"do": "fail", "type": "Boom", "message": "as planned"}
    ]}))
    .await;
}

#[tokio::test]
async fn signals_updates_and_scopes_survive_any_crash() {
    let program = json!({"vars": {"x": 0}, "steps": [
        {"do": "on_signal", "name": "item", "append_to": "items"},
        {"do": "scope", "cancel_on_signal": "stop", "steps": [
            {"do": "try", "steps": [{"do": "wait_signal", "name": "never"}], "finally": [{"do": "activity", "type": "echo", "input": "finally"}]}
        ]},
        {"do": "wait_signal", "name": "go", "save": "go"},
        {"do": "return", "value": [{"$": "items"}, {"$": "go"}]}
    ]});
    let simulated = simulate::<ProgramWorkflow>(payload(&program), 0..2)
        .world(built_ins)
        .faults_max(FAULTS_MAX)
        .meanwhile(|run| async move {
            for (name, value) in [("item", 1), ("stop", 2), ("item", 3), ("go", 4)] {
                // A call of the store that fails seems to; the signal's sender tries again.
                while run.signal(name, &value).await.is_err() {}
            }
        })
        .outcome_may_differ()
        .await;
    let simulated = simulated.unwrap_or_else(|found| panic!("{found}"));
    assert!(simulated.crashes > 0);
}
