//! The simulator: some seeds, and that a seed can be repeated.

use durable_testkit::sim::{Campaign, Happening, Under, play};

fn campaign(seeds: u64, start: u64, under: Under) -> Campaign {
    Campaign {
        seeds,
        start,
        under,
        threads: 2,
        fail_fast: false,
    }
}

#[test]
fn everything_happens_on_memory_and_nothing_is_violated() {
    let report = campaign(160, 0, Under::Memory).run();
    let report = report.expect("it can be run");
    assert_eq!(report.seeds, 160);
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    // What never happened proves nothing.
    assert_eq!(report.tally.missing(), []);
}

#[test]
fn seeds_that_found_a_mistake_are_clean() {
    let found = [
        // A reset took the last fact out of an inbox that had others: every turn was refused for not having seen it.
        9_075_579,
        // A reset kept a child that had been asked to stop in the part that it forgot.
        20_025_439, 20_075_580,
        // Listeners heard that a run was ended from outside before what its last turn had recorded.
        932_036, 934_956,
        // The late answer to a commit that continued a run as new stopped an activity of the next iteration, and the run waited for ever.
        952_125,
    ];
    for seed in found {
        let report = campaign(1, seed, Under::Memory).run();
        let report = report.expect("it can be run");
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
    }
}

/// What even a few seeds cannot do without: by each of these SQLite is asked for something of its own.
const ESSENTIAL: [Happening; 24] = [
    Happening::FailedBefore,
    Happening::FailedAfter,
    Happening::Repeated,
    Happening::Killed,
    Happening::RunCompleted,
    Happening::RunFailed,
    Happening::RunTerminated,
    Happening::SignalAccepted,
    Happening::UpdateAnswered,
    Happening::ActivityCompleted,
    Happening::ActivityFailed,
    Happening::ActivityRetried,
    Happening::TimerFired,
    Happening::ChildCompleted,
    Happening::ContinuedAsNew,
    Happening::DeadLetter,
    Happening::LeaseLost,
    Happening::LeaseReaped,
    Happening::TurnClaimed,
    Happening::TaskClaimed,
    Happening::TaskHandedOver,
    Happening::NameRefused,
    Happening::PayloadEncoded,
    Happening::Replayed,
];

#[test]
fn some_seeds_are_clean_on_sqlite_and_the_essentials_happen() {
    let report = campaign(16, 0, Under::Sqlite).run().expect("it can be run");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let missing = |what: &&Happening| report.tally.of(**what) == 0;
    let missing: Vec<&Happening> = ESSENTIAL.iter().filter(missing).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 100..120 {
        let first = play(seed, Under::Memory, true).expect("it can be played");
        let second = play(seed, Under::Memory, true).expect("it can be played");
        assert!(!first.trace.is_empty());
        let differs = first
            .trace
            .iter()
            .zip(&second.trace)
            .position(|(one, two)| one != two);
        if let Some(line) = differs {
            panic!(
                "seed {seed}, line {line}:\n{}\n{}",
                first.trace[line], second.trace[line]
            );
        }
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
    }
}
