//! The guide's programs do what the page says.

use crate::world::{end, start, world};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/guide/program.md");

/// A block of the page: a program, and the line below it that tells what becomes of it.
fn blocks() -> Vec<(Value, &'static str)> {
    let blocks = PAGE.split("```json\n").skip(1);
    let blocks = blocks.map(|block| {
        let (program, rest) = block.split_once("```\n").expect("a block ends");
        let program = serde_json::from_str(program).expect("a block is JSON");
        let told = rest.lines().next().expect("a line below the block");
        (program, told)
    });
    blocks.collect()
}

/// What stands between the next two backticks, and what is behind them.
fn quoted(text: &str) -> (&str, &str) {
    let (_, text) = text.split_once('`').expect("a backtick");
    text.split_once('`').expect("another backtick")
}

#[tokio::test]
async fn every_program_in_the_guide_does_what_the_page_says() {
    let blocks = blocks();
    assert!(blocks.len() >= 8, "{}", blocks.len());
    for (program, told) in blocks {
        let env = world().await;
        let run = start(&env, &program).await;
        let mut rest = told;
        while let Some(signal) = rest.trim_start().strip_prefix("With the signal ") {
            let (name, behind) = quoted(signal);
            let (payload, behind) = quoted(behind);
            let payload: Value = serde_json::from_str(payload).expect("JSON");
            run.signal(name, &payload).await.expect("sent");
            rest = behind.trim_start_matches('.');
        }
        let ended = end(&run).await;
        let (expected, _) = quoted(rest);
        if rest.trim_start().starts_with("Result: ") {
            let expected: Value = serde_json::from_str(expected).expect("JSON");
            assert_eq!(ended, Ok(expected), "{program}");
        } else {
            assert!(rest.starts_with("Fails with: "), "{rest}");
            assert_eq!(ended.expect_err("fails")["type"], expected, "{program}");
        }
    }
}
