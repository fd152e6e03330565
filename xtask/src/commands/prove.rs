//! `cargo xtask prove [--stores memory,sqlite,postgres] [--only NAME] [--quick]`

use std::process::{Command, ExitCode};

use super::forward;
use crate::{
    postgres::{Durability, Servers},
    process,
    testkit::{self, PlantedBugs, Profile},
    workspace::Workspace,
};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Stores that each have to catch every bug; memory, sqlite and postgres, if not given
    #[arg(long, value_delimiter = ',', conflicts_with = "quick")]
    pub(crate) stores: Vec<String>,
    /// Only this planted bug
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Only memory and sqlite
    #[arg(long)]
    pub(crate) quick: bool,
    /// Further arguments for the testkit
    #[arg(last = true)]
    pub(crate) rest: Vec<String>,
}

impl Args {
    fn for_testkit(&self) -> Vec<String> {
        let mut list = vec!["prove".to_owned()];
        if !self.stores.is_empty() {
            list.extend(["--stores".to_owned(), self.stores.join(",")]);
        }
        if let Some(name) = &self.only {
            list.extend(["--only".to_owned(), name.clone()]);
        }
        if self.quick {
            list.push("--quick".to_owned());
        }
        list.extend_from_slice(&self.rest);
        list
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let servers = Servers::open(workspace, Durability::Volatile)?;
    let mut command = command(workspace, args);
    servers.export(&mut command);
    Ok(forward(process::run(&mut command)?))
}

/// The testkit's command; also what the test command runs.
pub(crate) fn command(workspace: &Workspace, args: &Args) -> Command {
    testkit::command(
        workspace,
        Profile::Dev,
        PlantedBugs::Compiled,
        &args.for_testkit(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_on() {
        let args = Args {
            stores: vec!["memory".to_owned(), "sqlite".to_owned()],
            only: Some("unfenced-finish".to_owned()),
            quick: true,
            rest: vec!["-v".to_owned()],
        };
        assert_eq!(
            args.for_testkit().join(" "),
            "prove --stores memory,sqlite --only unfenced-finish --quick -v"
        );
    }
}
