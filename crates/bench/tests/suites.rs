//! The test command's share of `cargo xtask growth`, `bytes` and `noisy`: small sizes, and only
//! facts that no busy machine changes.

use std::path::Path;
use std::process::Command;

/// Runs one suite in its own process and fails with all that it printed.
fn holds(suite: &str, db: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_durable-bench"))
        .args([suite, "--share", "--db", db])
        .output()
        .expect("durable-bench runs");
    assert!(
        output.status.success(),
        "durable-bench {suite} --share --db {db}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn postgres() -> String {
    std::env::var("DURABLE_TEST_POSTGRES_URL")
        .expect("DURABLE_TEST_POSTGRES_URL: run through `cargo xtask test` or `cargo xtask pg`")
}

fn sqlite(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("suite.db").display())
}

#[test]
fn finished_runs_cost_starts_and_reads_no_pages_on_postgres() {
    holds("growth", &postgres());
}

#[test]
fn large_payloads_stop_and_lose_nothing_in_bounded_memory_on_postgres() {
    holds("bytes", &postgres());
}

#[test]
fn large_payloads_stop_and_lose_nothing_in_bounded_memory_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    holds("bytes", &sqlite(folder.path()));
}

#[test]
fn a_bad_neighbour_duplicates_no_activity_and_loses_no_timer_on_postgres() {
    holds("noisy", &postgres());
}

#[test]
fn a_bad_neighbour_duplicates_no_activity_and_loses_no_timer_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    holds("noisy", &sqlite(folder.path()));
}
