//! Programs and what is around them: children, the next iteration, queries, updates, attributes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{echoes, end, error_type, result, start, steps, world};

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
async fn names_of_variables_that_are_computed_are_checked_by_the_step_that_gives_them() {
    for step in [
        json!({"do": "continue_as_new", "vars": {"$": "bad"}}),
        json!({"do": "child", "program": {"vars": {"$": "bad"}, "steps": []}}),
    ] {
        let program = json!({"vars": {"bad": {"a.b": 1}}, "steps": [
            {"do": "try", "steps": [step], "save_error": "error", "catch": []},
            {"do": "return", "value": [{"$": "error.type"}, {"$": "error.message"}]}
        ]});
        let caught = result(program).await;
        assert_eq!(caught[0], json!("ExpressionError"), "{step}");
        let message = caught[1].as_str().expect("a message");
        assert!(
            message.contains("\"a.b\" is no variable's name"),
            "{message}"
        );
    }
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
