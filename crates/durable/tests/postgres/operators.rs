//! Operators' reads: connections of their own, a time limit, cancelled when the caller goes away,
//! and an index for every filter.

use std::time::Duration;

use durable_core::{AttributeValue, Payload};
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::model::{
    CountLimit, DlqFilter, Page, RunFilter, WorkerFilter, WorkflowStatus,
};
use everruns_durable::persistence::postgres::{PoolConfig, Postgres, PostgresOptions};
use everruns_durable::persistence::sql::rows::Changes;
use everruns_durable::persistence::sql::tx::Database;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::intents::write;
use crate::samples::{bare_run, id, letter, t};
use crate::server::{connect, fresh_database, open};

/// A store with one connection for operators.
async fn with_one_connection(timeout: Duration) -> (Postgres, String) {
    let url = fresh_database().await;
    let options = PostgresOptions {
        pools: PoolConfig {
            operator_pool_size: 1,
            operator_timeout: timeout,
            ..PoolConfig::default()
        },
        ..PostgresOptions::default()
    };
    (Postgres::open(&url, options).await.unwrap(), url)
}

/// Keeps every reader of the runs waiting until it is dropped or committed.
async fn lock_runs(url: &str) -> Client {
    let client = connect(url).await;
    client
        .batch_execute(
            "BEGIN; LOCK TABLE durable.durable_workflow_instances IN ACCESS EXCLUSIVE MODE",
        )
        .await
        .unwrap();
    client
}

/// Reads that wait for the lock. A transaction sees one snapshot of the activity until it clears
/// it.
async fn waiting(client: &Client) -> i64 {
    client
        .batch_execute("SELECT pg_stat_clear_snapshot()")
        .await
        .unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn until_waiting(client: &Client, wanted: i64) {
    while waiting(client).await != wanted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_read_over_its_time_limit_is_too_broad_and_its_connection_is_used_again() {
    let (store, url) = with_one_connection(Duration::from_millis(200)).await;
    let lock = lock_runs(&url).await;
    let exact = store
        .count_runs(RunFilter::default(), CountLimit::Exact)
        .await;
    assert!(
        matches!(exact, Err(StoreError::TooBroad { limit_ms: 200 })),
        "{exact:?}"
    );
    let list = store.list_runs(RunFilter::default(), Page::default()).await;
    assert!(matches!(list, Err(StoreError::TooBroad { .. })), "{list:?}");
    lock.batch_execute("ROLLBACK").await.unwrap();
    let list = store.list_runs(RunFilter::default(), Page::default()).await;
    assert_eq!(list.unwrap().runs, []);
}

#[tokio::test]
async fn an_abandoned_read_is_cancelled_and_keeps_nobody_waiting() {
    let (store, url) = with_one_connection(Duration::from_secs(600)).await;
    let lock = lock_runs(&url).await;
    for _ in 0..20 {
        let read = store.count_runs(RunFilter::default(), CountLimit::Exact);
        tokio::select! {
            _ = read => unreachable!("it waits for the lock"),
            () = until_waiting(&lock, 1) => {}
        }
        // The place in the pool is free once the server was told; the read itself is gone.
        until_waiting(&lock, 0).await;
    }
    lock.batch_execute("ROLLBACK").await.unwrap();
    let list = store.list_runs(RunFilter::default(), Page::default()).await;
    assert_eq!(list.unwrap().runs, [], "the pool has a sound connection");
}

#[tokio::test]
async fn operators_reads_that_hang_leave_the_registry_alone() {
    let (store, url) = with_one_connection(Duration::from_secs(600)).await;
    let lock = lock_runs(&url).await;
    let reads: Vec<_> = (0..40)
        .map(|_| Box::pin(store.count_runs(RunFilter::default(), CountLimit::Exact)))
        .collect();
    let reads = futures_util::future::select_all(reads);
    tokio::select! {
        _ = reads => unreachable!("they wait for the lock"),
        () = async {
            until_waiting(&lock, 1).await;
            assert_eq!(store.list_workers(WorkerFilter::default()).await.unwrap(), []);
            assert_eq!(store.get_breaker("b".to_owned()).await.unwrap(), None);
            store.clock(None).await.unwrap();
            // Part of the answer to every start.
            assert!(store.get_attributes(Uuid::nil()).await.unwrap().is_empty());
            assert_eq!(waiting(&lock).await, 1, "one place, one read");
        } => {}
    }
}

#[tokio::test]
async fn a_read_waits_for_its_place_no_longer_than_for_its_answer() {
    let (store, url) = with_one_connection(Duration::from_millis(300)).await;
    let _lock = lock_runs(&url).await;
    let count = || store.count_runs(RunFilter::default(), CountLimit::Exact);
    let (first, second) = tokio::join!(count(), count());
    let answers = [first.unwrap_err(), second.unwrap_err()];
    assert!(
        answers
            .iter()
            .any(|e| matches!(e, StoreError::TooBroad { .. })),
        "{answers:?}"
    );
}

/// Every filter that a list offers, alone, and type with status.
fn single_filters() -> Vec<(&'static str, RunFilter)> {
    let all = RunFilter::default;
    vec![
        ("all", all()),
        ("cursor", all().before(Some(Uuid::from_u128(u128::MAX / 2)))),
        ("completed", all().status(WorkflowStatus::Completed)),
        ("failed", all().status(WorkflowStatus::Failed)),
        ("type", all().workflow_type("rare")),
        (
            "type and status",
            all().workflow_type("many").status(WorkflowStatus::Failed),
        ),
        ("business id", all().business_id("b7")),
        (
            "parent",
            RunFilter {
                parent: Some(id(7)),
                ..all()
            },
        ),
        (
            "blocked",
            RunFilter {
                blocked: true,
                ..all()
            },
        ),
        ("text", all().attribute("a", "x")),
        ("int", all().attribute("a", 1_i64)),
        ("time", all().attribute("a", AttributeValue::Time(t(1)))),
        (
            "combination",
            all()
                .attribute("a", "x")
                .workflow_type("rare")
                .status(WorkflowStatus::Failed),
        ),
    ]
}

/// So many finished runs, by SQL.
async fn fill(url: &str, runs: i64) {
    let client = connect(url).await;
    client
        .batch_execute(&format!(
            "INSERT INTO durable.durable_workflow_instances (partition_key, id, workflow_type, version, fingerprint,
                status, has_children, sequence_num, history_start, iteration, epoch, arrivals, consumed,
                created_at, updated_at, completed_at)
             SELECT i % 2, gen_random_uuid(), 'many', '', 0, 'completed', FALSE, 2, 0, 0, 0, 0, 0,
                now() - i * interval '1 second', now(), now()
             FROM generate_series(1, {runs}) AS i;
             ANALYZE"
        ))
        .await
        .unwrap();
}

#[tokio::test]
async fn every_filter_of_a_list_is_answered_by_an_index_in_its_order() {
    let (store, url) = open(2).await;
    for runs in [0, 100_000] {
        fill(&url, runs).await;
        for (name, filter) in single_filters() {
            let plan = store
                .explain_runs(&filter, Page::first(1000))
                .await
                .unwrap();
            assert!(!plan.contains("Seq Scan on durable_"), "{name}: {plan}");
            assert!(!plan.contains("Bitmap"), "{name}: {plan}");
            let conditions = plan.lines().filter(|line| line.contains("Index Cond"));
            assert!(conditions.count() >= 2, "{name}: {plan}");
        }
    }
    for (name, filter) in single_filters() {
        let page = store
            .list_runs(filter.clone(), Page::first(1000))
            .await
            .unwrap();
        let counted = store.count_runs(filter, CountLimit::Capped).await.unwrap();
        let many = matches!(name, "all" | "cursor" | "completed");
        assert_eq!(page.runs.len(), if many { 1000 } else { 0 }, "{name}");
        assert_eq!(page.next.is_some(), many, "{name}");
        assert_eq!(
            (counted.count, counted.exact),
            if many { (10_000, false) } else { (0, true) },
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_combination_that_finds_little_answers_partial_pages_that_lead_on() {
    let (store, url) = open(2).await;
    fill(&url, 50_000).await;
    let client = connect(&url).await;
    let oldest = "UPDATE durable.durable_workflow_instances SET completed_at = NULL, blocked_build = NULL,
                  created_at = '2001-01-01' WHERE id = (SELECT id FROM durable.durable_workflow_instances ORDER BY id LIMIT 1)
                  RETURNING id";
    let oldest: Uuid = client.query_one(oldest, &[]).await.unwrap().get(0);
    // Both ranges are wide, so that the walk goes by type and looks at each run.
    let filter = RunFilter::default()
        .workflow_type("many")
        .created(
            Some("1999-01-01T00:00:00Z".parse().unwrap()),
            Some("2099-01-01T00:00:00Z".parse().unwrap()),
        )
        .attribute("a", "x");
    let none = store.list_runs(filter, Page::first(10)).await.unwrap();
    assert_eq!(
        (none.runs, none.next, none.partial),
        (Vec::new(), None, false),
        "the attribute is walked"
    );
    let old = RunFilter::default()
        .workflow_type("many")
        .status(WorkflowStatus::Completed)
        .created(None, Some("2010-01-01T00:00:00Z".parse().unwrap()));
    let narrow = store.list_runs(old, Page::first(10)).await.unwrap();
    let found: Vec<Uuid> = narrow.runs.iter().map(|run| run.id).collect();
    assert_eq!(
        (found, narrow.next),
        (vec![oldest], None),
        "a narrow range is read as a whole"
    );
    client
        .batch_execute(&format!(
            "UPDATE durable.durable_workflow_instances SET parent_id = '{}'",
            id(7)
        ))
        .await
        .unwrap();
    let mut rest = RunFilter {
        parent: Some(id(7)),
        ..RunFilter::default()
    };
    rest.created_until = Some("2010-01-01T00:00:00Z".parse().unwrap());
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = store
            .list_runs(rest.clone(), Page::first(10))
            .await
            .unwrap();
        pages += 1;
        assert_eq!(page.partial, page.next.is_some());
        found.extend(page.runs.into_iter().map(|run| run.id));
        rest.before = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(found, [oldest]);
    assert!(pages > 2, "{pages}");
}

#[tokio::test]
async fn a_list_of_runs_and_letters_with_large_payloads_reads_none_of_them() {
    let (store, _) = open(1).await;
    let large = || Payload::from_value(&"x".repeat(4 * 1024 * 1024 - 2)).unwrap();
    for n in 1..=4 {
        let mut run = bare_run(id(n));
        (run.input, run.memo) = (large(), large());
        let mut dead = letter(id(n), n);
        dead.input = large();
        let changes = Changes {
            now: t(0),
            insert_runs: vec![run.into()],
            put_letters: vec![dead],
            ..Changes::default()
        };
        write(&store, changes).await;
    }
    let page = store
        .list_runs(RunFilter::default(), Page::first(1000))
        .await
        .unwrap();
    assert_eq!(page.runs.len(), 4);
    let letters = store
        .list_dlq(DlqFilter::default(), Page::first(1000))
        .await
        .unwrap();
    assert_eq!(letters.len(), 4);
    assert!(
        letters
            .iter()
            .all(|letter| letter.input.is_absent() && letter.error_history.is_empty())
    );
    let whole = store.get_dead_letter(letters[0].id).await.unwrap().unwrap();
    assert_eq!(whole.input, large());
}
