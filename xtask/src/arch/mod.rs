//! The architecture, checked: which crate may know which, what the core may be built on, where SQL lives.
//!
//! Each rule is a pure function over data that a test can make up, so that the checker itself is shown to fail.

mod core_purity;
mod edges;
mod rust_source;
mod sources;
mod sql_places;
mod sql_used;

use std::fmt;

use crate::{process, workspace::Workspace};
use sources::Sources;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    place: String,
    rule: String,
}

impl Violation {
    fn new(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            rule: rule.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.rule)
    }
}

/// Checks the whole workspace; an empty answer means that every rule holds.
///
/// # Errors
/// When cargo or the files cannot be asked; a broken rule is an answer, not an error.
pub fn check(workspace: &Workspace) -> anyhow::Result<Vec<Violation>> {
    let sources = Sources::read(workspace.root())?;
    let mut violations = edges::check(workspace.metadata());
    violations.extend(core_purity::check_features(workspace.metadata()));
    violations.extend(core_purity::check_tree(&core_tree(workspace)?));
    violations.extend(core_purity::check_sources(&sources));
    violations.extend(sql_places::check(&sources));
    violations.extend(sql_used::check(&sources));
    Ok(violations)
}

/// What the core is built from when it is built alone. `cargo metadata` cannot say it: there the features that other
/// members ask for are already mixed in.
fn core_tree(workspace: &Workspace) -> anyhow::Result<String> {
    let mut command = workspace.cargo();
    command
        .args(["tree", "--package", "durable-core", "--all-features"])
        .args(["--edges", "normal,build", "--prefix", "none"]);
    process::output(&mut command)
}
