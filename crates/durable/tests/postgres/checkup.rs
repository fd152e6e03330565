//! `persistence::checkup` on a real server.

use std::time::Duration;

use everruns_durable::persistence::checkup::{Finding, Verdict, checkup};
use everruns_durable::prelude::*;

use crate::server::{connect, fresh_database, open};

fn of<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} was not looked at: {findings:?}"))
}

#[tokio::test]
async fn a_look_tells_what_durability_rests_on() {
    let (_store, url) = open(1).await;
    let findings = checkup(&url).await.expect("it can be looked at");
    // The throw-away server does not flush, and that is what a look is for.
    assert_eq!(of(&findings, "fsync").verdict, Verdict::Bad, "{findings:?}");
    for fine in [
        "version",
        "autovacuum",
        "clock",
        "long_transactions",
        "bloat",
        "overdue turns",
        "overdue tasks",
        "waiting tasks",
        "overdue timers",
    ] {
        assert_eq!(of(&findings, fine).verdict, Verdict::Ok, "{findings:?}");
    }
    assert!(
        of(&findings, "connections")
            .text
            .contains("one server takes up to")
    );
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
    let url = fresh_database().await;
    let engine = Engine::postgres(&url).workflow::<waits>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<waits>(()).await.expect("started");
    let unhosted = engine.client().start_named("unhosted", Payload::null());
    let unhosted = unhosted.await.expect("started");
    let client = connect(&url).await;
    let sql = "SELECT (SELECT count(*) FROM durable.durable_timers) + (SELECT count(*) FROM durable.durable_task_queue)";
    while client
        .query_one(sql, &[])
        .await
        .expect("counted")
        .get::<_, i64>(0)
        < 2
    {}
    engine.shutdown().await.expect("stops");
    for (table, column) in [
        ("durable_workflow_instances", "ready_at"),
        ("durable_task_queue", "visible_at"),
        ("durable_task_queue", "due_at"),
        // Fires in an hour.
        ("durable_timers", "fire_at"),
        ("durable_timers", "fire_at"),
    ] {
        let sql = format!("UPDATE durable.{table} SET {column} = {column} - interval '1 hour'");
        client.batch_execute(&sql).await.expect("moved back");
    }
    let findings = checkup(&url).await.expect("it can be looked at");
    for (check, verdict, id) in [
        ("overdue turns", Verdict::Bad, unhosted.id()),
        ("overdue tasks", Verdict::Bad, run.id()),
        ("waiting tasks", Verdict::Warn, run.id()),
        ("overdue timers", Verdict::Bad, run.id()),
    ] {
        let found = of(&findings, check);
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.text.starts_with("1, "), "{found:?}");
        assert!(found.text.contains(&id.to_string()), "{found:?}");
    }
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let url = fresh_database().await;
    checkup(&url).await.expect("it can be looked at");
    let client = connect(&url).await;
    let schemas = client
        .query("SELECT 1 FROM pg_namespace WHERE nspname = 'durable'", &[])
        .await
        .expect("asked");
    assert!(schemas.is_empty());
}
