//! A bounded share of the differential test, and proof that it finds what it looks for.

use durable_testkit::differential::{Options, Pair, Report, STEPS_FOR_COVERAGE, Subject, run};
use durable_testkit::flavour::Kind;
use libtest_mimic::{Arguments, Failed, Trial};

#[path = "differential/wrong_store.rs"]
mod wrong_store;

/// The pairs compared here, and how many steps each gets; the command compares more.
const PAIRS: &[(Kind, Kind, usize)] = &[(Kind::Memory, Kind::Memory, STEPS_FOR_COVERAGE)];

/// Seeds that found a difference, and within how many steps.
const FOUND: &[(u64, usize)] = &[
    // Of two tasks of one line whose time was up at once the second was told to have made way too.
    (1_794_781_483, 2_000),
];

fn main() {
    let mut trials: Vec<Trial> = PAIRS.iter().copied().map(equal_stores).collect();
    trials.extend(FOUND.iter().copied().map(found));
    trials.push(Trial::test(
        "a_store_that_differs_once_in_a_while_is_found_and_the_case_made_small",
        || runtime(wrong_store::is_found_in_answers()),
    ));
    trials.push(Trial::test(
        "a_store_that_answers_right_and_stores_wrong_is_found",
        || runtime(wrong_store::is_found_in_dumps()),
    ));
    trials.push(Trial::test("a_seed_repeats_the_run_to_the_letter", || {
        runtime(wrong_store::repeats())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn equal_stores((first, second, steps): (Kind, Kind, usize)) -> Trial {
    let pair = Pair {
        first: Subject::of_kind(first),
        second: Subject::of_kind(second),
    };
    let name = format!("{}_are_equal_over_{steps}_steps", pair.names());
    Trial::test(name, move || {
        runtime(async move {
            let seed = 20_261_115;
            let report = run(&pair, Options { steps, seed }).await?;
            no_difference(&report)?;
            anyhow::ensure!(
                report.missing().is_empty(),
                "never happened: {:?}",
                report.missing()
            );
            Ok(())
        })
    })
}

fn found((seed, steps): (u64, usize)) -> Trial {
    let pair = Pair {
        first: Subject::of_kind(Kind::Memory),
        second: Subject::of_kind(Kind::Sqlite),
    };
    let name = format!("seed_{seed}_finds_no_difference_any_more");
    Trial::test(name, move || {
        runtime(async move { no_difference(&run(&pair, Options { steps, seed }).await?) })
    })
}

fn no_difference(report: &Report) -> anyhow::Result<()> {
    if let Some(minimal) = &report.difference {
        anyhow::bail!(
            "{}\n{}\n{}",
            minimal.calls.join("\n"),
            minimal.difference,
            report.repeat
        );
    }
    Ok(())
}

fn runtime(test: impl Future<Output = anyhow::Result<()>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failed::from(e.to_string()))?;
    runtime
        .block_on(test)
        .map_err(|e| Failed::from(format!("{e:#}")))
}
