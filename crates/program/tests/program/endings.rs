//! How programs end early: errors, compensations, cancelling.

use serde_json::{Value, json};

use crate::world::{
    echoes, end, error_type, logged, note, result, return_log, run, start, steps, world,
};

#[tokio::test]
async fn an_uncaught_error_fails_the_run_with_its_type() {
    let failed = run(json!({"vars": {"n": 7}, "steps": [
        {"do": "fail", "type": "OutOfStock", "message": {"$concat": ["none of ", "seven"]}}
    ]}));
    let expected = json!({"type": "OutOfStock", "message": "none of seven", "details": null});
    assert_eq!(failed.await, Err(expected));
}

#[tokio::test]
async fn try_catches_saves_the_error_and_runs_finally_after_catch() {
    let program = logged(json!([
        {"do": "try", "steps": [
            note("steps"),
            {"do": "activity", "type": "fail_n", "input": {"n": 1, "error_type": "Boom", "non_retryable": true}},
            note("never")
        ], "save_error": "error", "catch": [note("catch")], "finally": [note("finally")]},
        {"do": "return", "value": [{"$": "log"}, {"$": "error"}]}
    ]));
    let error = json!({"type": "Boom", "message": "attempt 1 fails, as asked", "details": null});
    let expected = json!([["steps", "catch", "finally"], error]);
    assert_eq!(result(program).await, expected);
}

#[tokio::test]
async fn finally_runs_whatever_happens_and_without_catch_the_error_goes_on() {
    let outer = |inner: Value| {
        logged(json!([
            {"do": "try", "steps": [inner], "catch": [note("outer")]},
            return_log()
        ]))
    };
    let without_catch =
        json!({"do": "try", "steps": [{"do": "fail", "type": "A"}], "finally": [note("finally")]});
    assert_eq!(
        result(outer(without_catch)).await,
        json!(["finally", "outer"])
    );
    let catch_fails = json!({"do": "try", "steps": [{"do": "fail", "type": "A"}], "catch": [{"do": "fail", "type": "B"}], "finally": [note("finally")]});
    assert_eq!(
        result(outer(catch_fails)).await,
        json!(["finally", "outer"])
    );
    let no_failure = json!({"do": "try", "steps": [note("well")], "catch": [note("no")], "finally": [note("finally")]});
    assert_eq!(result(outer(no_failure)).await, json!(["well", "finally"]));
    let returns = logged(json!([
        {"do": "parallel", "branches": [[{"do": "try", "steps": [{"do": "return", "value": 1}], "finally": [note("finally")]}]], "save": "all"},
        {"do": "return", "value": [{"$": "all"}, {"$": "log"}]}
    ]));
    assert_eq!(result(returns).await, json!([[1], ["finally"]]));
    let finally_fails = steps(
        json!([{"do": "try", "steps": [{"do": "fail", "type": "A"}], "finally": [{"do": "fail", "type": "B"}]}]),
    );
    assert_eq!(error_type(finally_fails).await, "B");
}

#[tokio::test]
async fn compensations_run_in_reverse_evaluated_then_and_past_failures() {
    let env = world().await;
    let undo = |tag: &str| {
        json!({"do": "compensate", "steps": [
            {"do": "activity", "type": "echo", "input": [tag, {"$": "x"}]}
        ]})
    };
    let program = json!({"vars": {"x": 1}, "steps": [
        undo("first"),
        {"do": "compensate", "steps": [{"do": "fail", "type": "Undo"}, {"do": "activity", "type": "echo", "input": "never"}]},
        undo("last"),
        {"do": "set", "var": "x", "value": 2},
        {"do": "fail", "type": "Boom", "message": "no"}
    ]});
    let run = start(&env, &program).await;
    let expected = json!({"type": "Boom", "message": "no", "details": null});
    assert_eq!(end(&run).await, Err(expected));
    let calls: Vec<Value> = env
        .calls::<durable_program::Echo>()
        .iter()
        .map(|call| call.to_value().expect("JSON"))
        .collect();
    assert_eq!(calls, [json!(["last", 2]), json!(["first", 2])]);
}

#[tokio::test]
async fn compensations_do_not_run_when_the_program_ends_well() {
    let env = world().await;
    let program = steps(json!([
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo"}]},
        {"do": "try", "steps": [{"do": "fail", "type": "A"}], "catch": []}
    ]));
    assert_eq!(end(&start(&env, &program).await).await, Ok(json!(null)));
    assert_eq!(env.all_calls(), [""; 0]);
}

#[tokio::test]
async fn a_cancelled_run_runs_its_finally_and_its_compensations_and_catches_nothing() {
    let env = world().await;
    let program = steps(json!([
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undo"}, {"do": "sleep", "ms": 1000}]},
        {"do": "try",
         "steps": [{"do": "wait_signal", "name": "never"}],
         "catch": [{"do": "activity", "type": "echo", "input": "catch"}],
         "finally": [{"do": "activity", "type": "echo", "input": "finally"}]},
        {"do": "activity", "type": "echo", "input": "after"}
    ]));
    let run = start(&env, &program).await;
    run.cancel("enough").await.expect("asked");
    assert_eq!(end(&run).await, Err(json!({"type": "Cancelled"})));
    assert_eq!(echoes(&env), [json!("finally"), json!("undo")]);
}

#[tokio::test]
async fn what_cleans_up_is_not_cancelled() {
    let env = world().await;
    let program = steps(json!([
        {"do": "compensate", "steps": [
            {"do": "activity", "type": "sleep", "input": {"ms": 60_000}},
            {"do": "activity", "type": "echo", "input": "undone"}
        ]},
        {"do": "fail", "type": "Boom"}
    ]));
    let run = start(&env, &program).await;
    run.cancel("too late").await.expect("asked");
    let ended = end(&run).await.expect_err("failed");
    assert_eq!(ended["type"], json!("Boom"));
    assert_eq!(echoes(&env), [json!("undone")]);
    assert_eq!(env.all_calls(), ["sleep", "echo"], "and was done once");
}

#[tokio::test]
async fn a_scope_is_cancelled_by_its_signal_and_the_program_goes_on() {
    let env = world().await;
    let program = logged(json!([
        {"do": "scope", "cancel_on_signal": "stop", "steps": [
            {"do": "try", "steps": [{"do": "wait_signal", "name": "never"}], "catch": [note("catch")],
             "finally": [{"do": "sleep", "ms": 100}, note("finally")]},
            note("inside")
        ]},
        note("behind"),
        return_log()
    ]));
    let run = start(&env, &program).await;
    run.signal("stop", &()).await.expect("sent");
    assert_eq!(end(&run).await, Ok(json!(["finally", "behind"])));
    let well = logged(json!([
        {"do": "scope", "cancel_on_signal": "stop", "steps": [note("inside")]},
        {"do": "wait_signal", "name": "stop", "save": "left"},
        return_log()
    ]));
    let run = start(&env, &well).await;
    run.signal("stop", &()).await.expect("sent");
    assert_eq!(
        end(&run).await,
        Ok(json!(["inside"])),
        "the signal is left to others"
    );
}

#[tokio::test]
async fn a_run_cancelled_in_a_finally_goes_no_further() {
    let env = world().await;
    let program = steps(json!([
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undo"}]},
        {"do": "try", "steps": [], "finally": [
            {"do": "sleep", "ms": 60_000},
            {"do": "activity", "type": "echo", "input": "finally"}
        ]},
        {"do": "activity", "type": "echo", "input": "behind"}
    ]));
    let run = start(&env, &program).await;
    run.cancel("enough").await.expect("asked");
    assert_eq!(end(&run).await, Err(json!({"type": "Cancelled"})));
    assert_eq!(echoes(&env), [json!("finally"), json!("undo")]);
}

#[tokio::test]
async fn a_finally_is_not_cancelled_by_a_branch_that_fails() {
    let env = world().await;
    let program = steps(json!([{"do": "parallel", "branches": [
        [{"do": "try", "steps": [], "finally": [{"do": "sleep", "ms": 500}, {"do": "activity", "type": "echo", "input": "finally"}]},
         {"do": "activity", "type": "echo", "input": "behind"}],
        [{"do": "sleep", "ms": 10}, {"do": "fail", "type": "Fast"}]
    ]}]));
    let ended = end(&start(&env, &program).await).await;
    assert_eq!(ended.expect_err("fails")["type"], json!("Fast"));
    assert_eq!(echoes(&env), [json!("finally")]);
}
