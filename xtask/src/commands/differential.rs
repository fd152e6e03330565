//! `cargo xtask differential --stores memory,sqlite --steps N --seed S`

use std::process::{Command, ExitCode};

use super::forward;
use crate::{
    postgres::{Durability, Servers},
    process,
    testkit::{self, PlantedBugs, Profile},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The stores to compare; a private PostgreSQL is started when one of them needs it
    #[arg(long, value_delimiter = ',', default_value = "memory,sqlite")]
    pub(crate) stores: Vec<String>,
    /// How many random intents each store gets
    #[arg(long)]
    pub(crate) steps: Option<u64>,
    /// What the randomness starts from; the same seed gives the same run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Further arguments for the testkit
    #[arg(last = true)]
    pub(crate) rest: Vec<String>,
}

impl Args {
    fn needs_postgres(&self) -> bool {
        self.stores.iter().any(|store| {
            ["postgres", "pgbouncer"]
                .iter()
                .any(|name| store.starts_with(name))
        })
    }

    fn for_testkit(&self) -> Vec<String> {
        let mut list = vec![
            "differential".to_owned(),
            "--stores".to_owned(),
            self.stores.join(","),
        ];
        for (name, value) in [("--steps", self.steps), ("--seed", self.seed)] {
            if let Some(value) = value {
                list.extend([name.to_owned(), value.to_string()]);
            }
        }
        list.extend_from_slice(&self.rest);
        list
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let servers = args
        .needs_postgres()
        .then(|| Servers::open(workspace, Durability::Volatile))
        .transpose()?;
    let mut command = command(workspace, Profile::Release, args);
    if let Some(servers) = &servers {
        servers.export(&mut command);
    }
    Ok(forward(process::run(&mut command)?))
}

/// The testkit's command; also what the test command runs.
pub(crate) fn command(workspace: &Workspace, profile: Profile, args: &Args) -> Command {
    testkit::command(workspace, profile, PlantedBugs::Absent, &args.for_testkit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(stores: &[&str], steps: Option<u64>) -> Args {
        Args {
            stores: stores.iter().map(ToString::to_string).collect(),
            steps,
            seed: Some(7),
            rest: Vec::new(),
        }
    }

    #[test]
    fn postgres_is_started_only_for_stores_that_need_it() {
        assert!(!args(&["memory", "sqlite"], None).needs_postgres());
        assert!(args(&["memory", "postgres"], None).needs_postgres());
        assert!(args(&["memory", "pgbouncer"], None).needs_postgres());
    }

    #[test]
    fn only_given_options_are_passed_on() {
        let list = args(&["memory", "sqlite"], None).for_testkit();
        assert_eq!(
            list,
            ["differential", "--stores", "memory,sqlite", "--seed", "7"]
        );
    }
}
