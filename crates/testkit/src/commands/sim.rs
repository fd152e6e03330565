//! `sim --seeds N --start S [--store memory|sqlite] [--trace]`

use std::process::ExitCode;

use anyhow::{bail, ensure};
use durable_testkit::sim::{Campaign, Report, Under, play};

/// From so many seeds on, everything has to have happened.
const ENOUGH: u64 = 200;
/// Violated seeds that are shown.
const SHOWN_MAX: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds to play
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// The store underneath: memory or sqlite
    #[arg(long, default_value = "memory")]
    store: String,
    /// Threads; as many as there are cores, if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Shows all that happens; for one seed
    #[arg(long)]
    trace: bool,
    /// Ends at the first violation
    #[arg(long)]
    fail_fast: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let under = match args.store.as_str() {
        "memory" => Under::Memory,
        "sqlite" => Under::Sqlite,
        other => bail!("the simulator runs on memory and sqlite, not on {other:?}"),
    };
    if args.trace {
        ensure!(
            args.seeds == 1,
            "a trace is for one seed: --seeds 1 --start S"
        );
        return traced(args.start, under);
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let campaign = Campaign {
        seeds: args.seeds,
        start: args.start,
        under,
        threads: args.threads.unwrap_or(cores),
        fail_fast: args.fail_fast,
    };
    let report = campaign.run()?;
    Ok(print(args, &report))
}

fn traced(seed: u64, under: Under) -> anyhow::Result<ExitCode> {
    let played = play(seed, under, true)?;
    for line in &played.trace {
        println!("{line}");
    }
    for violation in &played.violations {
        println!("FAILED seed {seed}: {violation}");
    }
    println!("seeds: 1, violations: {}", played.violations.len());
    Ok(exit_code(played.violations.is_empty()))
}

fn print(args: &Args, report: &Report) -> ExitCode {
    println!("{}", report.tally.table());
    for violation in report.firsts().take(SHOWN_MAX) {
        let seed = violation.seed;
        println!("FAILED seed {seed}: {}", violation.what);
        let store = if args.store == "memory" {
            String::new()
        } else {
            format!(" --store {}", args.store)
        };
        println!("  repeat with: cargo xtask sim --seeds 1 --start {seed}{store} --trace");
    }
    let missing = if report.seeds >= ENOUGH {
        report.tally.missing()
    } else {
        Vec::new()
    };
    for what in &missing {
        println!(
            "FAILED vacuous: never happened, so nothing is shown about it: {}",
            what.text()
        );
    }
    println!(
        "seeds: {}, violations: {}, {:.0} seeds/s",
        report.seeds,
        report.violations.len(),
        report.pace()
    );
    exit_code(report.violations.is_empty() && missing.is_empty())
}

fn exit_code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
