//! `persistence::checkup` on a file.

#![cfg(feature = "sqlite")]

use std::time::Duration;

use everruns_durable::persistence::checkup::{Verdict, checkup};
use everruns_durable::prelude::*;

#[tokio::test]
async fn a_file_in_use_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let engine = Engine::sqlite(&path).start().await.expect("starts");
    let url = format!("sqlite:{}", path.display());
    let findings = checkup(&url).await.expect("it can be looked at");
    let verdicts: Vec<_> = findings
        .iter()
        .map(|f| (f.check.as_str(), f.verdict))
        .collect();
    let fine = [
        "version",
        "journal_mode",
        "bloat",
        "integrity",
        "overdue turns",
        "overdue tasks",
        "waiting tasks",
        "overdue timers",
    ];
    let fine = fine.map(|check| (check, Verdict::Ok));
    assert_eq!(verdicts, fine, "{findings:?}");
    engine.shutdown().await.expect("stops");
}

/// Waits for a timer and for an activity that nobody hosts.
#[workflow]
async fn waits(ctx: WorkflowContext, _input: ()) -> WorkflowResult<()> {
    let hour = ctx.sleep(Duration::from_secs(3600));
    let activity = ctx.activity_named::<()>("nobody's", ());
    let (slept, answered) = join!(hour, activity);
    slept.and(answered)
}

#[tokio::test]
async fn work_that_is_overdue_by_minutes_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let url = format!("sqlite:{}", path.display());
    let engine = Engine::sqlite(&path).workflow::<waits>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<waits>(()).await.expect("started");
    let unhosted = engine.client().start_named("unhosted", Payload::null());
    let unhosted = unhosted.await.expect("started");
    let look = rusqlite::Connection::open(&path).expect("opens");
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        look.query_row(&sql, [], |row| row.get::<_, i64>(0))
            .expect("counted")
    };
    while count("durable_timers") + count("durable_task_queue") < 2 {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await.expect("stops");
    let four = ["turns", "tasks", "timers"].map(|what| format!("overdue {what}"));
    let four = [&four[..], &["waiting tasks".to_owned()]].concat();
    let verdicts = async || {
        let findings = checkup(&url).await.expect("looked at");
        let wanted = findings
            .into_iter()
            .filter(|found| four.contains(&found.check));
        wanted.collect::<Vec<_>>()
    };
    assert!(verdicts().await.iter().all(|f| f.verdict == Verdict::Ok));
    let hour = 3_600_000_000_i64;
    for (table, column) in [
        ("durable_workflow_instances", "ready_at"),
        ("durable_task_queue", "visible_at"),
        ("durable_task_queue", "timeout_at"),
        // Fires in an hour.
        ("durable_timers", "fire_at"),
        ("durable_timers", "fire_at"),
    ] {
        let sql = format!("UPDATE {table} SET {column} = {column} - {hour}");
        look.execute(&sql, []).expect("moved back");
    }
    let late = verdicts().await;
    for found in &late {
        let (verdict, id) = match found.check.as_str() {
            "overdue turns" => (Verdict::Bad, unhosted.id()),
            "waiting tasks" => (Verdict::Warn, run.id()),
            _ => (Verdict::Bad, run.id()),
        };
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.text.starts_with("1, "), "{found:?}");
        assert!(found.text.contains(&id.to_string()), "{found:?}");
    }
    assert_eq!(late.len(), 4, "{late:?}");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("none.db");
    let findings = checkup(&format!("sqlite:{}", path.display()))
        .await
        .expect("it can be looked at");
    assert!(
        findings
            .iter()
            .any(|f| f.check == "file" && f.verdict == Verdict::Warn)
    );
    assert!(!path.exists());
}
