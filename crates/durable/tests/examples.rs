//! The examples run to their end and tell their stories in order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const EXAMPLES: [&str; 6] = [
    "simple_workflow",
    "retry_example",
    "circuit_breaker_example",
    "signal_cancellation",
    "payload_codec",
    "testing_workflows",
];

/// Where the built examples are. Built here, so that none is older than its source, whichever tests were asked for.
fn examples() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let this = std::env::current_exe().expect("a test has a path");
        let profile = this
            .parent()
            .and_then(Path::parent)
            .expect("TARGET/PROFILE/deps/TEST");
        let target = profile.parent().expect("TARGET/PROFILE");
        let name = profile
            .file_name()
            .expect("a profile has a name")
            .to_string_lossy();
        let mut cargo = Command::new(env!("CARGO"));
        // The whole workspace, as the tests are built: the same features, so that only the examples themselves are left to build.
        cargo
            .args(["build", "--quiet", "--workspace", "--target-dir"])
            .arg(target);
        cargo.args(["--profile", if name == "debug" { "dev" } else { &name }]);
        for example in EXAMPLES {
            cargo.args(["--example", example]);
        }
        let status = cargo.status().expect("cargo can be started");
        assert!(status.success(), "the examples cannot be built");
        profile.join("examples")
    })
}

/// Examples take seconds; one that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs an example on a store in memory; answers what it printed.
fn story(example: &str) -> Vec<String> {
    let mut child = Command::new(examples().join(example))
        .env_remove("DATABASE_URL")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example can be started");
    let began = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().expect("it is ours");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let text = String::from_utf8(output.stdout).expect("examples print text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{example}: {}\n{text}{errors}",
        output.status
    );
    text.lines().map(str::to_owned).collect()
}

/// Each of these begins some line, in this order.
fn assert_tells(story: &[String], parts: &[&str]) {
    let mut lines = story.iter();
    for part in parts {
        let told = lines.any(|line| line.starts_with(part));
        assert!(
            told,
            "{part:?} is missing, or in another place:\n{}",
            story.join("\n")
        );
    }
}

#[test]
fn a_simple_workflow_takes_its_steps_one_after_the_other() {
    let story = story("simple_workflow");
    assert_tells(
        &story,
        &[
            "reserve:",
            "charge:",
            "ship:",
            "the order is complete: parcel 1",
        ],
    );
}

#[test]
fn a_passing_failure_is_retried_and_a_final_one_is_not() {
    let story = story("retry_example");
    assert_tells(
        &story,
        &[
            "attempt 1 of 5: the provider cannot be reached",
            "attempt 2 of 5: the provider cannot be reached",
            "attempt 3 of 5: paid",
            "the payment is complete: receipt",
            "attempt 1 of 5: the card has expired",
            "the payment failed: CardDeclined",
        ],
    );
    let expired = story
        .iter()
        .filter(|line| line.contains("the card has expired") && line.starts_with("attempt"));
    assert_eq!(expired.count(), 1);
}

#[test]
fn a_circuit_breaker_opens_and_closes_again() {
    let story = story("circuit_breaker_example");
    assert_tells(
        &story,
        &[
            "three orders",
            "order",
            "the breaker is open after",
            "the provider is back",
            "order 1 is complete",
            "order 2 is complete",
            "order 3 is complete",
        ],
    );
}

#[test]
fn a_codec_takes_what_the_database_does_not() {
    let story = story("payload_codec");
    assert_tells(
        &story,
        &[
            "a report of one page stays",
            "its text has 2200 bytes",
            "a report of 3000 pages is larger",
            "  6600002 bytes are offloaded",
            "its text has 6600000 bytes",
            "the activity's result and the run's are the same, so they share 1 file",
        ],
    );
}

#[test]
fn a_signal_moves_a_run_on_and_a_cancel_undoes_it() {
    let story = story("signal_cancellation");
    assert_tells(
        &story,
        &[
            "Ada: the hotel is booked",
            "Ada: watching prices",
            "Ada's trip is complete: ticket for Ada",
            "Ben: watching prices",
            "Ben's trip was called off",
            "a signal that comes too late is refused",
        ],
    );
    for line in [
        "Ada: the flight is booked",
        "Ben: no longer watching prices",
        "Ben: the hotel is given back",
    ] {
        assert!(
            story.iter().any(|told| told == line),
            "{line:?} is missing:\n{}",
            story.join("\n")
        );
    }
}

#[test]
fn months_pass_at_once_and_a_careless_change_is_caught() {
    let story = story("testing_workflows");
    assert_tells(
        &story,
        &[
            "on the first day Ann is charged 1 time",
            "a month later she was charged 2 times",
            "two more, and the run ends with 3",
            "driver: turn: workflow.started, activity.scheduled",
            "driver: the process dies",
            "driver: another one carries on, and the run ends with 3",
            "driver: charge was called 4 times",
            "simulator: more than 50 crashes survived: true",
            "verify: today's code carries on yesterday's runs: true",
            "verify: the changed code does not",
        ],
    );
}
