//! What leaves a program fits the store, or is refused where the program can still catch it.

use serde_json::{Value, json};

use crate::world::{echoes, end, error_type, result, start, steps, world};

/// Doubles the array or the text `a` so many times.
fn double(times: u32) -> Value {
    let doubled = json!({"$concat": [{"$": "a"}, {"$": "a"}]});
    json!({"do": "repeat", "times": times, "steps": [{"do": "set", "var": "a", "value": doubled}]})
}

fn set(value: &Value) -> Value {
    json!({"do": "set", "var": "a", "value": value})
}

/// An expression that nests `levels` deep around another.
fn nested(levels: usize, inner: Value) -> Value {
    (0..levels).fold(inner, |inner, _| json!([inner]))
}

#[tokio::test]
async fn values_are_measured_as_they_are_written() {
    // By their own length they would fit three times; as JSON they are too large to be stored.
    for value in [
        json!(vec![1.234_567_890_123_456_7e-300; 100]),
        json!(vec![-1_234_567_890_123_456_789_i64; 100]),
        json!("\"".repeat(1000)),
        json!("\u{1}".repeat(1000)),
    ] {
        let program =
            steps(json!([set(&value), double(11), {"do": "return", "value": {"$": "a"}}]));
        assert_eq!(error_type(program).await, "ExpressionError");
    }
}

#[tokio::test]
async fn a_result_that_nests_too_deep_is_raised_caught_and_undone() {
    let too_deep = json!({"do": "return", "value": nested(30, json!({"$": "a"}))});
    let caught = steps(json!([
        set(&nested(80, json!(1))),
        {"do": "try", "steps": [too_deep], "save_error": "error", "catch": [{"do": "return", "value": {"$": "error.message"}}]}
    ]));
    let message = result(caught).await;
    let message = message.as_str().expect("a text");
    assert!(message.contains("steps[1].steps[0]"), "{message}");
    assert!(message.contains("nests deeper than 100"), "{message}");

    let env = world().await;
    let uncaught = steps(json!([
        {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undone"}]},
        set(&nested(80, json!(1))),
        too_deep
    ]));
    let ended = end(&start(&env, &uncaught).await).await;
    assert_eq!(ended.expect_err("fails")["type"], json!("ExpressionError"));
    assert_eq!(echoes(&env), [json!("undone")]);
}

#[tokio::test]
async fn an_error_does_not_repeat_more_than_is_stored() {
    // Two numbers of some two million digits each: the message names both.
    let digits = format!(
        r#"{{"vars":{{"a":{}}},"steps":[{{"do":"set","var":"b","value":{{"$add":[{{"$":"a"}},{{"$":"a"}}]}}}}]}}"#,
        "7".repeat(2_200_000)
    );
    let env = world().await;
    let input = everruns_durable::prelude::Payload::from_json_text(digits).expect("JSON");
    let run = env.start::<durable_program::ProgramWorkflow>(input).await;
    let ended = end(&run.expect("starts")).await.expect_err("overflows");
    assert_eq!(ended["type"], json!("ExpressionError"));
    let message = ended["message"].as_str().expect("a text");
    assert!(message.contains("$add of 777"));
    assert!(message.len() < 20_000, "{}", message.len());
}

#[tokio::test]
async fn branches_hand_out_no_more_at_once_than_a_turn_stores() {
    let branch = json!([{"do": "activity", "type": "echo", "input": {"$": "a"}}]);
    let program = steps(json!([
        set(&json!("x".repeat(1000))),
        double(11),
        {"do": "parallel", "branches": vec![branch; 140]}
    ]));
    assert_eq!(error_type(program).await, "StepLimit");
    let local = json!({"do": "local", "type": "echo", "input": {"$": "a"}, "save": "b"});
    let program = steps(json!([
        set(&json!("x".repeat(1000))),
        double(10),
        {"do": "repeat", "times": 300, "steps": [local]}
    ]));
    assert_eq!(error_type(program).await, "StepLimit");
}

#[tokio::test]
async fn the_answer_of_an_update_is_within_what_is_stored() {
    let env = world().await;
    let program = json!({"vars": {"a": 0}, "steps": [{"do": "wait_signal", "name": "go"}]});
    let run = start(&env, &program).await;
    // 1e15 is four bytes as it comes, and eighteen as it is written.
    let many = vec!["1e15"; 300_000].join(",");
    let input: Box<serde_json::value::RawValue> =
        serde_json::from_str(&format!(r#"{{"name":"a","value":[{many}]}}"#)).expect("JSON");
    let refused = run.update::<Value>("set_var", &input).await;
    let refused = refused.expect_err("too large").to_string();
    assert!(refused.contains("the variables would hold"), "{refused}");
    run.signal("go", &()).await.expect("sent");
    assert_eq!(end(&run).await, Ok(json!(null)));
}

/// A short program with a large value: what its expressions go through counts, not how many there are.
#[tokio::test]
async fn work_within_expressions_counts_whether_it_has_a_value_or_not() {
    let large = || [set(&json!("x".repeat(1000))), double(10)];
    let for_ever =
        |steps: Value| json!({"do": "repeat", "times": 1_000_000_000_u64, "steps": steps});
    let len = json!({"$len": {"$": "a"}});
    let less = json!({"$lt": [{"$": "a"}, {"$": "a"}]});
    let keep = |value: &Value| json!({"do": "set", "var": "b", "value": value});
    let fails = keep(&json!({"$add": [len, "none"]}));
    for spin in [
        for_ever(json!([keep(&len)])),
        for_ever(json!([keep(&less)])),
        json!({"do": "while", "cond": {"$not": less}, "max": 1_000_000_000_u64, "steps": []}),
        for_ever(json!([{"do": "try", "steps": [fails], "catch": []}])),
    ] {
        let [first, second] = large();
        let program = steps(json!([first, second, spin]));
        assert_eq!(error_type(program).await, "StepLimit");
    }
    // Two million parts, and nothing that is large.
    let wide = json!({"$or": vec![json!({"$": "no"}); 2_000]});
    let many = json!({"do": "if", "cond": wide, "then": []});
    let program = json!({"vars": {"no": false}, "steps": [
        {"do": "repeat", "times": 1_000, "steps": [many]}
    ]});
    assert_eq!(error_type(program).await, "StepLimit");
}

/// A branch that waits gives the others nothing to spend.
#[tokio::test]
async fn branches_spend_together_what_a_turn_has() {
    let spin = |times: u32| json!([{"do": "repeat", "times": times, "steps": []}, {"do": "sleep", "ms": 1}]);
    let parallel = |times| {
        steps(
            json!([{"do": "parallel", "branches": vec![spin(times); 4]}, {"do": "return", "value": 1}]),
        )
    };
    assert_eq!(error_type(parallel(400_000)).await, "StepLimit");
    assert_eq!(result(parallel(200_000)).await, json!(1));
    // One turn after the other has it anew.
    let turns = steps(json!([
        {"do": "repeat", "times": 3, "steps": spin(900_000)},
        {"do": "return", "value": 1}
    ]));
    assert_eq!(result(turns).await, json!(1));
}

/// Clean-up has its share once a turn, however many compensations there are.
#[tokio::test]
async fn compensations_do_not_spin_one_after_the_other() {
    let spin = json!({"do": "repeat", "times": 1_000_000_000_u64, "steps": []});
    let undo = json!({"do": "compensate", "steps": [spin]});
    let program = steps(json!([
        {"do": "compensate", "steps": [{"do": "repeat", "times": 100_000, "steps": [undo]}]},
        {"do": "fail", "type": "Undo", "message": "all"}
    ]));
    assert_eq!(error_type(program).await, "Undo");
}
