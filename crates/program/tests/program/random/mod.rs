//! Random programs against an oracle: the same result, the same error, the same variables left behind.

mod generator;
mod oracle;

use serde_json::{Map, Value, json};

use crate::world::{end, start, world};
use generator::Generator;

/// How many programs are run; `PROGRAM_SEEDS` asks for another number.
const SEEDS: u64 = 600;

#[tokio::test]
async fn random_programs_come_to_what_the_oracle_says() {
    let seeds = std::env::var("PROGRAM_SEEDS").map_or(SEEDS, |n| n.parse().expect("a number"));
    let env = world().await;
    let (mut returned, mut raised, mut left_out) = (0, 0, 0);
    for seed in 0..seeds {
        let program = Generator::new(seed).program();
        let Ok(expected) = oracle::run(&program) else {
            left_out += 1;
            continue;
        };
        let run = start(&env, &program).await;
        let result = end(&run).await;
        let vars: Value = run.query("vars", &()).await.expect("answers");
        match &expected.result {
            Ok(_) => returned += 1,
            Err(_) => raised += 1,
        }
        assert_eq!(
            (plain(&result), without_words(&vars)),
            (
                plain(&expected.result),
                without_words(&Value::Object(expected.vars))
            ),
            "(the interpreter's, the oracle's) of seed {seed}:\n{program:#}"
        );
    }
    // A generator that makes only failures, or only what nobody specified, proves nothing.
    assert!(returned * 4 > seeds, "{returned} of {seeds} returned");
    assert!(raised * 10 > seeds, "{raised} of {seeds} raised");
    assert!(left_out * 5 < seeds, "{left_out} of {seeds} left out");
}

fn plain(result: &Result<Value, Value>) -> Value {
    match result {
        Ok(value) => json!({"returned": value}),
        Err(error) => json!({"raised": worded(error)}),
    }
}

/// An error without the words that the specification leaves to the interpreter.
fn worded(error: &Value) -> Value {
    let mut error = error.clone();
    if [json!("ExpressionError"), json!("LoopLimit")].contains(&error["type"]) {
        error["message"] = json!("…");
    }
    error
}

/// The variables; the generator's programs keep whole errors in one only.
fn without_words(vars: &Value) -> Value {
    let mut vars: Map<String, Value> = vars.as_object().expect("an object").clone();
    if let Some(error) = vars.get_mut("error") {
        *error = worded(error);
    }
    Value::Object(vars)
}
