//! Every mistake is refused before the start, with its place.

use crate::world::mistake;
use everruns_durable::prelude::Payload;
use serde_json::{Value, json};

/// Each: a step, the path of its mistake, and a word that the problem has.
fn table() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!("sleep"), "steps[0]", "a step"),
        (json!({}), "steps[0]", "lacks \"do\""),
        (json!({"do": "sing"}), "steps[0].do", "wait_signal"),
        (json!({"do": {"$": "x"}}), "steps[0].do", "written out"),
        (json!({"do": "sleep"}), "steps[0]", "lacks \"ms\""),
        (
            json!({"do": "sleep", "ms": 1, "s": 1}),
            "steps[0].s",
            "unknown field",
        ),
        (
            json!({"do": "sleep", "ms": -1}),
            "steps[0].ms",
            "milliseconds",
        ),
        (
            json!({"do": "sleep", "ms": 1.5}),
            "steps[0].ms",
            "milliseconds",
        ),
        (
            json!({"do": "sleep", "ms": "1"}),
            "steps[0].ms",
            "milliseconds",
        ),
        (
            json!({"do": "sleep", "ms": 1e300}),
            "steps[0].ms",
            "milliseconds",
        ),
        (json!({"do": "activity"}), "steps[0]", "lacks \"type\""),
        (
            json!({"do": "activity", "type": {"$": "t"}}),
            "steps[0].type",
            "written out",
        ),
        (
            json!({"do": "activity", "type": ""}),
            "steps[0].type",
            "empty",
        ),
        (
            json!({"do": "activity", "type": "x".repeat(300)}),
            "steps[0].type",
            "limit",
        ),
        (
            json!({"do": "activity", "type": "a", "save": "a.b"}),
            "steps[0].save",
            "no dot",
        ),
        (
            json!({"do": "activity", "type": "a", "save": ""}),
            "steps[0].save",
            "empty",
        ),
        (
            json!({"do": "activity", "type": "a", "save": 1}),
            "steps[0].save",
            "string",
        ),
        (
            json!({"do": "activity", "type": "a", "save": "$x"}),
            "steps[0].save",
            "begin with $",
        ),
        (
            json!({"do": "activity", "type": "a", "options": []}),
            "steps[0].options",
            "an array",
        ),
        (
            json!({"do": "activity", "type": "a", "options": {"retries": 1}}),
            "steps[0].options.retries",
            "unknown field",
        ),
        (
            json!({"do": "activity", "type": "a", "options": {"max_attempts": 0}}),
            "steps[0].options.max_attempts",
            "from 1",
        ),
        (
            json!({"do": "activity", "type": "a", "options": {"on_exhausted": "die"}}),
            "steps[0].options.on_exhausted",
            "park",
        ),
        (
            json!({"do": "activity", "type": "a", "options": {"priority": 1e10}}),
            "steps[0].options.priority",
            "32 bits",
        ),
        (
            json!({"do": "activity", "type": "a", "options": {"backoff": -1}}),
            "steps[0].options.backoff",
            "0 or more",
        ),
        (
            json!({"do": "local", "type": "a", "options": {}}),
            "steps[0].options",
            "unknown field",
        ),
        (json!({"do": "wait_signal"}), "steps[0]", "lacks \"name\""),
        (
            json!({"do": "wait_signal", "name": "cancel"}),
            "steps[0].name",
            "another name",
        ),
        (
            json!({"do": "wait_signal", "name": "a", "timeout_ms": true}),
            "steps[0].timeout_ms",
            "milliseconds",
        ),
        (json!({"do": "parallel"}), "steps[0]", "lacks \"branches\""),
        (
            json!({"do": "parallel", "branches": {}}),
            "steps[0].branches",
            "array",
        ),
        (
            json!({"do": "parallel", "branches": [{"do": "sleep", "ms": 1}]}),
            "steps[0].branches[0]",
            "array of steps",
        ),
        (
            json!({"do": "parallel", "branches": [[], [{"do": "set", "var": "x"}]]}),
            "steps[0].branches[1][0]",
            "lacks \"value\"",
        ),
        (
            json!({"do": "race", "branches": []}),
            "steps[0].branches",
            "empty",
        ),
        (json!({"do": "child"}), "steps[0]", "program"),
        (
            json!({"do": "child", "program": {"steps": []}, "workflow_type": "a"}),
            "steps[0]",
            "both",
        ),
        (
            json!({"do": "child", "program": {"steps": [{"do": "x"}]}}),
            "steps[0].program.steps[0].do",
            "no such step",
        ),
        (
            json!({"do": "child", "program": {}}),
            "steps[0].program",
            "lacks \"steps\"",
        ),
        (
            json!({"do": "child", "workflow_type": "a", "policy": "kill"}),
            "steps[0].policy",
            "abandon",
        ),
        (
            json!({"do": "child", "workflow_type": "a", "id": ""}),
            "steps[0].id",
            "1 to 512",
        ),
        (
            json!({"do": "side_effect", "kind": "dice", "save": "x"}),
            "steps[0].kind",
            "uuid",
        ),
        (
            json!({"do": "side_effect", "kind": "uuid"}),
            "steps[0]",
            "lacks \"save\"",
        ),
        (
            json!({"do": "set", "var": "x.y", "value": 1}),
            "steps[0].var",
            "no dot",
        ),
        (
            json!({"do": "if", "cond": 1, "then": []}),
            "steps[0].cond",
            "true or false",
        ),
        (
            json!({"do": "if", "cond": true}),
            "steps[0]",
            "lacks \"then\"",
        ),
        (
            json!({"do": "if", "cond": true, "then": [], "elif": []}),
            "steps[0].elif",
            "unknown field",
        ),
        (
            json!({"do": "repeat", "times": -1, "steps": []}),
            "steps[0].times",
            "from 0",
        ),
        (
            json!({"do": "while", "cond": true, "steps": []}),
            "steps[0]",
            "lacks \"max\"",
        ),
        (
            json!({"do": "while", "cond": "x", "max": 1, "steps": []}),
            "steps[0].cond",
            "true or false",
        ),
        (json!({"do": "try"}), "steps[0]", "lacks \"steps\""),
        (
            json!({"do": "try", "steps": [], "catch": {}}),
            "steps[0].catch",
            "array of steps",
        ),
        (
            json!({"do": "try", "steps": [], "save_error": 1}),
            "steps[0].save_error",
            "string",
        ),
        (
            json!({"do": "compensate", "steps": [1]}),
            "steps[0].steps[0]",
            "a step",
        ),
        (
            json!({"do": "patched", "then": []}),
            "steps[0]",
            "lacks \"id\"",
        ),
        (
            json!({"do": "attributes", "set": 1}),
            "steps[0].set",
            "object",
        ),
        (
            json!({"do": "attributes", "set": {"a": []}}),
            "steps[0].set.a",
            "an array",
        ),
        (
            json!({"do": "attributes", "set": {"a": {"$": "x"}, "b": {"c": 1}}}),
            "steps[0].set.b",
            "an object",
        ),
        (
            json!({"do": "attributes", "set": {"": {"$": "x"}}}),
            "steps[0].set.",
            "empty",
        ),
        (
            json!({"do": "attributes", "set": [{"$": "x"}]}),
            "steps[0].set",
            "an array",
        ),
        (
            json!({"do": "continue_as_new"}),
            "steps[0]",
            "lacks \"vars\"",
        ),
        (
            json!({"do": "continue_as_new", "vars": []}),
            "steps[0].vars",
            "object",
        ),
        (
            json!({"do": "continue_as_new", "vars": {"a.b": 1}}),
            "steps[0].vars.a.b",
            "no dot",
        ),
        (
            json!({"do": "on_signal", "name": "a"}),
            "steps[0]",
            "append_to",
        ),
        (
            json!({"do": "scope", "steps": []}),
            "steps[0]",
            "cancel_on_signal",
        ),
        (
            json!({"do": "wait_update", "name": "x.y"}),
            "steps[0].name",
            "no dot",
        ),
        (
            json!({"do": "wait_update", "for": "x"}),
            "steps[0].for",
            "unknown field",
        ),
        (json!({"do": "fail"}), "steps[0]", "lacks \"type\""),
        (
            json!({"do": "fail", "type": "A", "message": 1}),
            "steps[0].message",
            "a string",
        ),
        (
            json!({"do": "return", "values": 1}),
            "steps[0].values",
            "unknown field",
        ),
    ]
}

#[test]
fn every_mistake_in_a_step_is_refused_with_its_place() {
    for (step, path, word) in table() {
        let found = mistake(&json!({"steps": [step]}));
        assert_eq!(found.path, path, "{step}: {found}");
        assert!(found.problem.contains(word), "{step}: {found}");
    }
}

#[test]
fn every_mistake_in_an_expression_is_refused_with_its_place() {
    for (value, path, word) in [
        (json!({"$plus": [1, 2]}), "$plus", "$add"),
        (json!({"$": "x", "y": 1}), "$", "only that key"),
        (
            json!({"$add": [1, 2], "$sub": [1, 2]}),
            "$add",
            "only that key",
        ),
        (json!({"$lit": 1, "x": 1}), "$lit", "only that key"),
        (json!({"$": 1}), "$", "name"),
        (json!({"$": ""}), "$", "empty part"),
        (json!({"$": "a..b"}), "$", "empty part"),
        (json!({"$": {"$": "x"}}), "$", "name"),
        (json!({"$add": 1}), "$add", "two operands"),
        (json!({"$add": [1]}), "$add", "two operands"),
        (json!({"$add": [1, 2, 3]}), "$add", "has 3"),
        (json!({"$and": []}), "$and", "one or more"),
        (json!({"$get": ["a"]}), "$get", "two operands"),
        (
            json!({"$add": [1, {"$sub": [1, {"$nix": 1}]}]}),
            "$add[1].$sub[1].$nix",
            "no such operator",
        ),
        (
            json!({"a": [{"b": {"$len": {"$x": 1}}}]}),
            "a[0].b.$len.$x",
            "no such operator",
        ),
    ] {
        let found = mistake(&json!({"steps": [{"do": "return", "value": value}]}));
        assert_eq!(
            found.path,
            format!("steps[0].value.{path}"),
            "{value}: {found}"
        );
        assert!(found.problem.contains(word), "{value}: {found}");
    }
}

#[test]
fn every_mistake_in_the_program_itself_is_refused_with_its_place() {
    for (program, path) in [
        (json!(null), ""),
        (json!([]), ""),
        (json!({}), ""),
        (json!({"vars": {}}), ""),
        (json!({"steps": {}}), "steps"),
        (json!({"steps": [], "var": {}}), "var"),
        (json!({"steps": [], "vars": []}), "vars"),
        (json!({"steps": [], "vars": {"": 1}}), "vars."),
        (json!({"steps": [], "vars": {"a.b": 1}}), "vars.a.b"),
        (
            json!({"steps": [], "vars": {"a": {"$nix": 1}}}),
            "vars.a.$nix",
        ),
        (json!({"steps": [], "vars": {"$": "a"}, "x": 1}), "x"),
    ] {
        assert_eq!(mistake(&program).path, path, "{program}");
    }
    let nested = json!({"steps": [{"do": "set", "var": "x", "value": 1}, {"do": "sleep", "ms": 1},
        {"do": "parallel", "branches": [[{"do": "return"}, {"do": "activity", "type": "add", "input": {"$add": 1}}]]}]});
    assert_eq!(mistake(&nested).path, "steps[2].branches[0][1].input.$add");
}

#[test]
fn data_is_not_looked_into_where_it_is_quoted() {
    let program = json!({"vars": {"a": {"$lit": {"$nix": {"$add": 1}, "b": 1}}}, "steps": []});
    assert_eq!(
        durable_program::check(&crate::world::payload(&program)),
        Ok(())
    );
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let text = r#"{"steps": [{"do": "sleep", "ms": 1, "ms": 2}]}"#;
    let program = Payload::from_json_text(text).expect("JSON");
    let found = durable_program::check(&program).expect_err("refused");
    assert_eq!(found.path, "steps[0].ms");
}

#[test]
fn a_program_without_end_is_refused() {
    let many: Vec<Value> = (0..10_001).map(|_| json!({"do": "return"})).collect();
    assert_eq!(mistake(&json!({"steps": many})).path, "steps[10000]");
}

#[test]
fn nothing_that_is_no_program_panics() {
    for text in [
        "",
        "null",
        "1",
        "\"x\"",
        "[[[]]]",
        "{\"steps\":[[]]}",
        "{\"steps\":[{\"do\":null}]}",
    ] {
        let input = match text {
            "" => Payload::ABSENT,
            text => Payload::from_json_text(text).expect("JSON"),
        };
        let found = durable_program::check(&input).expect_err(text);
        assert!(!found.to_string().is_empty());
    }
}
