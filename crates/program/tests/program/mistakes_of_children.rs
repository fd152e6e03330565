//! A child's mistakes are refused with its parent, as far as they are written out.

use crate::world::mistake;
use serde_json::{Value, json};

/// Children are checked as far as they are written out, wherever they stand.
#[test]
fn every_mistake_in_a_child_is_refused_at_the_parents_start() {
    let bad = json!({"steps": [{"do": "sleep"}]});
    let lit = json!({"$lit": bad});
    let typed =
        |input: Value| json!({"do": "child", "workflow_type": "durable.program", "input": input});
    for (step, path) in [
        (json!({"do": "child", "program": bad}), "program.steps[0]"),
        (
            json!({"do": "child", "program": lit}),
            "program.$lit.steps[0]",
        ),
        (typed(json!(null)), "input"),
        (typed(json!([{"$": "x"}])), "input"),
        (typed(bad.clone()), "input.steps[0]"),
        (typed(lit.clone()), "input.$lit.steps[0]"),
        (typed(json!({"vars": {"$": "x"}})), "input"),
        (typed(json!({"steps": {"$": "x"}, "more": 1})), "input.more"),
        (
            typed(json!({"vars": {"a": {"$": "x"}, "b.c": 1}, "steps": []})),
            "input.vars.b.c",
        ),
        (
            typed(json!({"vars": {"$lit": {"b.c": 1}}, "steps": []})),
            "input.vars.$lit.b.c",
        ),
        (
            typed(
                json!({"vars": {"x": {"$": "y"}}, "steps": [{"do": "return", "value": {"$": "x"}}, {"do": "sing"}]}),
            ),
            "input.steps[1].do",
        ),
        (
            typed(
                json!({"vars": {"x": {"$": "y"}}, "steps": {"$lit": [{"do": "set", "var": "x", "value": {"$nix": 1}}]}}),
            ),
            "input.steps.$lit[0].value.$nix",
        ),
        (
            typed(json!({"steps": [{"$lit": {"do": "return", "value": {"$nix": 1}}}]})),
            "input.steps[0].$lit.value.$nix",
        ),
        (
            json!({"do": "child", "program": {"steps": [{"do": "child", "program": {"vars": {"a.b": 1}, "steps": []}}]}}),
            "program.steps[0].program.vars.a.b",
        ),
    ] {
        let found = mistake(&json!({"steps": [step]}));
        assert_eq!(found.path, format!("steps[0].{path}"), "{step}: {found}");
        let deep = json!({"steps": [{"do": "try", "steps": [], "finally": [{"do": "parallel", "branches": [[], [step]]}]}]});
        let expected = format!("steps[0].finally[0].branches[1][0].{path}");
        assert_eq!(mistake(&deep).path, expected, "{step}");
    }
}

#[test]
fn a_child_that_is_known_later_is_not_refused() {
    for step in [
        json!({"do": "child", "program": {"$": "code"}}),
        json!({"do": "child", "program": {"$get": [{"$": "codes"}, 0]}}),
        json!({"do": "child", "workflow_type": "durable.program", "input": {"$": "code"}}),
        json!({"do": "child", "workflow_type": "durable.program", "input": {"vars": {"$": "v"}, "steps": {"$": "s"}}}),
        json!({"do": "child", "workflow_type": "durable.program", "input": {"steps": [{"do": "sleep", "ms": {"$": "ms"}}, {"$": "s"}]}}),
        json!({"do": "child", "workflow_type": "mine", "input": {"steps": 1}}),
    ] {
        let program = json!({"steps": [step]});
        let checked = durable_program::check(&crate::world::payload(&program));
        assert_eq!(checked, Ok(()), "{program}");
    }
}
