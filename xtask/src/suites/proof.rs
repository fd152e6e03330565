//! The suites that are runs of the testkit's binary, bounded so that the whole command stays well within an hour.

use std::{
    env,
    io::{self, Write as _},
    process::Command,
};

use anyhow::Context as _;

use super::{Context, Counts, Row};
use crate::{
    commands::{differential as differential_command, prove as prove_command},
    process,
    testkit::Profile,
};

/// The same for everybody, so that a red run is red for its change; `cargo xtask differential` tries seeds that nobody has seen.
const SEED_OF_THE_SHARE: u64 = 1_794_781_483;
/// Another seed for the share.
const SEED: &str = "DURABLE_TEST_SEED";
/// The pairs of stores compared, and how many steps each pair gets.
const PAIRS: &[(&str, u64)] = &[("memory,sqlite", 20_000), ("memory,postgres", 5_000)];

/// Compares the stores.
pub(super) fn differential(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    let seed = seed()?;
    let mut rows = Vec::new();
    for &(stores, steps) in PAIRS {
        println!("-- {stores}, {steps} steps, seed {seed} (repeat with {SEED}={seed})");
        let args = differential_command::Args {
            stores: stores.split(',').map(str::to_owned).collect(),
            steps: Some(steps),
            seed: Some(seed),
            rest: Vec::new(),
        };
        let mut command = differential_command::command(context.workspace, Profile::Dev, &args);
        let (output, succeeded) = run(context, &mut command)?;
        let counts = judge_differential(&output, succeeded);
        rows.push(Row {
            target: format!("{stores} seed {seed}"),
            counts,
        });
    }
    Ok(rows)
}

/// Plants known mistakes and counts those that the suites catch.
pub(super) fn prove(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    let args = prove_command::Args {
        quick: true,
        ..prove_command::Args::default()
    };
    let mut command = prove_command::command(context.workspace, &args);
    let (output, succeeded) = run(context, &mut command)?;
    Ok(vec![Row {
        target: "planted bugs caught".to_owned(),
        counts: judge_prove(&output, succeeded),
    }])
}

fn run(context: &Context<'_>, command: &mut Command) -> anyhow::Result<(Vec<String>, bool)> {
    context.servers.export(command);
    let mut output = Vec::new();
    let status = process::run_by_line(command, |line| {
        output.push(line.to_owned());
        Ok(writeln!(io::stdout(), "{line}")?)
    })?;
    Ok((output, status.success()))
}

/// A run passes when it says that there is no difference and ends so: an empty run says nothing.
fn judge_differential(output: &[String], succeeded: bool) -> Counts {
    let equal = succeeded && output.iter().any(|line| line.trim() == "differences: 0");
    Counts {
        passed: u64::from(equal),
        failed: u64::from(!equal),
        ignored: 0,
    }
}

/// Reads `caught K of N`; a proof that does not say so has failed.
fn judge_prove(output: &[String], succeeded: bool) -> Counts {
    let caught = output.iter().rev().find_map(|line| {
        let (caught, planted) = line.trim().strip_prefix("caught ")?.split_once(" of ")?;
        Some((caught.parse::<u64>().ok()?, planted.parse::<u64>().ok()?))
    });
    let (passed, planted) = caught.unwrap_or((0, 0));
    let missed = planted.saturating_sub(passed);
    let broken = !succeeded || planted == 0;
    Counts {
        passed,
        failed: missed.max(u64::from(broken)),
        ignored: 0,
    }
}

fn seed() -> anyhow::Result<u64> {
    if let Ok(given) = env::var(SEED) {
        return given
            .parse()
            .with_context(|| format!("{SEED}={given} is not a number"));
    }
    Ok(SEED_OF_THE_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn passed_failed(counts: Counts) -> (u64, u64) {
        (counts.passed, counts.failed)
    }

    #[test]
    fn a_differential_run_must_say_that_nothing_differs() {
        let says = |text, succeeded| passed_failed(judge_differential(&lines(text), succeeded));
        assert_eq!(says("steps: 9\ndifferences: 0", true), (1, 0));
        assert_eq!(says("differences: 0", false), (0, 1));
        assert_eq!(says("differences: 02", true), (0, 1));
        assert_eq!(says("", true), (0, 1));
    }

    #[test]
    fn a_proof_fails_for_every_bug_not_caught() {
        let says = |text, succeeded| passed_failed(judge_prove(&lines(text), succeeded));
        assert_eq!(says("…\ncaught 12 of 12", true), (12, 0));
        assert_eq!(says("caught 10 of 12", false), (10, 2));
        assert_eq!(says("caught 12 of 12", false), (12, 1));
        assert_eq!(says("caught 0 of 0", true), (0, 1));
        assert_eq!(says("", true), (0, 1));
    }
}
