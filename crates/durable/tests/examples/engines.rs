//! What is around workflows: codecs, listeners, schedules, transactions, tests.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::NoTls;

use crate::stage::{assert_tells, story, story_on};

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

#[test]
fn a_listener_hears_everything_in_order() {
    let told = [
        "pay run.started ",
        "pay activity.scheduled ",
        "pay run.suspended ",
        "pay activity.failed attempt 1, Unavailable: try again",
        "pay activity.completed attempt 2",
        "pay run.completed with 499",
        "pay run.started ",
        "pay activity.scheduled ",
        "pay run.suspended ",
        "pay activity.failed attempt 1, NothingToPay: 0 cents",
        "pay run.failed with ActivityFailed: an activity failed: NothingToPay: 0 cents",
        "failures counted: 1",
    ];
    assert_eq!(story("listeners"), told);
}

#[test]
fn schedules_keep_to_their_policies_and_to_the_clock_on_the_wall() {
    let told = [
        "six days, runs of 36 hours:",
        "  allow: 6 started, 5 completed, 0 cancelled, 0 failed",
        "  skip: 3 started, 3 completed, 0 cancelled, 0 failed",
        "  replace: 6 started, 0 completed, 5 cancelled, 0 failed",
        "  terminate: 6 started, 0 completed, 0 cancelled, 5 failed",
        "  buffer one: 4 started, 3 completed, 0 cancelled, 0 failed",
        "paused for six days, and triggered by hand once:",
        "  allow: 7 started, 7 completed, 0 cancelled, 0 failed",
        "made up for, around a change of the clock in Berlin:",
        "  a run for \"2026-03-27T08:00:00Z\"",
        "  a run for \"2026-03-28T08:00:00Z\"",
        "  a run for \"2026-03-29T07:00:00Z\"",
        "  allow: 11 started, 7 completed, 0 cancelled, 0 failed",
        "refused: cron \"61 * * * *\": minute \"61\" cannot be read (0-59, lists, ranges, steps): Number out of bounds.",
    ];
    assert_eq!(story("schedules"), told);
}

/// An empty database on the server that `cargo xtask test` has started.
#[tokio::main(flavor = "current_thread")]
async fn fresh_database() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = std::env::var("DURABLE_TEST_POSTGRES_URL")
        .expect("DURABLE_TEST_POSTGRES_URL is not set: run by cargo xtask test");
    let (client, connection) = tokio_postgres::connect(&server, NoTls)
        .await
        .expect("the server is there");
    tokio::spawn(connection);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("durable_examples_{}_{number}", std::process::id());
    let create = format!("CREATE DATABASE {name}");
    client.batch_execute(&create).await.expect("created");
    let (base, query) = server.split_once('?').unwrap_or((&server, ""));
    let (server, _) = base.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{name}?{query}")
}

#[test]
fn ones_own_data_and_the_engines_change_in_one_commit() {
    let told = [
        "rolled back, there is no run: true",
        "attempt 1: the balance would be 200",
        "attempt 2: the balance would be 200",
        "order 2 left in parcel 7, the balance is 200",
        "enqueued and done: a mail to ann@example.com",
        "attempt 1: the balance would be 500",
        "attempt 2: the balance would be 500",
        "by SQL: order 3 left in parcel 8, the balance is 500",
    ];
    assert_eq!(story_on("transactions", &fresh_database()), told);
}
