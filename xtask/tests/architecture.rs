//! The architecture's rules hold in this workspace; `cargo xtask arch` prints the same.

use xtask::{arch, workspace::Workspace};

#[test]
fn every_architecture_rule_holds() {
    let workspace = Workspace::find().expect("cargo describes the workspace");
    let violations = arch::check(&workspace).expect("cargo and the files can be read");
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "broken rules:\n{}", list.join("\n"));
}
