//! `prove [--stores memory,sqlite] [--only NAME] [--quick]`

use std::process::ExitCode;

use anyhow::{bail, ensure};
use comfy_table::{Table, presets};
use durable_testkit::flavour::Kind;
use durable_testkit::prove::{Proof, SimulatorProof, Verdict};
use everruns_durable::persistence::Bug;

use super::kind;

/// Names the PostgreSQL server, when there is one.
const POSTGRES: &str = "DURABLE_TEST_POSTGRES_URL";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stores of memory, sqlite, postgres, pgbouncer, each of which has to catch every bug; those there are, if not given
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// Only this planted bug
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Only memory and sqlite
    #[arg(long, conflicts_with = "stores")]
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
    let (engines, stores): (Vec<Bug>, Vec<Bug>) =
        bugs.iter().partition(|bug| bug.is_of_the_engine());
    let caught = in_the_engine(&engines)? + in_stores(&stores, args)?;
    println!("caught {caught} of {}", bugs.len());
    Ok(if caught == bugs.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Mistakes of the engine, by the simulator. Answers how many were caught.
fn in_the_engine(bugs: &[Bug]) -> anyhow::Result<usize> {
    if bugs.is_empty() {
        return Ok(0);
    }
    let proof = SimulatorProof::with_control()?;
    println!("simulator: without a bug, nothing is found");
    let mut table = table(["planted bug", "simulator"]);
    let mut caught = 0;
    for bug in bugs {
        let verdict = proof.try_bug(*bug)?;
        println!("{}: {verdict}", bug.name());
        caught += usize::from(verdict.is_catch());
        table.add_row([bug.name().to_owned(), cell(&verdict)]);
    }
    println!("{table}");
    Ok(caught)
}

/// Mistakes of the stores, by their suites. Answers how many were caught on each store.
fn in_stores(bugs: &[Bug], args: &Args) -> anyhow::Result<usize> {
    if bugs.is_empty() {
        return Ok(0);
    }
    let proofs = controls(&stores(args)?)?;
    let names = proofs.iter().map(|proof| proof.store().name());
    let mut table = table(std::iter::once("planted bug").chain(names));
    let mut caught = 0;
    for bug in bugs {
        let verdicts = on_every_store(*bug, &proofs)?;
        caught += usize::from(verdicts.iter().all(Verdict::is_catch));
        table.add_row(std::iter::once(bug.name().to_owned()).chain(verdicts.iter().map(cell)));
    }
    println!("{table}");
    Ok(caught)
}

fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

/// The stores asked for.
fn stores(args: &Args) -> anyhow::Result<Vec<Kind>> {
    if !args.stores.is_empty() {
        return args.stores.iter().map(|name| kind(name)).collect();
    }
    let mut stores = vec![Kind::Memory, Kind::Sqlite];
    if args.quick {
        println!("postgres is not asked: this is the quick proof");
    } else if std::env::var_os(POSTGRES).is_some() {
        stores.push(Kind::Postgres);
    } else {
        println!("postgres is not asked: {POSTGRES} names no server");
    }
    Ok(stores)
}

fn controls(stores: &[Kind]) -> anyhow::Result<Vec<Proof>> {
    let mut proofs = Vec::new();
    for store in stores {
        proofs.push(Proof::with_control(*store)?);
        println!("{}: without a bug, every claim holds", store.name());
    }
    Ok(proofs)
}

fn on_every_store(bug: Bug, proofs: &[Proof]) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for proof in proofs {
        let verdict = proof.try_bug(bug)?;
        println!("{} on {}: {verdict}", bug.name(), proof.store().name());
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn cell(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Caught { by, .. } => by.clone(),
        Verdict::Missed | Verdict::Vacuous { .. } => "NOT CAUGHT".to_owned(),
    }
}
