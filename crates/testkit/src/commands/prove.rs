//! `prove [--only NAME] [--quick]`

use std::process::ExitCode;

use anyhow::{bail, ensure};
use comfy_table::{Table, presets};
use durable_testkit::prove::{Proof, Suites, Verdict};
use everruns_durable::persistence::Bug;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this planted bug
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Only the memory store, and no more than it takes to catch the bug
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !cfg!(feature = "planted-bugs") {
        bail!("nothing is planted in this build; build it with --features planted-bugs");
    }
    let bugs: Vec<Bug> = Bug::ALL
        .iter()
        .copied()
        .filter(|bug| args.only.as_deref().is_none_or(|name| name == bug.name()))
        .collect();
    ensure!(!bugs.is_empty(), "no planted bug has that name");
    let suites = if args.quick {
        Suites::quick()
    } else {
        Suites::full()
    };
    let proof = Proof::new(suites)?;
    println!("without a bug, everything has to pass:");
    if let Verdict::Caught { suite, by } = proof.try_bug(None)? {
        bail!("{suite} fails without any bug, so nothing would be shown: {by}");
    }
    println!("it does");
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["planted bug", "suite", "caught by"]);
    let mut caught = 0;
    for bug in &bugs {
        let verdict = proof.try_bug(Some(*bug))?;
        println!("{}: {verdict}", bug.name());
        let row = match &verdict {
            Verdict::Caught { suite, by } => {
                caught += 1;
                [bug.name().to_owned(), suite.clone(), by.clone()]
            }
            Verdict::Missed => [
                bug.name().to_owned(),
                String::new(),
                "NOT CAUGHT".to_owned(),
            ],
        };
        table.add_row(row);
    }
    println!("{table}");
    println!("caught {caught} of {}", bugs.len());
    Ok(if caught == bugs.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
