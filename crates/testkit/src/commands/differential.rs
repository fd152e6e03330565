//! `differential --stores memory,sqlite --steps N --seed S`

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use durable_testkit::differential::{self, Minimal, Options, Pair, Report, Subject};

use super::kind;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Two stores of memory, sqlite, postgres, pgbouncer; the first one is believed
    #[arg(long, value_delimiter = ',', default_value = "memory,sqlite")]
    stores: Vec<String>,
    /// Intents sent to each store
    #[arg(long, default_value_t = 20_000)]
    steps: usize,
    /// Where chance begins; the clock decides if none is given
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let [first, second] = args.stores.as_slice() else {
        bail!("give two stores, such as --stores memory,sqlite");
    };
    let pair = Pair {
        first: Subject::of_kind(kind(first)?),
        second: Subject::of_kind(kind(second)?),
    };
    let seed = args.seed.map_or_else(seed_of_the_clock, Ok)?;
    let options = Options {
        steps: args.steps,
        seed,
    };
    println!("{}, {} steps, seed {seed}", pair.names(), args.steps);
    let report = differential::run(&pair, options).await?;
    print(&report);
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn seed_of_the_clock() -> anyhow::Result<u64> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock stands before 1970")?;
    Ok(since.as_secs())
}

fn print(report: &Report) {
    println!("{}", report.coverage.table());
    println!("steps: {}", report.steps);
    let missing = report.missing();
    if !missing.is_empty() {
        println!("never happened, so nothing is shown about it:");
        for cell in &missing {
            println!("  {cell}");
        }
    }
    match &report.difference {
        None => println!("differences: 0"),
        Some(minimal) => print_difference(minimal, &report.repeat),
    }
}

fn print_difference(minimal: &Minimal, repeat: &str) {
    println!(
        "found after {} steps of an episode; {} are enough:",
        minimal.found_after,
        minimal.calls.len()
    );
    for call in &minimal.calls {
        println!("  {call}");
    }
    println!("{}", minimal.difference);
    println!("repeat with: {repeat}");
    println!("differences: 1");
}
