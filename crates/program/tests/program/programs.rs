//! The language: small programs and what they come to.

use std::time::Duration;

use crate::world::{end, error_type, result, run, start, steps, world};
use serde_json::{Value, json};

/// A program that returns what its steps wrote into `log`, with a step that writes.
fn note(what: &str) -> Value {
    json!({"do": "set", "var": "log", "value": {"$concat": [{"$": "log"}, [what]]}})
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a call site reads better without a reference"
)]
fn logged(list: Value) -> Value {
    json!({"vars": {"log": []}, "steps": list})
}

fn return_log() -> Value {
    json!({"do": "return", "value": {"$": "log"}})
}

// ---- steps ------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_program_without_return_answers_null() {
    assert_eq!(result(steps(json!([]))).await, json!(null));
    let set = json!([{"do": "set", "var": "x", "value": 1}]);
    assert_eq!(result(steps(set)).await, json!(null));
    let bare = json!([{"do": "return"}]);
    assert_eq!(result(steps(bare)).await, json!(null));
}

#[tokio::test]
async fn activities_are_called_and_their_results_saved() {
    let program = json!({"vars": {"x": 2}, "steps": [
        {"do": "activity", "type": "add", "input": {"a": {"$": "x"}, "b": 3}, "save": "sum"},
        {"do": "local", "type": "add", "input": {"a": {"$": "sum"}, "b": 0.5}, "save": "more"},
        {"do": "activity", "type": "echo", "input": {"deep": [{"$": "more"}]}, "save": "echoed"},
        {"do": "activity", "type": "log", "input": "one line"},
        {"do": "local", "type": "log", "input": {"message": "another", "level": "warn", "of": 2}, "save": "logged"},
        {"do": "return", "value": [{"$": "sum"}, {"$": "echoed"}, {"$": "logged"}]}
    ]});
    assert_eq!(result(program).await, json!([5, {"deep": [5.5]}, null]));
}

#[tokio::test]
async fn activities_are_retried_as_their_options_say() {
    let fail = |n: u32, options: Value| {
        json!([
            {"do": "activity", "type": "fail_n", "input": {"n": n, "error_type": "Flaky"}, "save": "attempt", "options": options},
            {"do": "return", "value": {"$": "attempt"}}
        ])
    };
    let options =
        json!({"max_attempts": 3, "initial_interval_ms": 10, "backoff": 1.5, "priority": 5});
    assert_eq!(result(steps(fail(2, options.clone()))).await, json!(3));
    assert_eq!(error_type(steps(fail(3, options))).await, "Flaky");
    let computed = json!({"max_attempts": {"$add": [1, 1]}});
    assert_eq!(result(steps(fail(1, computed))).await, json!(2));
    let none = json!([{"do": "activity", "type": "fail_n", "input": {"n": 1, "non_retryable": true, "error_type": "Final"}}]);
    assert_eq!(error_type(steps(none)).await, "Final");
    let local = json!([{"do": "local", "type": "fail_n", "input": {"n": 1, "error_type": "Once"}}]);
    assert_eq!(error_type(steps(local)).await, "Once");
}

#[tokio::test]
async fn timeouts_raise_by_their_names() {
    let one = |activity: Value, options: Value| {
        steps(json!([
            {"do": "activity", "type": "sleep", "input": activity, "options": options}
        ]))
    };
    let slow = json!({"ms": 60_000});
    let once = json!({"max_attempts": 1, "start_to_close_ms": 100});
    assert_eq!(
        error_type(one(slow.clone(), once)).await,
        "StartToCloseTimeout"
    );
    let silent = json!({"max_attempts": 1, "heartbeat_ms": 100});
    assert_eq!(
        error_type(one(slow.clone(), silent)).await,
        "HeartbeatTimeout"
    );
    let whole = json!({"schedule_to_close_ms": 100});
    assert_eq!(error_type(one(slow, whole)).await, "ScheduleToCloseTimeout");
    let beating = json!({"ms": 10_000, "heartbeat_ms": 50});
    let beats = one(beating, json!({"heartbeat_ms": 1_000}));
    assert_eq!(result(beats).await, json!(null));
}

#[tokio::test]
async fn sleeping_takes_its_time() {
    let env = world().await;
    let before = env.now().await;
    let program = steps(json!([{"do": "sleep", "ms": {"$mul": [1000, 3600]}}]));
    assert_eq!(end(&start(&env, &program).await).await, Ok(json!(null)));
    assert!(env.now().await.duration_since(before).as_secs() >= 3600);
}

#[tokio::test]
async fn signals_are_waited_for_in_order_and_early_ones_wait() {
    let env = world().await;
    let program = steps(json!([
        {"do": "wait_signal", "name": "go", "save": "one"},
        {"do": "sleep", "ms": 1000},
        {"do": "wait_signal", "name": "go", "timeout_ms": 10, "save": "two"},
        {"do": "wait_signal", "name": "go", "timeout_ms": 10, "save": "three"},
        {"do": "return", "value": [{"$": "one"}, {"$": "two"}, {"$": "three"}]}
    ]));
    let run = start(&env, &program).await;
    run.signal("go", &json!({"n": 1})).await.expect("sent");
    run.signal("go", "second").await.expect("sent");
    let expected = json!([{"n": 1}, "second", {"timeout": true}]);
    assert_eq!(end(&run).await, Ok(expected));
}

#[tokio::test]
async fn on_signal_takes_every_signal_of_its_name_also_those_that_wait() {
    let env = world().await;
    let program = steps(json!([
        {"do": "wait_signal", "name": "start"},
        {"do": "on_signal", "name": "item", "append_to": "items"},
        {"do": "wait_signal", "name": "item", "timeout_ms": 1000, "save": "taken"},
        {"do": "wait_signal", "name": "stop"},
        {"do": "return", "value": [{"$": "items"}, {"$": "taken"}]}
    ]));
    let run = start(&env, &program).await;
    run.signal("item", &1).await.expect("sent");
    run.signal("start", &()).await.expect("sent");
    run.signal("item", &2).await.expect("sent");
    env.advance(Duration::from_secs(2)).await;
    run.signal("item", &3).await.expect("sent");
    run.signal("stop", &()).await.expect("sent");
    let expected = json!([[1, 2, 3], {"timeout": true}]);
    assert_eq!(end(&run).await, Ok(expected));
}

#[tokio::test]
async fn what_is_made_once_has_its_form() {
    let program = steps(json!([
        {"do": "side_effect", "kind": "uuid", "save": "uuid"},
        {"do": "side_effect", "kind": "uuid", "save": "other"},
        {"do": "side_effect", "kind": "random", "save": "random"},
        {"do": "side_effect", "kind": "now", "save": "now"},
        {"do": "sleep", "ms": 5},
        {"do": "return", "value": [{"$": "uuid"}, {"$": "other"}, {"$": "random"}, {"$": "now"}]}
    ]));
    let made = result(program).await;
    let uuid = made[0].as_str().expect("text");
    assert_eq!(uuid.len(), 36);
    assert_ne!(made[0], made[1]);
    let random = made[2].as_f64().expect("a number");
    assert!((0.0..1.0).contains(&random));
    let now = made[3].as_str().expect("text");
    assert!(
        now.starts_with("2026-01-01T00:00:0") && now.ends_with('Z'),
        "{now}"
    );
}

#[tokio::test]
async fn conditions_and_loops() {
    let sum = json!({"vars": {"i": 0, "sum": 0}, "steps": [
        {"do": "while", "cond": {"$lt": [{"$": "i"}, 5]}, "max": 5, "steps": [
            {"do": "set", "var": "i", "value": {"$add": [{"$": "i"}, 1]}},
            {"do": "if", "cond": {"$eq": [{"$": "i"}, 3]}, "then": [], "else": [
                {"do": "set", "var": "sum", "value": {"$add": [{"$": "sum"}, {"$": "i"}]}}
            ]}
        ]},
        {"do": "repeat", "times": {"$len": "ab"}, "steps": [{"do": "set", "var": "sum", "value": {"$mul": [{"$": "sum"}, 10]}}]},
        {"do": "return", "value": {"$": "sum"}}
    ]});
    assert_eq!(result(sum).await, json!(1200));
    let never = json!([{"do": "repeat", "times": 0, "steps": [{"do": "fail", "type": "No"}]}]);
    assert_eq!(result(steps(never)).await, json!(null));
}

#[tokio::test]
async fn a_while_past_its_max_raises_loop_limit() {
    let spin = |max: u32| {
        json!([{"do": "while", "cond": {"$not": {"$eq": [{"$": "i"}, 3]}}, "max": max, "steps": [
            {"do": "set", "var": "i", "value": {"$add": [{"$": "i"}, 1]}}
        ]}, {"do": "return", "value": {"$": "i"}}])
    };
    let with = |steps: Value| json!({"vars": {"i": 0}, "steps": steps});
    assert_eq!(result(with(spin(3))).await, json!(3));
    assert_eq!(error_type(with(spin(2))).await, "LoopLimit");
    assert_eq!(error_type(with(spin(0))).await, "LoopLimit");
    let caught =
        json!([{"do": "try", "steps": spin(2), "catch": [{"do": "return", "value": "caught"}]}]);
    assert_eq!(result(with(caught)).await, json!("caught"));
}

#[tokio::test]
async fn a_program_that_only_spins_is_stopped_and_cannot_catch_that() {
    let spin = json!({"do": "repeat", "times": 1_000_000_000_000_u64, "steps": []});
    let caught = json!([{"do": "try", "steps": [spin], "catch": [{"do": "return", "value": 1}]}]);
    assert_eq!(error_type(steps(caught)).await, "StepLimit");
    let grow = json!({"vars": {"x": "0123456789"}, "steps": [
        {"do": "repeat", "times": 60, "steps": [{"do": "set", "var": "x", "value": {"$concat": [{"$": "x"}, {"$": "x"}]}}]}
    ]});
    assert_eq!(error_type(grow).await, "ExpressionError");
    let deepen = json!({"vars": {"x": 0}, "steps": [
        {"do": "repeat", "times": 1000, "steps": [{"do": "set", "var": "x", "value": [{"$": "x"}]}]}
    ]});
    assert_eq!(error_type(deepen).await, "ExpressionError");
}

#[tokio::test]
async fn return_inside_conditions_loops_and_try_ends_the_program() {
    for holder in [
        json!({"do": "if", "cond": true, "then": [{"do": "return", "value": 1}]}),
        json!({"do": "repeat", "times": 3, "steps": [{"do": "return", "value": 1}]}),
        json!({"do": "while", "cond": true, "max": 3, "steps": [{"do": "return", "value": 1}]}),
        json!({"do": "try", "steps": [{"do": "return", "value": 1}], "catch": [{"do": "return", "value": 3}]}),
        json!({"do": "try", "steps": [{"do": "fail", "type": "A"}], "catch": [{"do": "return", "value": 1}]}),
        json!({"do": "patched", "id": "new", "then": [{"do": "return", "value": 1}], "else": []}),
        json!({"do": "scope", "cancel_on_signal": "s", "steps": [{"do": "return", "value": 1}]}),
    ] {
        let program = steps(json!([holder, {"do": "return", "value": 2}]));
        assert_eq!(result(program.clone()).await, json!(1), "{program}");
    }
}

// ---- errors -----------------------------------------------------------------------------------------

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

// ---- cancelling -------------------------------------------------------------------------------------

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

fn echoes(env: &everruns_durable::testing::TestEnv) -> Vec<Value> {
    let calls = env.calls::<durable_program::Echo>();
    let calls = calls.iter().map(|call| call.to_value().expect("JSON"));
    calls.collect()
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

// ---- branches ---------------------------------------------------------------------------------------

#[tokio::test]
async fn parallel_answers_what_each_branch_returned() {
    let program = json!({"vars": {"x": 1}, "steps": [
        {"do": "parallel", "branches": [
            [{"do": "sleep", "ms": 20}, {"do": "return", "value": "slow"}, {"do": "fail", "type": "Past"}],
            [{"do": "set", "var": "x", "value": 2}],
            [{"do": "if", "cond": true, "then": [{"do": "return", "value": {"$": "x"}}]}],
            []
        ], "save": "all"},
        {"do": "return", "value": {"$": "all"}}
    ]});
    assert_eq!(result(program).await, json!(["slow", null, 2, null]));
    let none = json!([{"do": "parallel", "branches": [], "save": "all"}, {"do": "return", "value": {"$": "all"}}]);
    assert_eq!(result(steps(none)).await, json!([]));
}

#[tokio::test]
async fn branches_run_in_order_until_they_wait() {
    let branch = |name: &str| {
        let again = format!("{name}2");
        json!([note(name), {"do": "sleep", "ms": 10}, note(&again)])
    };
    let program = logged(json!([
        {"do": "parallel", "branches": [branch("a"), branch("b"), branch("c")]},
        return_log()
    ]));
    assert_eq!(
        result(program).await,
        json!(["a", "b", "c", "a2", "b2", "c2"])
    );
}

#[tokio::test]
async fn parallel_fails_fast_and_the_others_run_their_finally() {
    let env = world().await;
    let program = logged(json!([
        {"do": "try", "steps": [
            {"do": "parallel", "branches": [
                [{"do": "try", "steps": [{"do": "activity", "type": "sleep", "input": {"ms": 3_600_000}}, note("slept")],
                  "catch": [note("caught")], "finally": [{"do": "sleep", "ms": 5}, note("finally")]}],
                [{"do": "sleep", "ms": 50}, {"do": "fail", "type": "Fast"}],
                [{"do": "wait_signal", "name": "never"}, note("signalled")]
            ]},
            note("behind")
        ], "catch": [note("outer")], "save_error": "error"},
        {"do": "return", "value": [{"$": "log"}, {"$": "error.type"}]}
    ]));
    let before = env.now().await;
    let ended = end(&start(&env, &program).await).await;
    assert_eq!(ended, Ok(json!([["finally", "outer"], "Fast"])));
    assert!(env.now().await.duration_since(before).as_secs() < 3600);
}

#[tokio::test]
async fn a_race_is_won_by_the_first_to_end() {
    let program = logged(json!([
        {"do": "race", "branches": [
            [{"do": "try", "steps": [{"do": "sleep", "ms": 100_000}], "finally": [note("lost")]}, {"do": "return", "value": "slow"}],
            [{"do": "sleep", "ms": 10}, {"do": "return", "value": "fast"}],
            [{"do": "wait_signal", "name": "never"}]
        ], "save": "won"},
        {"do": "return", "value": [{"$": "won"}, {"$": "log"}]}
    ]));
    let expected = json!([{"winner": 1, "value": "fast"}, ["lost"]]);
    assert_eq!(result(program).await, expected);
    let failed = steps(json!([{"do": "race", "branches": [
        [{"do": "sleep", "ms": 10_000}],
        [{"do": "sleep", "ms": 10}, {"do": "fail", "type": "First"}]
    ]}]));
    assert_eq!(error_type(failed).await, "First");
    let at_once = logged(json!([
        {"do": "race", "branches": [[note("a")], [note("b")]], "save": "won"},
        {"do": "return", "value": [{"$": "won"}, {"$": "log"}]}
    ]));
    let expected = json!([{"winner": 0, "value": null}, ["a"]]);
    assert_eq!(result(at_once).await, expected);
}

#[tokio::test]
async fn a_cancel_reaches_all_branches() {
    let env = world().await;
    let program = steps(json!([{"do": "parallel", "branches": [
        [{"do": "try", "steps": [{"do": "sleep", "ms": 100_000_000}], "finally": [{"do": "activity", "type": "echo", "input": "a"}]}],
        [{"do": "race", "branches": [[{"do": "try", "steps": [{"do": "wait_update"}], "finally": [{"do": "activity", "type": "echo", "input": "b"}]}]]}]
    ]}]));
    let run = start(&env, &program).await;
    run.cancel("enough").await.expect("asked");
    assert_eq!(end(&run).await, Err(json!({"type": "Cancelled"})));
    assert_eq!(echoes(&env), [json!("a"), json!("b")]);
}

// ---- children, continuing, the rest -----------------------------------------------------------------

#[tokio::test]
async fn a_child_has_variables_of_its_own() {
    let program = json!({"vars": {"x": 1, "y": {"$lit": {"$odd": true}}}, "steps": [
        {"do": "child", "id": {"$concat": ["child-", "1"]}, "program": {
            "vars": {"given": {"$add": [{"$": "x"}, 1]}, "data": {"$": "y"}},
            "steps": [
                {"do": "set", "var": "x", "value": 100},
                {"do": "return", "value": [{"$": "x"}, {"$": "given"}, {"$": "data"}]}
            ]
        }, "save": "answer"},
        {"do": "return", "value": [{"$": "x"}, {"$": "answer"}]}
    ]});
    assert_eq!(result(program).await, json!([1, [100, 2, {"$odd": true}]]));
}

#[tokio::test]
async fn a_childs_error_is_raised_by_its_own_type() {
    let program = steps(json!([
        {"do": "try", "steps": [
            {"do": "child", "program": {"steps": [{"do": "fail", "type": "Inner", "message": "broken"}]}}
        ], "save_error": "error", "catch": [{"do": "return", "value": {"$": "error"}}]}
    ]));
    let expected = json!({"type": "Inner", "message": "broken", "details": null});
    assert_eq!(result(program).await, expected);
}

#[tokio::test]
async fn a_child_may_be_any_workflow_or_a_program_out_of_a_variable() {
    let by_type = steps(json!([
        {"do": "child", "workflow_type": "durable.program", "input": {"$lit": {"steps": [{"do": "return", "value": {"$add": [1, 1]}}]}}, "policy": "terminate", "save": "two"},
        {"do": "return", "value": {"$": "two"}}
    ]));
    assert_eq!(result(by_type).await, json!(2));
    let from_variable = json!({"vars": {"code": {"$lit": {"steps": [{"do": "return", "value": 3}]}}}, "steps": [
        {"do": "child", "program": {"$": "code"}, "save": "three"},
        {"do": "return", "value": {"$": "three"}}
    ]});
    assert_eq!(result(from_variable).await, json!(3));
    let broken = json!({"vars": {"code": 1}, "steps": [{"do": "child", "program": {"$": "code"}}]});
    assert_eq!(error_type(broken).await, "InvalidProgram");
}

#[tokio::test]
async fn continue_as_new_replaces_the_variables_and_drops_compensations() {
    let env = world().await;
    let program = json!({"vars": {"n": 3, "gone": true}, "steps": [
        {"do": "if", "cond": {"$eq": [{"$": "n"}, 0]}, "then": [{"do": "fail", "type": "Done", "message": {"$": "data.$raw"}}]},
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "never"}]},
        {"do": "parallel", "branches": [
            [{"do": "try", "steps": [{"do": "sleep", "ms": 1000}], "finally": [{"do": "activity", "type": "echo", "input": {"$": "gone"}}]}],
            [{"do": "continue_as_new", "vars": {"n": {"$sub": [{"$": "n"}, 1]}, "data": {"$lit": {"$raw": "as it was"}}}}]
        ]}
    ]});
    let run = start(&env, &program).await;
    let ended = end(&run).await.expect_err("fails in the end");
    assert_eq!(ended["type"], json!("Done"));
    assert_eq!(ended["message"], json!("as it was"));
    assert_eq!(run.get().await.expect("there").iteration, 3);
    assert_eq!(echoes(&env), [json!(true), json!(null), json!(null)]);
}

#[tokio::test]
async fn queries_tell_the_variables_and_the_current_step() {
    let env = world().await;
    let program = json!({"vars": {"x": 1}, "steps": [
        {"do": "set", "var": "y", "value": [2]},
        {"do": "parallel", "branches": [
            [{"do": "wait_signal", "name": "a"}],
            [{"do": "if", "cond": true, "then": [{"do": "sleep", "ms": 1_000_000}]}],
            []
        ]},
        {"do": "wait_signal", "name": "b"}
    ]});
    let run = start(&env, &program).await;
    let vars: Value = run.query("vars", &()).await.expect("answers");
    assert_eq!(vars, json!({"x": 1, "y": [2]}));
    let at: Value = run.query("where", &()).await.expect("answers");
    let branches = json!([
        {"path": "steps[1].branches[0][0]", "do": "wait_signal"},
        {"path": "steps[1].branches[1][0].then[0]", "do": "sleep"}
    ]);
    assert_eq!(
        at,
        json!({"path": "steps[1]", "do": "parallel", "branches": branches})
    );
    run.signal("a", &()).await.expect("sent");
    env.advance(Duration::from_secs(2_000)).await;
    let at: Value = run.query("where", &()).await.expect("answers");
    assert_eq!(at, json!({"path": "steps[2]", "do": "wait_signal"}));
}

#[tokio::test]
async fn an_update_sets_a_variable_on_arrival_and_is_waited_for() {
    let env = world().await;
    let program = json!({"vars": {"x": 1, "y": 1}, "steps": [
        {"do": "wait_update", "name": "y", "save": "update"},
        {"do": "return", "value": [{"$": "x"}, {"$": "update"}]}
    ]});
    let run = start(&env, &program).await;
    let set = async |name: &str, value: Value| {
        let update = json!({"name": name, "value": value});
        run.update::<Value>("set_var", &update).await
    };
    let refused = set("z", json!(1)).await.expect_err("refused");
    assert!(
        refused.to_string().contains("no variable \"z\""),
        "{refused}"
    );
    let odd = json!({"name": "x", "valu": 1});
    assert!(run.update::<Value>("set_var", &odd).await.is_err());
    let data = json!({"$": "data"});
    assert_eq!(set("x", data.clone()).await.expect("answered"), data);
    let vars: Value = run.query("vars", &()).await.expect("answers");
    assert_eq!(vars["x"], data, "applied, though nobody waits for x");
    assert_eq!(set("y", json!(2)).await.expect("answered"), json!(2));
    let expected = json!([{"$": "data"}, {"name": "y", "value": 2}]);
    assert_eq!(end(&run).await, Ok(expected));
}

#[tokio::test]
async fn attributes_are_set_and_removed() {
    let env = world().await;
    let program = json!({"vars": {"n": 7}, "steps": [
        {"do": "attributes", "set": {"region": "eu", "n": {"$": "n"}, "share": 0.5, "big": true, "old": 1}},
        {"do": "attributes", "set": {"old": null}}
    ]});
    let run = start(&env, &program).await;
    assert_eq!(end(&run).await, Ok(json!(null)));
    let id = run.id();
    let found = env.with(move |client| async move { client.attributes(id).await });
    let found = found.await.expect("there");
    let names: Vec<&String> = found.keys().collect();
    assert_eq!(names, ["big", "n", "region", "share"]);
    let wrong =
        json!({"vars": {"v": []}, "steps": [{"do": "attributes", "set": {"a": {"$": "v"}}}]});
    assert_eq!(error_type(wrong).await, "ExpressionError");
}

#[tokio::test]
async fn new_runs_take_the_new_side_of_a_patch() {
    let program = steps(json!([
        {"do": "patched", "id": "change", "then": [{"do": "set", "var": "side", "value": "new"}], "else": [{"do": "set", "var": "side", "value": "old"}]},
        {"do": "sleep", "ms": 10},
        {"do": "patched", "id": "change", "then": [{"do": "return", "value": {"$": "side"}}]}
    ]));
    assert_eq!(result(program).await, json!("new"));
}

#[tokio::test]
async fn an_unchecked_program_fails_cleanly() {
    let env = world().await;
    let broken = crate::world::payload(&json!({"steps": [{"do": "sing"}]}));
    let run = env
        .start::<durable_program::ProgramWorkflow>(broken)
        .await
        .expect("starts");
    let error = end(&run).await.expect_err("fails");
    assert_eq!(error["type"], json!("InvalidProgram"));
    assert_eq!(error["details"]["path"], json!("steps[0].do"));
}

// ---- the second look: one test for each sentence that had none ----------------------------------------

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

#[tokio::test]
async fn the_policy_says_what_becomes_of_a_child_whose_parent_ends_first() {
    use everruns_durable::prelude::{Page, RunFilter};

    let env = world().await;
    for (policy, expected) in [
        (json!("cancel"), "Cancelled"),
        (json!(null), "Cancelled"),
        (json!("abandon"), "Running"),
    ] {
        let mut child = json!({"do": "child", "id": format!("of-{policy}"), "program": {"steps": [{"do": "wait_signal", "name": "never"}]}});
        if !policy.is_null() {
            child["policy"] = policy.clone();
        }
        let program =
            steps(json!([{"do": "race", "branches": [[child], [{"do": "sleep", "ms": 1000}]]}]));
        let parent = start(&env, &program).await;
        assert!(end(&parent).await.is_ok());
        env.advance(Duration::from_secs(10)).await;
        let filter = RunFilter::default().business_id(format!("of-{policy}"));
        let found = env.with(|client| async move { client.list(filter, Page::default()).await });
        let found = found.await.expect("listed");
        assert_eq!(format!("{:?}", found.runs[0].status), expected, "{policy}");
    }
    let program = steps(
        json!([{"do": "child", "id": "killed", "policy": "terminate", "program": {"steps": [
            {"do": "try", "steps": [{"do": "wait_signal", "name": "never"}], "finally": [{"do": "activity", "type": "echo", "input": "cleaned"}]}
        ]}}]),
    );
    let parent = start(&env, &program).await;
    env.advance(Duration::from_secs(1)).await;
    parent.terminate("now").await.expect("asked");
    env.advance(Duration::from_secs(10)).await;
    let filter = RunFilter::default().business_id("killed");
    let found = env.with(|client| async move { client.list(filter, Page::default()).await });
    let killed = &found.await.expect("listed").runs[0];
    assert!(killed.status.is_terminal(), "{:?}", killed.status);
    assert_eq!(
        echoes(&env),
        [json!(null); 0],
        "terminated, not asked to stop"
    );
}

#[tokio::test]
async fn an_exhausted_activity_that_is_parked_keeps_its_run_waiting() {
    let program = steps(json!([
        {"do": "race", "branches": [
            [{"do": "activity", "type": "fail_n", "input": {"n": 9}, "options": {"max_attempts": 1, "on_exhausted": "park"}}],
            [{"do": "sleep", "ms": 60_000}, {"do": "return", "value": "parked"}]
        ], "save": "won"},
        {"do": "return", "value": {"$": "won.value"}}
    ]));
    assert_eq!(result(program).await, json!("parked"));
}

#[tokio::test]
async fn wait_update_waits_for_the_next_and_not_for_one_that_came_before() {
    let env = world().await;
    let program = json!({"vars": {"x": 0}, "steps": [
        {"do": "wait_signal", "name": "go"},
        {"do": "wait_update", "save": "update"},
        {"do": "return", "value": {"$": "update.value"}}
    ]});
    let run = start(&env, &program).await;
    let set = async |value: u32| {
        let update = json!({"name": "x", "value": value});
        run.update::<Value>("set_var", &update)
            .await
            .expect("taken")
    };
    set(1).await;
    run.signal("go", &()).await.expect("sent");
    env.advance(Duration::from_secs(1)).await;
    set(2).await;
    assert_eq!(end(&run).await, Ok(json!(2)));
    let vars: Value = run.query("vars", &()).await.expect("answers");
    assert_eq!(vars["x"], json!(2), "an ended run answers, too");
    let at: Value = run.query("where", &()).await.expect("answers");
    assert_eq!(at, json!(null));
}

#[tokio::test]
async fn signals_that_nobody_read_come_along_when_the_run_goes_on_as_new() {
    let env = world().await;
    let program = json!({"vars": {"round": 1}, "steps": [
        {"do": "sleep", "ms": 1000},
        {"do": "if", "cond": {"$eq": [{"$": "round"}, 1]}, "then": [{"do": "continue_as_new", "vars": {"round": 2}}]},
        {"do": "wait_signal", "name": "early", "save": "got"},
        {"do": "return", "value": {"$": "got"}}
    ]});
    let run = start(&env, &program).await;
    run.signal("early", "bird").await.expect("sent");
    assert_eq!(end(&run).await, Ok(json!("bird")));
}

#[tokio::test]
async fn the_deepest_program_runs() {
    let nest = |inner: Value, wrap: fn(Value) -> Value, times: usize| {
        (0..times).fold(inner, |inner, _| wrap(inner))
    };
    let leaf = json!({"do": "activity", "type": "echo", "input": "deep", "save": "x"});
    for (wrap, times) in [
        (
            (|inner| json!({"do": "if", "cond": true, "then": [inner]})) as fn(Value) -> Value,
            47,
        ),
        (
            |inner| json!({"do": "try", "steps": [inner], "finally": [{"do": "sleep", "ms": 1}]}),
            47,
        ),
        (
            |inner| json!({"do": "parallel", "branches": [[inner], [{"do": "sleep", "ms": 1}]]}),
            30,
        ),
        (
            |inner| json!({"do": "scope", "cancel_on_signal": "s", "steps": [inner]}),
            47,
        ),
    ] {
        let program =
            steps(json!([nest(leaf.clone(), wrap, times), {"do": "return", "value": {"$": "x"}}]));
        assert_eq!(result(program).await, json!("deep"));
    }
    let value = nest(json!(1), |inner| json!({"$add": [inner, 1]}), 45);
    assert_eq!(
        result(steps(json!([{"do": "return", "value": value}]))).await,
        json!(46)
    );
}

#[tokio::test]
async fn a_wide_fan_out_runs() {
    let branches: Vec<Value> = (0..1000)
        .map(|n| json!([{"do": "activity", "type": "echo", "input": n, "save": "last"}, {"do": "return", "value": n}]))
        .collect();
    let program = steps(json!([
        {"do": "parallel", "branches": branches, "save": "all"},
        {"do": "return", "value": {"$len": {"$": "all"}}}
    ]));
    let env = crate::world::built_ins(
        everruns_durable::testing::TestEnv::new().workflow::<durable_program::ProgramWorkflow>(),
    )
    .start()
    .await;
    assert_eq!(end(&start(&env, &program).await).await, Ok(json!(1000)));
}
