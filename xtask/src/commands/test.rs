//! `cargo xtask test`

use std::{process::ExitCode, time::Instant};

use anyhow::bail;

use crate::{
    interrupt::Interrupted,
    postgres::{Durability, Servers},
    suites::{self, Context, Outcome, Row, Suite, table},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave PostgreSQL running at the end, to look at what the tests left behind
    #[arg(long)]
    keep: bool,
    /// Run only these suites
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    only: Vec<String>,
    /// Arguments for `cargo test`, for example a filter; only the cargo suites run then
    #[arg(last = true)]
    cargo_args: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = choose(&args.only, !args.cargo_args.is_empty())?;
    let servers = Servers::open(workspace, Durability::Volatile)?;
    let context = Context {
        workspace,
        servers: &servers,
        cargo_args: &args.cargo_args,
    };
    let mut outcomes = Vec::new();
    for suite in &chosen {
        outcomes.push(run_suite(suite, &context)?);
    }
    let left_out: Vec<&str> = suites::SUITES
        .iter()
        .filter(|suite| !chosen.iter().any(|chosen| chosen.name == suite.name))
        .map(|suite| suite.name)
        .collect();
    if !left_out.is_empty() {
        println!("\nnot run, as asked: {}", left_out.join(", "));
    }
    print!("\n{}", table::render(&outcomes));
    if args.keep {
        servers.keep();
    }
    let total = table::total(&outcomes);
    if total.passed == 0 && total.failed == 0 {
        println!("no test ran at all: that is a failure");
        return Ok(ExitCode::FAILURE);
    }
    Ok(if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn choose(only: &[String], filtered: bool) -> anyhow::Result<Vec<&'static Suite>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| !suites::SUITES.iter().any(|suite| suite.name == **name))
    {
        let known: Vec<_> = suites::SUITES.iter().map(|suite| suite.name).collect();
        bail!("no suite `{unknown}`; there are: {}", known.join(", "));
    }
    Ok(suites::SUITES
        .iter()
        .filter(|suite| only.is_empty() || only.iter().any(|name| name == suite.name))
        .filter(|suite| !filtered || suite.takes_cargo_args)
        .collect())
}

/// Runs one suite; only a signal ends the whole command, any other error is the suite's failure.
fn run_suite(suite: &Suite, context: &Context<'_>) -> anyhow::Result<Outcome> {
    println!("\n== {}: {}", suite.name, suite.about);
    let started = Instant::now();
    let rows = match (suite.run)(context) {
        Ok(rows) => rows,
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => vec![Row::failed(format!("{error:#}"))],
    };
    let outcome = Outcome {
        suite: suite.name,
        rows,
    };
    let counts = outcome.counts();
    println!(
        "== {}: {} passed, {} failed in {:.1} s",
        suite.name,
        counts.passed,
        counts.failed,
        started.elapsed().as_secs_f64()
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_runs_unless_told_otherwise() {
        let all = choose(&[], false).expect("no name is unknown");
        assert_eq!(all.len(), suites::SUITES.len());
    }

    #[test]
    fn a_filter_leaves_the_cargo_suites() {
        let names: Vec<_> = choose(&[], true)
            .expect("no name is unknown")
            .iter()
            .map(|suite| suite.name)
            .collect();
        assert_eq!(names, ["tests", "docs"]);
    }

    #[test]
    fn an_unknown_suite_is_an_error() {
        assert!(choose(&["tsets".to_owned()], false).is_err());
    }
}
