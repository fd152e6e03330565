//! Real processes: a second one is refused, and one that is killed loses nothing that it was answered.
#![cfg(feature = "sqlite")]

mod sqlite_fixture;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use everruns_durable::core::Payload;
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::sql::rows::{Changes, EventRow};
use everruns_durable::persistence::sql::tx::{Concern, Database};
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions};
use sqlite_fixture::records::{bare_fact, bare_run, full_fact, full_task};
use sqlite_fixture::{Put, at, folder, open, put};
use tempfile::TempDir;
use uuid::Uuid;

/// Set in a child process: the file it works on.
const FILE: &str = "DURABLE_TEST_SQLITE_FILE";
/// Writers in the child.
const WRITERS: u128 = 8;

/// Starts this test binary again, with only one test in it, which finds `FILE` set.
fn child(test: &str, folder: &TempDir) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(FILE, folder.path().join("test.db"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A line on the real standard output, at once: the parent waits for it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

#[tokio::test]
async fn child_opens_and_says_what_happened() {
    let Some(file) = std::env::var_os(FILE) else {
        return;
    };
    match Sqlite::open(file, SqliteOptions::default()) {
        Ok(_) => say("opened"),
        Err(error) => say(&format!("refused {error}")),
    }
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_has_closed() {
    if std::env::var_os(FILE).is_some() {
        return;
    }
    let folder = folder();
    let db = open(&folder);
    let ask = || {
        let child = child("child_opens_and_says_what_happened", &folder);
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let answer = ask();
    assert!(answer.contains("is in use by another process"), "{answer}");
    put(
        &db,
        Changes {
            insert_runs: vec![bare_run(1).into()],
            ..Changes::default()
        },
    )
    .await;
    drop(db);
    let answer = ask();
    assert!(answer.contains("opened"), "{answer}");
}

/// One turn's worth of rows.
fn turn(writer: u128, n: i64) -> Changes {
    let run_id = Uuid::from_u128(writer);
    let payload = Payload::from_stored(vec![b'7'; 2000]);
    Changes {
        now: at(n),
        insert_events: vec![EventRow {
            run_id,
            sequence_num: n,
            event: bare_fact(n).event.encode(),
        }],
        insert_facts: vec![(run_id, full_fact(n, payload))],
        insert_tasks: vec![full_task(writer, u128::from(n.unsigned_abs()))],
        ..Changes::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_writes_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else {
        return;
    };
    let db = Sqlite::open(file, SqliteOptions::default()).unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 1..=WRITERS {
        let db = db.clone();
        writers.spawn(async move {
            let run = Changes {
                insert_runs: vec![bare_run(writer).into()],
                ..Changes::default()
            };
            put(&db, run).await;
            for n in 1.. {
                put(&db, turn(writer, n)).await;
                say(&format!("done {writer} {n}"));
            }
        });
    }
    while writers.join_next().await.is_some() {}
}

/// Lets the child write this many turns, then kills it; answers the last turn of each writer that it was answered.
fn kill_after(folder: &TempDir, turns: usize) -> Vec<(u128, i64)> {
    let mut child = child("child_writes_until_it_is_killed", folder);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = vec![0_i64; usize::try_from(WRITERS).unwrap() + 1];
    let mut said = 0;
    for line in lines.map_while(Result::ok) {
        let mut words = line.split_whitespace();
        if words.next() != Some("done") {
            continue;
        }
        let writer: usize = words.next().unwrap().parse().unwrap();
        last[writer] = words.next().unwrap().parse().unwrap();
        said += 1;
        if said == turns {
            // SIGKILL; what it still says until it dies is read too.
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success(), "the child ended by itself: {status}");
    assert!(said >= turns, "the child said {said} lines and died");
    (0..).zip(last).skip(1).collect()
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_was_answered() {
    if std::env::var_os(FILE).is_some() {
        return;
    }
    for turns in [1, 40, 400] {
        let folder = folder();
        let answered = kill_after(&folder, turns);
        let db = open(&folder);
        for (writer, last) in answered {
            assert_whole(&db, writer, last).await;
        }
        check_integrity(&folder);
        let next = db.write(Concern::Events, Put(turn(99, 1))).await;
        next.unwrap();
    }
}

/// All answered turns are there, and every turn that is there is there as a whole.
async fn assert_whole(db: &Sqlite, writer: u128, last: i64) {
    let run_id = Uuid::from_u128(writer);
    let Some(history) = db.load_history(run_id, 0).await.unwrap() else {
        assert_eq!(last, 0, "run {writer} is gone");
        return;
    };
    let events: Vec<i64> = history.events.iter().map(|e| e.sequence_num).collect();
    let found = i64::try_from(events.len()).unwrap();
    assert!(
        found >= last,
        "writer {writer}: {last} answered, {found} found"
    );
    assert_eq!(events, (1..=found).collect::<Vec<_>>());
    let turn = db
        .load_turns(vec![run_id])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    let facts: Vec<i64> = turn.facts.iter().map(|fact| fact.arrival).collect();
    assert_eq!(facts, events);
}

fn check_integrity(folder: &TempDir) {
    let raw = rusqlite::Connection::open_with_flags(
        folder.path().join("test.db"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    )
    .unwrap();
    let found: String = raw
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, "ok");
}

#[tokio::test]
async fn a_killed_process_leaves_the_file_free() {
    if std::env::var_os(FILE).is_some() {
        return;
    }
    let folder = folder();
    let mut child = child("child_writes_until_it_is_killed", &folder);
    let mut first = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    while !first.contains("done") {
        first.clear();
        assert!(out.read_line(&mut first).unwrap() > 0, "the child died");
    }
    let path = folder.path().join("test.db");
    let refused = Sqlite::open(&path, SqliteOptions::default()).unwrap_err();
    assert!(matches!(refused, StoreError::Open { .. }), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(Sqlite::open(&path, SqliteOptions::default()).unwrap());
}
