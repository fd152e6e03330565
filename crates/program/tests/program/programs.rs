//! The language: small programs and what they come to; steps and branches.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{
    echoes, end, error_type, logged, note, result, return_log, start, steps, world,
};

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

/// A turn stores so many items or nothing: a program that asks for more has to fail, not to be refused by the store for ever.
#[tokio::test]
async fn branches_that_record_too_much_at_once_fail_the_run() {
    let many = |what: Value| json!([{"do": "repeat", "times": 9_000, "steps": [what]}, {"do": "sleep", "ms": 1}]);
    for what in [
        json!({"do": "side_effect", "kind": "now", "save": "x"}),
        json!({"do": "local", "type": "echo", "input": 1}),
    ] {
        let branches = vec![many(what.clone()); 3];
        let program = steps(json!([
            {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undone"}]},
            {"do": "try", "steps": [{"do": "parallel", "branches": branches}], "catch": []}
        ]));
        let env = world().await;
        let error = end(&start(&env, &program).await).await.expect_err("fails");
        assert_eq!(error["type"], json!("StepLimit"), "{error}");
        assert_eq!(echoes(&env).last(), Some(&json!("undone")));
    }
    let side_effect = json!({"do": "side_effect", "kind": "now", "save": "x"});
    let waits = steps(
        json!([{"do": "repeat", "times": 3, "steps": many(side_effect)}, {"do": "return", "value": "done"}]),
    );
    assert_eq!(result(waits).await, json!("done"));
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
