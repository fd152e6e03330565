//! Numbers that are longer than 64 bits: handed on digit by digit, compared, and never rounded.

use everruns_durable::prelude::Payload;
use serde_json::{Value, json};

use crate::world::{end, world};
use durable_program::ProgramWorkflow;

/// 2^70 and a decimal that no float holds.
const LONG: &str = "1180591620717411303424";
const DECIMAL: &str = "3.14159265358979323846264";

fn payload(text: impl Into<String>) -> Payload {
    Payload::from_json_text(text.into()).expect("JSON")
}

/// Runs a program that is given as text, and answers the text of its result.
async fn text(program: String) -> String {
    let env = world().await;
    let input = payload(program);
    durable_program::check(&input).expect("a program");
    let run = env.start::<ProgramWorkflow>(input).await.expect("starts");
    let record = run.ended().await.expect("ends");
    assert_eq!(record.error, None);
    String::from_utf8(record.result.as_bytes().to_vec()).expect("text")
}

#[tokio::test]
async fn digits_are_handed_on_as_they_are_written() {
    let program = r#"{"vars": {"n": LONG, "again": false, "o": {"list": [LONG, DECIMAL]}}, "steps": [
        {"do": "if", "cond": {"$not": {"$": "again"}}, "then": [
            {"do": "continue_as_new", "vars": {"n": {"$": "n"}, "o": {"$": "o"}, "again": true}}
        ]},
        {"do": "activity", "type": "echo", "input": {"$": "o.list"}, "save": "echoed"},
        {"do": "local", "type": "echo", "input": LONG, "save": "local"},
        {"do": "child", "program": {"vars": {"x": {"$": "n"}}, "steps": [{"do": "return", "value": [{"$": "x"}, LONG]}]}, "save": "child"},
        {"do": "parallel", "branches": [[{"do": "return", "value": {"$get": [{"$": "o.list"}, 1]}}]], "save": "branches"},
        {"do": "return", "value": [{"$": "n"}, {"$": "echoed"}, {"$": "local"}, {"$": "child"}, {"$": "branches"}, {"$lit": -LONG}, {"$concat": [[LONG], []]}]}
    ]}"#;
    let program = program.replace("LONG", LONG).replace("DECIMAL", DECIMAL);
    let expected =
        "[LONG,[LONG,DECIMAL],LONG,[LONG,LONG],[DECIMAL],-LONG,[LONG]]".replace("LONG", LONG);
    assert_eq!(text(program).await, expected.replace("DECIMAL", DECIMAL));
}

#[tokio::test]
async fn digits_come_in_and_are_told_as_they_are() {
    let env = world().await;
    let program = json!({"vars": {"n": 1}, "steps": [
        {"do": "on_signal", "name": "each", "append_to": "all"},
        {"do": "wait_signal", "name": "s", "save": "s"},
        {"do": "return", "value": [{"$": "n"}, {"$": "s"}, {"$": "all"}]}
    ]});
    let run = crate::world::start(&env, &program).await;
    let update = payload(format!("{{\"name\": \"n\", \"value\": {LONG}}}"));
    let answer: Payload = run.update("set_var", &update).await.expect("answered");
    assert_eq!(answer, payload(LONG));
    run.signal("each", &payload(LONG)).await.expect("sent");
    let vars: Payload = run.query("vars", &()).await.expect("answers");
    assert_eq!(vars, payload(format!("{{\"all\":[{LONG}],\"n\":{LONG}}}")));
    run.signal("s", &payload(LONG)).await.expect("sent");
    let record = run.ended().await.expect("ends");
    assert_eq!(record.result, payload(format!("[{LONG},{LONG},[{LONG}]]")));
}

#[tokio::test]
async fn digits_compare_by_value() {
    let program = r#"{"vars": {"n": LONG}, "steps": [{"do": "return", "value": [
        {"$eq": [{"$": "n"}, LONG]}, {"$eq": [{"$": "n"}, LONG.0]}, {"$lt": [LONG, {"$": "n"}]}, {"$lt": [1, {"$": "n"}]}, {"$lt": [{"$": "n"}, -LONG]},
        {"$eq": [18446744073709551616, 18446744073709551617]}
    ]}]}"#;
    let program = program.replace("LONG", LONG);
    assert_eq!(text(program).await, "[true,true,false,true,false,false]");
}

#[tokio::test]
async fn what_would_be_rounded_raises() {
    let env = world().await;
    for (expression, error_type) in [
        (r#"{"$add": [LONG, 1]}"#, "ExpressionError"),
        (r#"{"$sub": [{"$": "n"}, {"$": "n"}]}"#, "ExpressionError"),
        (r#"{"$mul": [{"$": "n"}, 0.5]}"#, "ExpressionError"),
    ] {
        let program = format!(
            r#"{{"vars": {{"n": LONG}}, "steps": [{{"do": "return", "value": {expression}}}]}}"#
        );
        let input = payload(program.replace("LONG", LONG));
        let run = env.start::<ProgramWorkflow>(input).await.expect("starts");
        let error = end(&run).await.expect_err(expression);
        assert_eq!(error["type"], json!(error_type), "{expression}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("overflows"), "{message}");
        assert!(message.contains(LONG), "{message}");
    }
    let add = r#"{"steps": [{"do": "activity", "type": "add", "input": {"a": LONG, "b": 1}}]}"#;
    let input = payload(add.replace("LONG", LONG));
    let run = env.start::<ProgramWorkflow>(input).await.expect("starts");
    let error: Value = end(&run).await.expect_err("overflows");
    assert!(
        error["message"].to_string().contains("overflows"),
        "{error}"
    );
}
