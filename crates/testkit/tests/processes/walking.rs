//! The audit of a database run by run: what it finds is what the audit of the whole finds.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_testkit::audit::walk::{WalkOptions, Walked, walk};
use durable_testkit::audit::{Invariant, audit};
use durable_testkit::process::open_store;
use everruns_durable::core::Payload;
use everruns_durable::persistence::model::{StartRun, TerminateRun};
use uuid::Uuid;

use crate::ground::Ground;
use crate::upgrade::{POSTGRES_V016, SQLITE_0008};

/// Nothing works on the fixtures, so that all that is open there is overdue.
const AT_REST: WalkOptions = WalkOptions {
    stuck_after: None,
    time_max: None,
    violations_max: 1_000,
};

/// Breaks one thing after the other. `{t}` stands for the tables' prefix, `{u}` for the id of a run
/// that is not there, `{n}` for an instant.
const DAMAGE: [&str; 4] = [
    "UPDATE {t}workflow_instances SET task_count = task_count + 1 WHERE status = 'running'",
    "DELETE FROM {t}workflow_events WHERE sequence_num = 2",
    "UPDATE {t}timers SET workflow_id = {u}",
    "INSERT INTO {t}keys VALUES (0, 'idempotency', 'lost', {u}, {n})",
];

async fn look(ground: &Ground, options: WalkOptions) -> anyhow::Result<Walked> {
    let mut pages = 0;
    let walked = walk(&ground.url, options, |_| pages += 1).await?;
    assert!(pages > 0, "progress is told");
    Ok(walked)
}

async fn finds_what_is_broken(
    ground: Ground,
    mut run: impl AsyncFnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Opening brings the schema up to date.
    let whole = audit(&*open_store(&ground.url).await?, None).await?;
    assert!(whole.is_clean(), "{whole}");
    let walked = look(&ground, AT_REST).await?;
    assert!(
        walked.report.is_clean() && walked.complete,
        "{}",
        walked.report
    );
    assert_eq!(walked.report.runs, whole.runs);
    assert_eq!(walked.report.events, whole.events);

    let stuck = WalkOptions {
        stuck_after: Some(Duration::ZERO),
        ..AT_REST
    };
    let late = look(&ground, stuck).await?.report.violations;
    assert!(late.iter().any(|found| found.invariant == Invariant::I14));

    let over = WalkOptions {
        time_max: Some(Duration::ZERO),
        ..AT_REST
    };
    assert!(!walk(&ground.url, over, |_| ()).await?.complete);

    for statement in DAMAGE {
        run(statement).await?;
    }
    let found = look(&ground, AT_REST).await?.report;
    let broken: BTreeSet<Invariant> = found.violations.iter().map(|v| v.invariant).collect();
    for invariant in [Invariant::I4, Invariant::I9, Invariant::I12, Invariant::I13] {
        assert!(broken.contains(&invariant), "{}\n{found}", invariant.id());
    }
    let few = WalkOptions {
        violations_max: 1,
        ..AT_REST
    };
    let few = look(&ground, few).await?;
    assert_eq!((few.report.violations.len(), few.complete), (1, false));

    // What is overdue is counted apart: it does not end the search for the rest.
    let few = WalkOptions {
        violations_max: 1,
        stuck_after: Some(Duration::ZERO),
        ..AT_REST
    };
    let few = look(&ground, few).await?.report.violations;
    let late = few.iter().filter(|found| found.invariant == Invariant::I14);
    assert_eq!((late.count(), few.len()), (1, 2));
    Ok(())
}

/// A deletion that was interrupted between two slices: the run's row is gone, and what belongs to it
/// is left with its keys. It is at fault only once nothing would go on with it.
async fn knows_what_is_being_deleted(
    ground: Ground,
    refuse: &str,
    mut run: impl AsyncFnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let store = open_store(&ground.url).await?;
    let run_id = Uuid::now_v7();
    let mut start = StartRun::new(run_id, "told", Payload::null());
    start.idempotency_key = Some("key".to_owned());
    start.business_id = Some("order".to_owned());
    store.start_runs(vec![start], None).await?;
    let reason = "to end it".to_owned();
    let end = TerminateRun { run_id, reason };
    store.terminate_runs(vec![end], None).await?;
    run(refuse).await?;
    let refused = store.delete_run(run_id, None).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(store.get_run(run_id).await?.is_none());

    let whole = audit(&*store, None).await?;
    assert!(whole.is_clean(), "{whole}");
    let walked = look(&ground, AT_REST).await?;
    assert!(walked.report.is_clean(), "{}", walked.report);

    run("DELETE FROM {t}purges").await?;
    let whole = audit(&*store, None).await?;
    let walked = look(&ground, AT_REST).await?;
    for report in [whole, walked.report] {
        let broken: BTreeSet<Invariant> = report.violations.iter().map(|v| v.invariant).collect();
        assert_eq!(
            broken,
            BTreeSet::from([Invariant::I9, Invariant::I13]),
            "{report}"
        );
        let told = report.to_string();
        assert!(told.contains("rows in durable_workflow_events"), "{report}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_between_two_slices_of_a_deletion_is_clean_on_sqlite() -> anyhow::Result<()> {
    let ground = Ground::sqlite()?;
    let path = ground.url.trim_start_matches("sqlite:").to_owned();
    let refuse = "CREATE TRIGGER refuse BEFORE DELETE ON {t}workflow_events
                  BEGIN SELECT RAISE(ABORT, 'this row stays'); END";
    knows_what_is_being_deleted(ground, refuse, async |statement| {
        let statement = statement.replace("{t}", "durable_");
        rusqlite::Connection::open(&path)?.execute_batch(&statement)?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_between_two_slices_of_a_deletion_is_clean_on_postgres() -> anyhow::Result<()> {
    let ground = Ground::postgres().await?;
    let client = ground.sql().await?;
    let refuse = "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS
                      $$ BEGIN RAISE EXCEPTION 'this row stays'; END $$;
                  CREATE TRIGGER refuse BEFORE DELETE ON {t}workflow_events
                      FOR EACH ROW EXECUTE FUNCTION refuse()";
    knows_what_is_being_deleted(ground, refuse, async |statement| {
        let statement = statement.replace("{t}", "durable.durable_");
        Ok(client.batch_execute(&statement).await?)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_run_by_run_finds_what_is_broken_on_sqlite() -> anyhow::Result<()> {
    let ground = Ground::sqlite_from(SQLITE_0008)?;
    let path = ground.url.trim_start_matches("sqlite:").to_owned();
    finds_what_is_broken(ground, async |statement| {
        let statement = statement.replace("{t}", "durable_").replace("{n}", "0");
        let statement = statement.replace("{u}", "X'00000000000000000000000000000001'");
        rusqlite::Connection::open(&path)?.execute_batch(&statement)?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_run_by_run_finds_what_is_broken_on_postgres() -> anyhow::Result<()> {
    let ground = Ground::postgres_from(POSTGRES_V016).await?;
    let client = ground.sql().await?;
    finds_what_is_broken(ground, async |statement| {
        let statement = statement
            .replace("{t}", "durable.durable_")
            .replace("{n}", "now()");
        let statement = statement.replace("{u}", "'00000000-0000-0000-0000-000000000001'");
        Ok(client.batch_execute(&statement).await?)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_passes_over_a_run_that_does_not_fit_into_memory() -> anyhow::Result<()> {
    let large = Ground::postgres_from(POSTGRES_V016).await?;
    drop(open_store(&large.url).await?);
    let grow = "UPDATE durable.durable_workflow_instances SET memo = convert_to(repeat('x', 34000000), 'UTF8')
                WHERE id = (SELECT id FROM durable.durable_workflow_instances ORDER BY id OFFSET 3 LIMIT 1)";
    large.sql().await?.batch_execute(grow).await?;
    // The memos of messages count like every other payload: these could not even be read.
    let grow = "INSERT INTO durable.durable_messages (partition_key, sender, sequence_num, idx, kind, data, memo)
                SELECT r.partition_key, r.id, 1000, n, 'x', 'x', convert_to(repeat('x', 4000000), 'UTF8')
                FROM (SELECT partition_key, id FROM durable.durable_workflow_instances
                      ORDER BY id OFFSET 4 LIMIT 1) AS r, generate_series(1, 9) AS n";
    large.sql().await?.batch_execute(grow).await?;
    let walked = look(&large, AT_REST).await?;
    assert_eq!(walked.too_large, 2);
    assert!(walked.first_too_large.is_some() && walked.complete);
    assert!(walked.report.is_clean(), "{}", walked.report);
    Ok(())
}
