//! Stores that are wrong in one place: the differential test must find it and say it in a few calls.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use durable_testkit::Flavour;
use durable_testkit::differential::{Minimal, Options, Pair, Subject, run};
use durable_testkit::faults::{FaultRates, FaultyStore};
use durable_testkit::flavour::Kind;

/// Memory, and memory that carries out every call of one method twice.
fn pair(method: &'static str, rates: FaultRates) -> Pair {
    let wrong = move |shards| async move {
        let kind = Kind::Memory;
        let mut under_test = Flavour { kind, shards }.open().await?;
        let faulty = FaultyStore::new(under_test.store.clone(), 1, rates).only(method);
        under_test.store = Arc::new(faulty);
        Ok(under_test)
    };
    Pair {
        first: Subject::of_kind(Kind::Memory),
        second: Subject::new("wrong", wrong),
    }
}

async fn find(pair: &Pair) -> anyhow::Result<Minimal> {
    let options = Options {
        steps: 4_000,
        seed: 8,
    };
    let report = run(pair, options).await?;
    report.difference.context("the difference was not found")
}

pub(crate) async fn is_found_in_answers() -> anyhow::Result<()> {
    let rates = FaultRates {
        repeated_late: 100,
        ..FaultRates::NONE
    };
    let minimal = find(&pair("finish_tasks", rates)).await?;
    let calls = &minimal.calls;
    // A start, a turn that queues, a claim, the result.
    ensure!(calls.len() <= 4, "{} calls: {calls:#?}", calls.len());
    ensure!(
        calls
            .last()
            .is_some_and(|call| call.contains("FinishTasks"))
    );
    ensure!(minimal.difference.what.contains("finish_tasks"));
    ensure!(minimal.difference.lines.iter().any(|l| l.starts_with("+ ")));
    Ok(())
}

pub(crate) async fn is_found_in_dumps() -> anyhow::Result<()> {
    let rates = FaultRates {
        repeated: 100,
        ..FaultRates::NONE
    };
    let minimal = find(&pair("reap_leases", rates)).await?;
    let calls = &minimal.calls;
    ensure!(calls.len() <= 8, "{} calls: {calls:#?}", calls.len());
    ensure!(calls.last().is_some_and(|call| call.contains("ReapLeases")));
    ensure!(minimal.difference.what.starts_with("the stores hold"));
    Ok(())
}

pub(crate) async fn repeats() -> anyhow::Result<()> {
    let pair = pair("nothing", FaultRates::NONE);
    let options = Options {
        steps: 1_000,
        seed: 3,
    };
    let (first, second) = (run(&pair, options).await?, run(&pair, options).await?);
    ensure!(first.coverage.table() == second.coverage.table());
    ensure!(first.steps == 1_000 && first.is_clean());
    let other = Options { seed: 4, ..options };
    let other = run(&pair, other).await?;
    ensure!(first.coverage.table() != other.coverage.table());
    Ok(())
}
