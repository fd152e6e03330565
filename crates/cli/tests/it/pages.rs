//! The reference pages say what the binary does.

use std::path::Path;

use crate::durable::{run, texts};

fn is_fresh(page: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(format!("docs/reference/{page}.md"));
    let (printed, stderr) = texts(&run(&root, &["reference", page]));
    assert!(!printed.is_empty(), "{stderr}");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == printed,
        "docs/reference/{page}.md is not what the binary prints: cargo run -- reference {page} > docs/reference/{page}.md"
    );
}

#[test]
fn the_page_of_commands_is_fresh() {
    is_fresh("cli");
}

#[test]
fn the_page_of_settings_is_fresh() {
    is_fresh("configuration");
}
