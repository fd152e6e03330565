//! Every job at its smallest: it works, and its lines have what programs are promised. What the figures are is not looked at.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

/// Sizes at which all jobs together take seconds.
const TINY: &[&str] = &[
    "--runs=20",
    "--width=10,20",
    "--times=5",
    "--steps=20",
    "--claimers=1,3",
    "--queue=60",
    "--timers=20",
    "--spread-ms=100",
    "--parked=30",
    "--signals=20",
    "--in-flight=10",
    "--backlog=30",
    "--snapshot-secs=0",
    "--idle-secs=1",
    "--sessions=3",
    "--batches=1,10",
];

fn bench(db: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_durable-bench"))
        .args(["--db", db])
        .args(TINY)
        .args(arguments)
        .env_remove("DATABASE_URL")
        .output()
        .expect("it starts")
}

/// The lines of a call that ends well.
fn lines(db: &str, arguments: &[&str]) -> Vec<Value> {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let output = bench(db, &arguments);
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}\n{errors}");
    let read = |line| serde_json::from_str(line).expect("one JSON object a line");
    text.lines().map(read).collect()
}

/// What each job promises: job, mode, how many lines, fields that are numbers.
const PROMISED: &[(&str, &str, usize, &[&str])] = &[
    ("J1", "embedded", 1, &["runs", "activities_per_s"]),
    ("J1", "remote", 1, &["runs", "activities_per_s"]),
    ("J2", "embedded", 2, &["width", "seconds"]),
    (
        "J3",
        "embedded",
        1,
        &[
            "times",
            "p50_ms",
            "p99_ms",
            "queue_to_start_p50_ms",
            "queue_to_start_p99_ms",
        ],
    ),
    (
        "J3",
        "remote",
        1,
        &[
            "times",
            "p50_ms",
            "p99_ms",
            "queue_to_start_p50_ms",
            "queue_to_start_p99_ms",
        ],
    ),
    (
        "J4",
        "embedded",
        1,
        &["steps", "p50_ms", "p99_ms", "last_to_first"],
    ),
    (
        "J5",
        "embedded",
        2,
        &[
            "claimers",
            "queue",
            "tasks_per_s",
            "claim_p50_ms",
            "claim_p99_ms",
        ],
    ),
    ("J6", "embedded", 3, &[]),
    ("J7", "embedded", 2, &["signals", "runs", "seconds"]),
    ("J10", "embedded", 1, &["cpu_percent", "sessions"]),
    ("J10", "remote", 1, &["cpu_percent", "sessions"]),
    ("mix", "embedded", 5, &["runs", "activities_per_s"]),
    ("store", "embedded", 2, &["batch", "runs", "turns_per_s"]),
];

fn check(lines: &[Value], db: &str) {
    for (job, mode, count, fields) in PROMISED {
        let of_job: Vec<&Value> = lines
            .iter()
            .filter(|line| line["job"] == *job && line["mode"] == *mode)
            .collect();
        assert_eq!(of_job.len(), *count, "{job} {mode}");
        for line in of_job {
            assert_eq!(line["db"], db, "{line}");
            for field in *fields {
                assert!(line[*field].is_number(), "{field} in {line}");
            }
        }
    }
    let cases: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line["case"].as_str())
        .collect();
    for case in ["spread", "instant", "parked", "finished"] {
        assert!(cases.contains(case), "{case} in {cases:?}");
    }
    assert!(
        lines.iter().all(|line| line.get("error").is_none()),
        "{lines:?}"
    );
}

#[test]
fn every_job_runs_in_memory() {
    let lines = lines("memory:", &["all"]);
    check(&lines, "memory");
    let skipped = |job: &str| {
        lines
            .iter()
            .any(|l| l["job"] == job && l["skipped"].is_string())
    };
    assert!(skipped("J8") && skipped("J9"), "{lines:?}");
}

#[test]
fn every_job_runs_on_sqlite_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = format!("sqlite:{}", folder.path().join("bench.db").display());
    let lines = lines(&db, &["all"]);
    check(&lines, "sqlite");
    let recovered = lines.iter().find(|line| line["job"] == "J8").expect("J8");
    assert!(recovered["seconds"].is_number(), "{recovered}");
    assert!(
        lines.iter().any(|line| line["case"] == "snapshot"),
        "{lines:?}"
    );
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .expect("readable")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// All jobs but J8, which waits for leases, and J10, which waits for statistics.
#[test]
fn postgres_has_its_raw_counterpart_beside_it() {
    let db = std::env::var("DURABLE_TEST_POSTGRES_URL")
        .expect("DURABLE_TEST_POSTGRES_URL is not set: run by cargo xtask test");
    let jobs = ["J1", "J2", "J3", "J4", "J5", "J6", "J7", "J9", "store"];
    let lines = lines(&db, &jobs);
    for job in jobs {
        let of_job: Vec<&Value> = lines.iter().filter(|line| line["job"] == job).collect();
        assert!(!of_job.is_empty(), "{job}");
        for line in of_job {
            assert!(
                line["raw"].is_number() && line["ratio"].is_number(),
                "{line}"
            );
        }
    }
    let embedded = lines
        .iter()
        .find(|l| l["job"] == "J1" && l["mode"] == "embedded")
        .expect("J1");
    for cost in ["commits_per_activity", "wal_bytes_per_activity"] {
        assert!(embedded[cost].is_number(), "{embedded}");
    }
}

#[test]
fn a_job_that_takes_too_long_is_told_and_the_next_one_runs() {
    let output = bench("memory:", &["J10", "store", "--json", "--job-timeout=0"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    let told = |job: &str, what: &str| {
        text.lines()
            .any(|line| line.contains(job) && line.contains(what))
    };
    assert!(told("J10", "--job-timeout"), "{text}");
    // In memory it may be done before anybody looks at the clock.
    let next = told("store", "--job-timeout") || told("store", "turns_per_s");
    assert!(next, "{text}");
}

#[test]
fn a_step_that_gets_dearer_than_allowed_is_an_error() {
    let output = bench("memory:", &["J4", "--json", "--max-ratio=0.0001"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("is allowed"), "{text}");
}

#[test]
fn the_next_run_is_compared_with_the_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = format!("--checkpoints={}", folder.path().join("kept").display());
    let page = folder.path().join("page.html");
    let report = format!("--report={}", page.display());
    lines(
        "memory:",
        &[
            "J3",
            "--mode=embedded",
            &checkpoints,
            "--save=first",
            &report,
        ],
    );
    let again = lines("memory:", &["J3", "--mode=embedded", &checkpoints]);
    assert_eq!(again[0]["checkpoint"]["name"], "first", "{again:?}");
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains("<svg") && !page.contains("http"), "{page}");
}

#[test]
fn people_get_a_table() {
    let output = bench("memory:", &["J2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("seconds") && text.contains("J2"), "{text}");
    assert!(output.stderr.is_empty(), "bars are for terminals");
}

#[test]
fn a_url_that_is_none_is_refused_before_anything_runs() {
    let output = bench("mysql://x", &["all"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("memory:") && text.contains("sqlite:"),
        "{text}"
    );
}
