//! `cargo xtask sim --seeds N --start S [--store memory|sqlite] [--trace]`

use std::process::ExitCode;

use super::forward;
use crate::{
    process,
    testkit::{self, PlantedBugs, Profile},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds to play
    #[arg(long)]
    pub(crate) seeds: Option<u64>,
    /// The first seed
    #[arg(long)]
    pub(crate) start: Option<u64>,
    /// The store underneath: memory or sqlite
    #[arg(long)]
    pub(crate) store: Option<String>,
    /// Shows all that happens; for one seed
    #[arg(long)]
    pub(crate) trace: bool,
    /// Further arguments for the testkit
    #[arg(last = true)]
    pub(crate) rest: Vec<String>,
}

impl Args {
    fn for_testkit(&self) -> Vec<String> {
        let mut list = vec!["sim".to_owned()];
        for (name, value) in [("--seeds", self.seeds), ("--start", self.start)] {
            if let Some(value) = value {
                list.extend([name.to_owned(), value.to_string()]);
            }
        }
        if let Some(store) = &self.store {
            list.extend(["--store".to_owned(), store.clone()]);
        }
        if self.trace {
            list.push("--trace".to_owned());
        }
        list.extend_from_slice(&self.rest);
        list
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let list = args.for_testkit();
    let mut command = testkit::command(workspace, Profile::Release, PlantedBugs::Absent, &list);
    Ok(forward(process::run(&mut command)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_on() {
        let args = Args {
            seeds: Some(1),
            start: Some(42),
            store: None,
            trace: true,
            rest: vec!["--fail-fast".to_owned()],
        };
        let list = args.for_testkit().join(" ");
        assert_eq!(list, "sim --seeds 1 --start 42 --trace --fail-fast");
    }
}
