//! Retention from below: its plans, a run at fault, and a key that is deleted while it is reserved.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::model::{
    PurgeOld, PurgeRuns, StartOutcome, StartRun, TerminateRun, after,
};
use everruns_durable::persistence::postgres::{Postgres, PostgresOptions};
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::{Shards, StoreError, WorkflowEventStore};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::server::{connect, fresh_database, open};
use crate::statements::preparation;

async fn store() -> (Arc<dyn WorkflowEventStore>, String) {
    let url = fresh_database().await;
    let options = PostgresOptions {
        shards: Shards::new(1),
        ..PostgresOptions::default()
    };
    let store = SqlStore::new(Postgres::open(&url, options).await.unwrap());
    (Arc::new(store), url)
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// How many of the store's connections wait for a lock.
async fn waiting(client: &Client) -> i64 {
    count(
        client,
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'durable'",
    )
    .await
}

async fn ended_run(store: &Arc<dyn WorkflowEventStore>, start: StartRun) -> Uuid {
    let run_id = start.run_id;
    store.start_runs(vec![start], None).await.unwrap();
    let reason = "to end it".to_owned();
    let end = TerminateRun { run_id, reason };
    store.terminate_runs(vec![end], None).await.unwrap();
    run_id
}

fn start(n: u128, key: &str) -> StartRun {
    let mut start = StartRun::new(Uuid::from_u128(n), "told", Payload::null());
    start.idempotency_key = Some(key.to_owned());
    start
}

/// The first start meets the old key when it reserves its keys, and the key is deleted before it
/// locks them: it stops in between, at another key, and again before its end, at a run. The second
/// start with the same key comes meanwhile. Starts runs, again where a lock of another transaction
/// was in the way for too long: nothing was written then.
async fn start_all(
    store: &Arc<dyn WorkflowEventStore>,
    starts: Vec<StartRun>,
) -> Vec<StartOutcome> {
    loop {
        match store.start_runs(starts.clone(), None).await {
            Err(StoreError::Busy { .. }) => {}
            outcome => return outcome.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_key_that_is_deleted_between_reserving_and_locking_starts_one_run() {
    let (store, url) = store().await;
    let (holder, other, watcher) = (
        connect(&url).await,
        connect(&url).await,
        connect(&url).await,
    );
    let mut last = start(1, "old");
    last.business_id = Some("order".to_owned());
    let old = ended_run(&store, last).await;
    let run_of_order = ended_run(&store, {
        let mut start = start(2, "of order");
        start.business_id = Some("order".to_owned());
        start
    })
    .await;

    holder
        .batch_execute(
            "BEGIN; INSERT INTO durable.durable_keys (partition_key, kind, key, created_at)
             VALUES (0, 'idempotency', 'zz', now())",
        )
        .await
        .unwrap();
    let first = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut first = start(3, "old");
            first.business_id = Some("order".to_owned());
            start_all(&store, vec![first, start(4, "zz")]).await
        }
    });
    while waiting(&watcher).await < 1 {}
    let deleted = format!(
        "DELETE FROM durable.durable_keys WHERE kind = 'idempotency' AND key = 'old' AND run_id = '{old}'"
    );
    watcher.batch_execute(&deleted).await.unwrap();
    watcher
        .batch_execute(&format!(
            "DELETE FROM durable.durable_workflow_instances WHERE id = '{old}'"
        ))
        .await
        .unwrap();
    other
        .batch_execute(&format!(
            "BEGIN; SELECT 1 FROM durable.durable_workflow_instances WHERE id = '{run_of_order}' FOR UPDATE"
        ))
        .await
        .unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    // It waits for the run that has the workflow id.
    let blocked_by_the_run = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%durable_workflow_instances%'
           AND application_name = 'durable'";
    while count(&watcher, blocked_by_the_run).await < 1 {}

    let second = tokio::spawn({
        let store = Arc::clone(&store);
        async move { start_all(&store, vec![start(5, "old")]).await }
    });
    while !second.is_finished() && waiting(&watcher).await < 2 {}
    other.batch_execute("ROLLBACK").await.unwrap();

    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let started = |outcome: &StartOutcome| matches!(outcome, StartOutcome::Started { .. });
    let both = [&first[0], &second[0]];
    let runs = both.iter().filter(|outcome| started(outcome)).count();
    assert_eq!(runs, 1, "{both:?}");
    let with_key =
        "SELECT count(*) FROM durable.durable_workflow_instances WHERE idempotency_key = 'old'";
    assert_eq!(count(&watcher, with_key).await, 1);
}

#[tokio::test]
async fn a_run_whose_rows_cannot_be_deleted_is_set_aside_and_the_others_go() {
    let (store, url) = store().await;
    let client = connect(&url).await;
    let (bad, good) = (
        ended_run(&store, start(1, "a")).await,
        ended_run(&store, start(2, "b")).await,
    );
    client
        .batch_execute(&format!(
            "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'this row stays'; END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON durable.durable_workflow_events
                 FOR EACH ROW WHEN (OLD.workflow_id = '{bad}') EXECUTE FUNCTION refuse()"
        ))
        .await
        .unwrap();
    let now = after(store.clock(None).await.unwrap(), Duration::from_secs(1));
    let purge = |now: Timestamp| PurgeRuns {
        finished_before: now,
        max: 10,
        first_shard: 0,
        now: Some(now),
    };
    assert_eq!(store.purge_runs(purge(now)).await.unwrap(), 2);
    for run in [bad, good] {
        assert!(store.get_run(run).await.unwrap().is_none());
        assert!(store.list_events(run, 0, 10).await.unwrap().is_none());
    }
    let events = "SELECT count(*) FROM durable.durable_workflow_events";
    assert_eq!(count(&client, events).await, 1, "the good run's are gone");
    let noted = "SELECT count(*) FROM durable.durable_purges WHERE failures = 1 AND last_error LIKE '%this row stays%'";
    assert_eq!(count(&client, noted).await, 1);
    let old = |now| PurgeOld {
        max: 100,
        now: Some(now),
        ..PurgeOld::default()
    };
    assert_eq!(store.purge_old(old(now)).await.unwrap().stuck_runs, 1);

    client
        .batch_execute("DROP TRIGGER refuse ON durable.durable_workflow_events")
        .await
        .unwrap();
    let later = after(now, Duration::from_secs(3600));
    let purged = store.purge_old(old(later)).await.unwrap();
    assert_eq!((purged.stuck_runs, purged.more), (0, false));
    assert_eq!(count(&client, events).await, 0);
    let left = "SELECT count(*) FROM durable.durable_purges";
    assert_eq!(count(&client, left).await, 0);
}

/// An operator's trigger (or a foreign key of the operator's own table) refuses one run's row.
#[tokio::test]
async fn a_run_whose_own_row_cannot_be_deleted_is_set_aside_and_the_others_go() {
    let (store, url) = store().await;
    let client = connect(&url).await;
    let bad = ended_run(&store, start(1, "a")).await;
    for n in 2..5 {
        ended_run(&store, start(n, &n.to_string())).await;
    }
    client
        .batch_execute(&format!(
            "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'this run stays'; END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON durable.durable_workflow_instances
                 FOR EACH ROW WHEN (OLD.id = '{bad}') EXECUTE FUNCTION refuse()"
        ))
        .await
        .unwrap();
    let now = after(store.clock(None).await.unwrap(), Duration::from_secs(1));
    let purge = |now: Timestamp| PurgeRuns {
        finished_before: now,
        max: 10,
        first_shard: 0,
        now: Some(now),
    };
    let old = |now| PurgeOld {
        max: 100,
        now: Some(now),
        ..PurgeOld::default()
    };
    assert_eq!(store.purge_runs(purge(now)).await.unwrap(), 3, "the others");
    let noted = "SELECT count(*) FROM durable.durable_purges WHERE failures = 1 AND last_error LIKE '%this run stays%'";
    assert_eq!(count(&client, noted).await, 1);
    assert_eq!(store.purge_old(old(now)).await.unwrap().stuck_runs, 1);
    assert_eq!(
        store.purge_runs(purge(now)).await.unwrap(),
        0,
        "passed over"
    );

    // Tried again later, it fails again, and nothing of the run is gone.
    let later = after(now, Duration::from_secs(3600));
    assert_eq!(store.purge_old(old(later)).await.unwrap().stuck_runs, 1);
    let again = "SELECT count(*) FROM durable.durable_purges WHERE failures = 2";
    assert_eq!(count(&client, again).await, 1);
    assert!(store.get_run(bad).await.unwrap().is_some());
    let history = store.list_events(bad, 0, 10).await.unwrap().unwrap();
    assert_eq!(history.events.len(), 1);
    let tombstones = "SELECT count(*) FROM durable.durable_keys WHERE kind = 'tombstone'";
    assert_eq!(count(&client, tombstones).await, 3, "its id is in use");

    client
        .batch_execute("DROP TRIGGER refuse ON durable.durable_workflow_instances")
        .await
        .unwrap();
    let at_last = after(later, Duration::from_secs(86400));
    let purged = store.purge_old(old(at_last)).await.unwrap();
    assert_eq!((purged.stuck_runs, purged.more), (0, false));
    assert!(store.get_run(bad).await.unwrap().is_none());
    for table in ["workflow_instances", "workflow_events", "purges"] {
        let left = format!("SELECT count(*) FROM durable.durable_{table}");
        assert_eq!(count(&client, &left).await, 0, "{table}");
    }
    assert_eq!(count(&client, tombstones).await, 4);
}

/// A run that was set aside and is opened again by a reset is not deleted.
#[tokio::test]
async fn a_run_that_was_set_aside_and_opened_again_stays() {
    let (store, url) = store().await;
    let client = connect(&url).await;
    let run = Uuid::from_u128(1);
    store.start_runs(vec![start(1, "a")], None).await.unwrap();
    client
        .batch_execute(&format!(
            "INSERT INTO durable.durable_purges
                 (partition_key, run_id, idempotency_key, created_at, retry_at, failures, last_error)
             VALUES (0, '{run}', 'a', now(), now(), 1, 'refused before')"
        ))
        .await
        .unwrap();
    let now = after(store.clock(None).await.unwrap(), Duration::from_secs(1));
    let old = PurgeOld {
        max: 100,
        now: Some(now),
        ..PurgeOld::default()
    };
    assert_eq!(store.purge_old(old).await.unwrap().stuck_runs, 0);
    assert!(store.get_run(run).await.unwrap().is_some());
    let key = "SELECT count(*) FROM durable.durable_keys WHERE kind = 'idempotency' AND key = 'a'";
    assert_eq!(count(&client, key).await, 1, "its rows are there");
    let noted = "SELECT count(*) FROM durable.durable_purges";
    assert_eq!(count(&client, noted).await, 0);
}

/// A table that cannot be written does not keep the kinds behind it.
#[tokio::test]
async fn a_kind_that_cannot_be_deleted_does_not_stop_the_kinds_behind_it() {
    let (store, url) = store().await;
    let client = connect(&url).await;
    let run = ended_run(&store, start(1, "a")).await;
    client
        .batch_execute(&format!(
            "INSERT INTO durable.durable_signals
                 (partition_key, workflow_id, id, signal_type, sequence_num, sent_at, processed_at)
             VALUES (0, '{run}', gen_random_uuid(), 's', 1, now(), now());
             INSERT INTO durable.durable_dedup (key, created_at) VALUES ('k', now());
             CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'this row stays'; END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON durable.durable_signals
                 FOR EACH ROW EXECUTE FUNCTION refuse()"
        ))
        .await
        .unwrap();
    let before = after(store.clock(None).await.unwrap(), Duration::from_secs(1));
    let old = PurgeOld {
        signals_before: Some(before),
        results_before: Some(before),
        max: 100,
        ..PurgeOld::default()
    };
    let error = store.purge_old(old).await.unwrap_err();
    assert!(format!("{error:?}").contains("this row stays"), "{error:?}");
    let results = "SELECT count(*) FROM durable.durable_dedup";
    assert_eq!(count(&client, results).await, 0);
}

#[tokio::test]
async fn old_tombstones_and_audit_rows_beyond_one_call_are_announced_and_go_with_the_next() {
    let (store, url) = store().await;
    let client = connect(&url).await;
    client
        .batch_execute(
            "INSERT INTO durable.durable_keys (partition_key, kind, key, run_id, created_at)
             SELECT 0, 'tombstone', id, id, '2020-01-01'
             FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 10001) OFFSET 0) AS k;
             INSERT INTO durable.durable_audit
                 (id, at, request_id, actor, role, action, target_kind, target_id)
             SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, '2020-01-01',
                 gen_random_uuid(), 'a', 'r', 'b', 'run', 'c'
             FROM generate_series(1, 10001) AS n",
        )
        .await
        .unwrap();
    let old = PurgeOld {
        max: 100,
        ..PurgeOld::default()
    };
    let left = "SELECT (SELECT count(*) FROM durable.durable_keys)
        + (SELECT count(*) FROM durable.durable_audit)";
    let mut calls = 1;
    while store.purge_old(old.clone()).await.unwrap().more {
        calls += 1;
    }
    assert_eq!(count(&client, left).await, 0, "{calls} calls");
}

#[tokio::test]
async fn a_run_that_somebody_has_locked_does_not_hold_up_retention() {
    let (store, url) = store().await;
    let holder = connect(&url).await;
    let (locked, free) = (
        ended_run(&store, start(1, "a")).await,
        ended_run(&store, start(2, "b")).await,
    );
    holder
        .batch_execute(&format!(
            "BEGIN; SELECT 1 FROM durable.durable_workflow_instances WHERE id = '{locked}' FOR UPDATE"
        ))
        .await
        .unwrap();
    let now = after(store.clock(None).await.unwrap(), Duration::from_secs(1));
    let purge = PurgeRuns {
        finished_before: now,
        max: 10,
        first_shard: 0,
        now: Some(now),
    };
    assert_eq!(store.purge_runs(purge.clone()).await.unwrap(), 1);
    assert!(store.get_run(free).await.unwrap().is_none());
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.purge_runs(purge).await.unwrap(), 1);
}

/// With the settings of the store's pools and without: a transaction pooler does not set them.
#[tokio::test]
async fn the_search_for_old_runs_reads_the_first_of_an_index_in_its_order() {
    let (store, url) = open(1).await;
    let client = connect(&url).await;
    client
        .batch_execute(
            "INSERT INTO durable.durable_workflow_instances
                (partition_key, id, workflow_type, version, fingerprint, status, has_children, sequence_num, history_start,
                 iteration, epoch, arrivals, consumed, created_at, updated_at, completed_at)
             SELECT 0, gen_random_uuid(), 'told', '', 0, 'completed', FALSE, 1, 0, 0, 0, 0, 0, now(), now(),
                 now() - n * INTERVAL '1 second'
             FROM generate_series(1, 50000) AS n;
             ANALYZE",
        )
        .await
        .unwrap();
    let statements = store.statements();
    let purgeable = statements.iter().find(|s| s.name == "PURGEABLE_RUNS");
    let prepare = preparation("search", purgeable.unwrap());
    client.batch_execute(&prepare).await.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let set = format!("SET plan_cache_mode = {mode}");
        client.batch_execute(&set).await.unwrap();
        let search = "search(0, now(), '0001-01-01', '00000000-0000-0000-0000-000000000000', 1000)";
        let plan = explained(&client, search).await;
        assert!(
            plan.contains("durable_workflow_instances_ended"),
            "{mode}: {plan}"
        );
        assert!(!plan.contains("Sort"), "{mode}: {plan}");
        assert!(
            !plan.contains("Seq Scan on durable_workflow_instances"),
            "{mode}: {plan}"
        );
    }
}

/// A slice reads as many entries of the primary key as it deletes, however long the history is.
#[tokio::test]
async fn a_slice_of_a_long_history_reads_the_first_of_the_primary_key() {
    let (store, url) = open(1).await;
    let client = connect(&url).await;
    client
        .batch_execute(
            "INSERT INTO durable.durable_workflow_events
                (partition_key, workflow_id, sequence_num, event_type, event_data, created_at)
             SELECT 0, '00000000-0000-0000-0000-000000000001', n, 'x', 'x', now() FROM generate_series(1, 50000) AS n;
             INSERT INTO durable.durable_signals
                (partition_key, workflow_id, id, signal_type, sequence_num, sent_at)
             SELECT 0, '00000000-0000-0000-0000-000000000001', gen_random_uuid(), 'x', n, now()
             FROM generate_series(1, 50000) AS n;
             ANALYZE",
        )
        .await
        .unwrap();
    let run = "ARRAY['00000000-0000-0000-0000-000000000001']::uuid[]";
    for (name, arguments, index) in [
        (
            "PURGE_EVENTS",
            format!("0, {run}, ARRAY[0]::bigint[], 5000, 1000000"),
            "durable_workflow_events_pkey",
        ),
        (
            "DELETE_PAST",
            format!("0, {run}, ARRAY[0]::bigint[], ARRAY[40000]::bigint[], now(), 5000, 1000000"),
            "durable_workflow_events_pkey",
        ),
        (
            "PURGE_SIGNALS",
            format!("0, {run}, 5000, 1000000"),
            "durable_signals_pkey",
        ),
    ] {
        let statements = store.statements();
        let statement = statements.iter().find(|s| s.name == name);
        let prepare = preparation(name, statement.unwrap());
        client.batch_execute(&prepare).await.unwrap();
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let set = format!("SET plan_cache_mode = {mode}");
            client.batch_execute(&set).await.unwrap();
            let plan = explained(&client, &format!("{name}({arguments})")).await;
            let by_index = format!("Index Scan using {index}");
            assert!(plan.contains(&by_index), "{name}, {mode}: {plan}");
            for dear in ["Bitmap", "Sort", "Seq Scan"] {
                assert!(!plan.contains(dear), "{name}, {mode}: {plan}");
            }
        }
    }
}

async fn explained(client: &Client, execute: &str) -> String {
    let rows = client
        .simple_query(&format!("EXPLAIN EXECUTE {execute}"))
        .await;
    let lines = rows.unwrap();
    let lines = lines.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}
