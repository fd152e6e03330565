//! What expressions come to, and what has no value.

use crate::world::{end, error_type, result, start, world};
use proptest::prelude::*;
use serde_json::{Value, json};

fn vars() -> Value {
    json!({
        "n": 7, "f": 1.5, "s": "text", "t": true, "z": null,
        "a": [10, {"b": "deep"}, [1, 2]],
        "o": {"k": 1, "0": "zero", "x": {"y": [5]}}
    })
}

/// Evaluates many expressions in one run.
async fn values(expressions: &[Value]) -> Vec<Value> {
    let program = json!({"vars": vars(), "steps": [{"do": "return", "value": expressions}]});
    match result(program).await {
        Value::Array(values) => values,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn expressions_have_these_values() {
    let table = [
        (json!({"$": "n"}), json!(7)),
        (json!({"$": "a.0"}), json!(10)),
        (json!({"$": "a.1.b"}), json!("deep")),
        (json!({"$": "a.2.1"}), json!(2)),
        (json!({"$": "o.0"}), json!("zero")),
        (json!({"$": "o.x.y.0"}), json!(5)),
        (json!({"$": "a.9"}), json!(null)),
        (json!({"$": "a.b"}), json!(null)),
        (json!({"$": "n.x.y"}), json!(null)),
        (json!({"$": "nothing.at.all"}), json!(null)),
        (json!({"$add": [1, 2]}), json!(3)),
        (json!({"$add": [{"$": "n"}, {"$": "f"}]}), json!(8.5)),
        (json!({"$add": [1.0, 2]}), json!(3.0)),
        (
            json!({"$add": [9_007_199_254_740_993_i64, 1]}),
            json!(9_007_199_254_740_994_i64),
        ),
        (json!({"$add": [i64::MAX, 0]}), json!(i64::MAX)),
        (json!({"$sub": [i64::MIN + 1, 1]}), json!(i64::MIN)),
        (json!({"$sub": [u64::MAX, u64::MAX]}), json!(0)),
        (json!({"$sub": [1, 0.5]}), json!(0.5)),
        (json!({"$mul": [-3, 4]}), json!(-12)),
        (
            json!({"$mul": [3_037_000_499_i64, 3_037_000_499_i64]}),
            json!(9_223_372_030_926_249_001_i64),
        ),
        (json!({"$eq": [1, 1.0]}), json!(true)),
        (
            json!({"$eq": [{"a": [1, {"b": 2.0}]}, {"a": [1.0, {"b": 2}]}]}),
            json!(true),
        ),
        (
            json!({"$eq": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}),
            json!(true),
        ),
        (json!({"$eq": [[1, 2], [2, 1]]}), json!(false)),
        (
            json!({"$eq": [{"a": 1}, {"a": 1, "b": null}]}),
            json!(false),
        ),
        (json!({"$eq": [1, "1"]}), json!(false)),
        (json!({"$eq": [{"$": "nothing"}, null]}), json!(true)),
        (
            json!({"$eq": [9_007_199_254_740_993_i64, 9_007_199_254_740_992.0]}),
            json!(false),
        ),
        (json!({"$lt": [1, 1.5]}), json!(true)),
        (json!({"$lt": [1.0, 1]}), json!(false)),
        (json!({"$lt": ["a", "b"]}), json!(true)),
        (json!({"$lt": ["Z", "a"]}), json!(true)),
        (json!({"$lt": ["ab", "a"]}), json!(false)),
        (json!({"$not": {"$": "t"}}), json!(false)),
        (json!({"$not": [false]}), json!(true)),
        (json!({"$and": [true, {"$": "t"}]}), json!(true)),
        (json!({"$and": [true, false, true]}), json!(false)),
        (json!({"$or": [false, false]}), json!(false)),
        (json!({"$or": [false, true]}), json!(true)),
        // What comes after the operand that decides is not computed.
        (json!({"$and": [false, "x"]}), json!(false)),
        (json!({"$or": [true, null]}), json!(true)),
        (
            json!({"$and": [{"$lt": [2, {"$len": {"$": "s"}}]}, {"$lt": [{"$": "s"}, "u"]}]}),
            json!(true),
        ),
        (
            json!({"$and": [{"$lt": [0, {"$len": {"$": "o"}}]}, {"$not": {"$eq": [{"$": "z"}, null]}}, {"$lt": [0, {"$": "z"}]}]}),
            json!(false),
        ),
        (
            json!({"$or": [{"$eq": [{"$": "z"}, null]}, {"$lt": [{"$": "z"}, 1]}]}),
            json!(true),
        ),
        (
            json!({"$not": {"$or": [{"$and": [false, {"$add": [1, null]}]}, true, {"$not": 1}]}}),
            json!(false),
        ),
        (json!({"$concat": ["a", {"$": "s"}, "b"]}), json!("atextb")),
        (
            json!({"$concat": [[1], [], {"$": "a.2"}]}),
            json!([1, 1, 2]),
        ),
        (json!({"$len": "äöü😀"}), json!(4)),
        (json!({"$len": [1, [2, 3]]}), json!(2)),
        (json!({"$len": {"$": "o"}}), json!(3)),
        (json!({"$len": ""}), json!(0)),
        (json!({"$get": [{"$": "o"}, "k"]}), json!(1)),
        (
            json!({"$get": [{"$": "a"}, {"$sub": [{"$": "n"}, 6]}]}),
            json!({"b": "deep"}),
        ),
        (json!({"$get": [{"$": "o"}, "missing"]}), json!(null)),
        (json!({"$get": [{"$": "a"}, 99]}), json!(null)),
        (json!({"$get": [{"$": "nothing"}, "k"]}), json!(null)),
        (
            json!({"$lit": {"$add": [1, {"$": "n"}]}}),
            json!({"$add": [1, {"$": "n"}]}),
        ),
        (json!({"$lit": {"$lit": 1}}), json!({"$lit": 1})),
        (
            json!([{"a": {"$": "n"}}, "b", null]),
            json!([{"a": 7}, "b", null]),
        ),
    ];
    let expressions: Vec<Value> = table
        .iter()
        .map(|(expression, _)| expression.clone())
        .collect();
    let found = values(&expressions).await;
    for ((expression, expected), found) in table.iter().zip(found) {
        assert_eq!(&found, expected, "{expression}");
        assert_eq!(
            found.to_string(),
            expected.to_string(),
            "{expression}: the same text"
        );
    }
}

#[tokio::test]
async fn what_has_no_value_raises_expression_error() {
    let env = world().await;
    for expression in [
        json!({"$add": [1, "2"]}),
        json!({"$add": ["1", "2"]}),
        json!({"$add": [null, 1]}),
        json!({"$add": [i64::MAX, 1]}),
        json!({"$sub": [i64::MIN, 1]}),
        json!({"$mul": [i64::MAX, 2]}),
        json!({"$mul": [1e308, 10]}),
        json!({"$add": [u64::MAX, 0]}),
        json!({"$lt": [1, "2"]}),
        json!({"$lt": [[1], [2]]}),
        json!({"$lt": [true, false]}),
        json!({"$lt": [null, 1]}),
        json!({"$not": 1}),
        json!({"$not": null}),
        json!({"$and": [true, 1]}),
        json!({"$and": ["x", false]}),
        json!({"$or": [false, null, true]}),
        json!({"$concat": ["a", 1]}),
        json!({"$concat": ["a", ["b"]]}),
        json!({"$concat": [{"a": 1}]}),
        json!({"$len": 5}),
        json!({"$len": null}),
        json!({"$len": true}),
        json!({"$get": [5, "a"]}),
        json!({"$get": [[1], "a"]}),
        json!({"$get": [{"a": 1}, 0]}),
        json!({"$get": [[1], 0.5]}),
    ] {
        let program = json!({"vars": vars(), "steps": [{"do": "set", "var": "x", "value": 1}, {"do": "return", "value": expression}]});
        let error = end(&start(&env, &program).await).await;
        let error = error.expect_err(&expression.to_string());
        assert_eq!(error["type"], json!("ExpressionError"), "{expression}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.starts_with("steps[1]: "), "{message}");
    }
}

#[tokio::test]
async fn fields_that_compute_something_unfit_raise_expression_error() {
    for step in [
        json!({"do": "sleep", "ms": {"$": "s"}}),
        json!({"do": "sleep", "ms": {"$sub": [0, 1]}}),
        json!({"do": "if", "cond": {"$": "n"}, "then": []}),
        json!({"do": "if", "cond": {"$": "z"}, "then": []}),
        json!({"do": "while", "cond": {"$": "s"}, "max": 1, "steps": []}),
        json!({"do": "repeat", "times": {"$": "f"}, "steps": []}),
        json!({"do": "continue_as_new", "vars": {"$": "n"}}),
        json!({"do": "fail", "type": "A", "message": {"$": "n"}}),
        json!({"do": "on_signal", "name": "a", "append_to": "n"}),
    ] {
        let program = json!({"vars": vars(), "steps": [step]});
        assert_eq!(
            error_type(program.clone()).await,
            "ExpressionError",
            "{program}"
        );
    }
}

#[tokio::test]
async fn an_expression_error_is_caught_like_any_other() {
    let program = json!({"steps": [
        {"do": "try", "steps": [{"do": "set", "var": "x", "value": {"$add": [1, null]}}],
         "save_error": "error", "catch": [{"do": "return", "value": {"$": "error.type"}}]}
    ]});
    assert_eq!(result(program).await, json!("ExpressionError"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "[a-z$.ä😀]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z$]{0,4}", inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_json_is_a_program_or_a_mistake_and_never_a_panic(steps in prop::collection::vec(any_json(), 0..3), vars in any_json()) {
        let program = json!({"vars": vars, "steps": steps});
        let _ = durable_program::check(&crate::world::payload(&program));
    }

    #[test]
    fn any_json_where_a_value_stands_is_taken_or_refused_below_that_place(value in any_json()) {
        let program = json!({"steps": [{"do": "return", "value": value}]});
        if let Err(mistake) = durable_program::check(&crate::world::payload(&program)) {
            prop_assert!(mistake.path.starts_with("steps[0].value"), "{}", mistake);
        }
    }
}

#[test]
fn quoted_data_comes_back_as_it_is_whatever_it_is() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(1));
    let many = prop::collection::vec(any_json(), 100);
    runner
        .run(&many, |data| {
            let quoted: Vec<Value> = data.iter().map(|value| json!({"$lit": value})).collect();
            let program = json!({"vars": {"data": quoted}, "steps": [
                {"do": "continue_as_new", "vars": {"data": {"$": "data"}, "again": true}}
            ]});
            let again = json!({"do": "if", "cond": {"$eq": [{"$": "again"}, true]}, "then": [{"do": "return", "value": {"$": "data"}}]});
            let steps = [again, program["steps"][0].clone()];
            let program = json!({"vars": program["vars"], "steps": steps});
            prop_assert_eq!(runtime.block_on(result(program)), Value::from(data));
            Ok(())
        })
        .expect("holds");
}

#[tokio::test]
async fn numbers_come_back_to_the_last_bit() {
    use proptest::strategy::ValueTree;

    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let floats = prop::collection::vec(prop::num::f64::NORMAL, 2000);
    let floats = floats.new_tree(&mut runner).expect("floats").current();
    let program = json!({"vars": {"all": floats}, "steps": [
        {"do": "activity", "type": "echo", "input": {"$": "all"}, "save": "all"},
        {"do": "return", "value": {"$": "all"}}
    ]});
    assert_eq!(result(program.clone()).await, program["vars"]["all"]);
}
