//! How the testkit's binary is built and run.

use std::process::Command;

use crate::workspace::Workspace;

const TESTKIT: &str = "durable-testkit";

/// How much the compiler optimises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Shares what the tests have already built.
    Dev,
    /// For long runs.
    Release,
}

/// Whether the known mistakes are compiled in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlantedBugs {
    /// The code as it ships.
    Absent,
    /// Chosen at run time; only a proof builds this.
    Compiled,
}

/// A command that builds the testkit's binary and runs it with these arguments.
pub(crate) fn command(
    workspace: &Workspace,
    profile: Profile,
    bugs: PlantedBugs,
    args: &[String],
) -> Command {
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--package", TESTKIT, "--bin", TESTKIT]);
    if profile == Profile::Release {
        command.args(["--profile", "release"]);
    }
    if bugs == PlantedBugs::Compiled {
        command.args(["--features", "planted-bugs"]);
    }
    command.arg("--").args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(profile: Profile, bugs: PlantedBugs) -> Vec<String> {
        let workspace = Workspace::find().expect("the tests run in the workspace");
        command(&workspace, profile, bugs, &["audit".to_owned()])
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn planted_bugs_are_compiled_only_when_asked_for() {
        assert!(!args(Profile::Release, PlantedBugs::Absent).contains(&"planted-bugs".to_owned()));
        assert!(args(Profile::Dev, PlantedBugs::Compiled).contains(&"planted-bugs".to_owned()));
    }

    #[test]
    fn arguments_are_passed_through_behind_the_separator() {
        assert!(args(Profile::Dev, PlantedBugs::Absent).ends_with(&["--".into(), "audit".into()]));
    }
}
