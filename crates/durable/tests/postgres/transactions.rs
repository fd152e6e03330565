//! Transactions: all or nothing, planned again when somebody else was first, and never more statements for more rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use durable_core::{Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::model::{KeyKind, KeyRecord};
use everruns_durable::persistence::postgres::{PoolConfig, Postgres, PostgresOptions};
use everruns_durable::persistence::sql::rows::{Changes, EventRow, Load, RunUpdate};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use everruns_durable::persistence::{StoreError, StoreResult};
use uuid::Uuid;

use crate::intents::{Write, write};
use crate::samples::{bare_run, bare_task, head, id, t};
use crate::server::{connect, fresh_database, open};

/// A set of turns: runs are locked, events appended, tasks queued, runs changed.
fn turns(count: u128, sequence: i64) -> Write {
    let runs: Vec<Uuid> = (0..count).map(id).collect();
    let events = runs.iter().flat_map(|&run_id| {
        (1..=5).map(move |n| EventRow {
            run_id,
            sequence_num: sequence + n,
            event: WorkflowEvent::WorkflowStarted {
                input: Payload::null(),
            }
            .encode(),
        })
    });
    let updates = runs.iter().map(|&run_id| RunUpdate {
        head: head(&bare_run(run_id)),
        input: None,
        outcome: None,
    });
    let tasks = (0..count).map(|n| bare_task(id(n), 1_000_000 + n));
    Write {
        load: Load {
            runs: runs.clone(),
            unread_of: runs.iter().map(|run_id| (*run_id, 0)).collect(),
            ..Load::default()
        },
        changes: Changes {
            now: t(1),
            delete_tasks_of: runs.clone(),
            update_runs: updates.collect(),
            insert_events: events.collect(),
            insert_tasks: tasks.collect(),
            ..Changes::default()
        },
    }
}

#[tokio::test]
async fn a_thousand_turns_cost_as_many_statements_as_one_and_one_transaction() {
    let (store, url) = open(1).await;
    let runs = (0..1000).map(|n| bare_run(id(n)).into()).collect();
    write(
        &store,
        Changes {
            now: t(0),
            insert_runs: runs,
            ..Changes::default()
        },
    )
    .await;
    let commits = async || {
        let client = connect(&url).await;
        let count = "SELECT count(DISTINCT xmin::TEXT) FROM durable.durable_workflow_events";
        client.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = store.statements_sent();
    store.write(Concern::Events, turns(1, 0)).await.unwrap();
    let one = store.statements_sent() - before;
    assert_eq!(commits().await, 1);
    store.write(Concern::Events, turns(1000, 10)).await.unwrap();
    let thousand = store.statements_sent() - before - one;
    assert_eq!(one, thousand);
    assert_eq!(commits().await, 2);
}

#[tokio::test]
async fn an_error_of_any_statement_rolls_all_of_it_back_and_the_connection_lives_on() {
    let url = fresh_database().await;
    let one = PoolConfig {
        event_pool_size: 1,
        ..PoolConfig::default()
    };
    let options = PostgresOptions {
        pools: one,
        ..PostgresOptions::default()
    };
    let store = Postgres::open(&url, options).await.unwrap();
    let mut bad = bare_task(id(1), 5);
    bad.activity_type = "NUL \0 is no text".into();
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(1)).into()],
        insert_tasks: vec![bad],
        ..Changes::default()
    };
    let refused = store
        .write(
            Concern::Events,
            Write {
                changes,
                ..Write::default()
            },
        )
        .await;
    assert!(
        matches!(refused, Err(StoreError::Invalid(_))),
        "{refused:?}"
    );
    assert!(store.dump().await.unwrap().runs.is_empty());
    write(
        &store,
        Changes {
            now: t(0),
            insert_runs: vec![bare_run(id(1)).into()],
            ..Changes::default()
        },
    )
    .await;
    assert_eq!(store.dump().await.unwrap().runs.len(), 1);
}

#[tokio::test]
async fn events_whose_places_are_taken_take_everything_with_them_and_the_connection_lives_on() {
    let url = fresh_database().await;
    let one = PoolConfig {
        event_pool_size: 1,
        ..PoolConfig::default()
    };
    let options = PostgresOptions {
        pools: one,
        ..PostgresOptions::default()
    };
    let store = Postgres::open(&url, options).await.unwrap();
    let runs = (0..100).map(|n| bare_run(id(n)).into()).collect();
    let begun = Changes {
        now: t(0),
        insert_runs: runs,
        ..Changes::default()
    };
    write(&store, begun).await;
    store.write(Concern::Events, turns(1, 0)).await.unwrap();
    let before = store.dump().await.unwrap();
    // The first run's places are taken.
    let refused = store.write(Concern::Events, turns(100, 0)).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(store.dump().await.unwrap(), before);
    store.write(Concern::Events, turns(100, 10)).await.unwrap();
    let after = store.dump().await.unwrap();
    assert!(after.runs.iter().all(|run| run.events.len() >= 5));
}

/// Locks a run, tells that it has, and then waits for ever.
struct LockAndHang(Arc<tokio::sync::Notify>);

impl Intent for LockAndHang {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<((), Changes)> {
        tx.load(Load {
            runs: vec![id(1)],
            ..Load::default()
        })
        .await?;
        self.0.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_write_that_is_dropped_half_way_holds_no_locks() {
    let url = fresh_database().await;
    let one = PoolConfig {
        event_pool_size: 1,
        ..PoolConfig::default()
    };
    let options = PostgresOptions {
        pools: one,
        ..PostgresOptions::default()
    };
    let store = Postgres::open(&url, options).await.unwrap();
    write(
        &store,
        Changes {
            now: t(0),
            insert_runs: vec![bare_run(id(1)).into()],
            ..Changes::default()
        },
    )
    .await;
    let locked = Arc::new(tokio::sync::Notify::new());
    tokio::select! {
        _ = store.write(Concern::Events, LockAndHang(Arc::clone(&locked))) => unreachable!("it hangs"),
        () = locked.notified() => {}
    }
    let client = connect(&url).await;
    client
        .batch_execute(
            "SET lock_timeout = '20s'; SELECT 1 FROM durable.durable_workflow_instances FOR UPDATE",
        )
        .await
        .unwrap();
    write(&store, turns(1, 0).changes).await;
}

/// Starts a run unless it is there; counts how often it was planned.
struct StartOnce {
    run_id: Uuid,
    key: Option<String>,
    plans: Arc<AtomicU32>,
}

impl Intent for StartOnce {
    type Answer = bool;

    fn at(&self) -> Option<Timestamp> {
        Some(t(0))
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(bool, Changes)> {
        self.plans.fetch_add(1, Ordering::Relaxed);
        let name = self.key.clone().map(|key| (KeyKind::Idempotency, key));
        let keys: Vec<_> = name.into_iter().collect();
        let known = tx
            .load(Load {
                keys: keys.clone(),
                ..Load::default()
            })
            .await?;
        let found = tx
            .load(Load {
                runs: vec![self.run_id],
                ..Load::default()
            })
            .await?;
        let mut changes = Changes {
            now: t(0),
            ..Changes::default()
        };
        if !known.keys.is_empty() || !found.runs.is_empty() {
            return Ok((false, changes));
        }
        changes.insert_runs = vec![bare_run(self.run_id).into()];
        changes.put_keys = keys
            .into_iter()
            .map(|(kind, key)| KeyRecord {
                kind,
                key,
                run_id: self.run_id,
                created_at: t(0),
            })
            .collect();
        Ok((true, changes))
    }
}

#[tokio::test]
async fn of_sixty_four_that_start_one_run_id_one_starts_it_and_the_others_find_it() {
    let (store, _) = open(4).await;
    let plans = Arc::new(AtomicU32::new(0));
    let starts = (0..64).map(|_| {
        let start = StartOnce {
            run_id: id(1),
            key: None,
            plans: Arc::clone(&plans),
        };
        store.write(Concern::Events, start)
    });
    let started = futures_util::future::join_all(starts).await;
    assert_eq!(started.iter().filter(|s| *s.as_ref().unwrap()).count(), 1);
    assert!(plans.load(Ordering::Relaxed) >= 64);
}

#[tokio::test]
async fn of_sixty_four_with_one_key_one_starts_and_the_others_find_it() {
    let (store, _) = open(4).await;
    let plans = Arc::new(AtomicU32::new(0));
    let starts = (0..64).map(|n| {
        let start = StartOnce {
            run_id: id(n),
            key: Some("order-1".into()),
            plans: Arc::clone(&plans),
        };
        store.write(Concern::Events, start)
    });
    let started = futures_util::future::join_all(starts).await;
    assert_eq!(started.iter().filter(|s| *s.as_ref().unwrap()).count(), 1);
    // The second waits for the first at the key, and plans again where that takes too long.
    assert!(plans.load(Ordering::Relaxed) >= 64);
    assert_eq!(store.dump().await.unwrap().keys.len(), 1);
}

#[tokio::test]
async fn sixteen_committers_over_the_same_runs_never_deadlock() {
    let (store, url) = open(4).await;
    let runs = (0..40).map(|n| bare_run(id(n)).into()).collect();
    write(
        &store,
        Changes {
            now: t(0),
            insert_runs: runs,
            ..Changes::default()
        },
    )
    .await;
    let commits = (0..16).map(|n| {
        let store = &store;
        async move {
            for round in 0..10_i64 {
                let mut write = turns(40, n * 1000 + round * 10);
                write.load.runs.rotate_left(usize::try_from(n * 2).unwrap());
                store.write(Concern::Events, write).await.unwrap();
            }
        }
    });
    futures_util::future::join_all(commits).await;
    let row = connect(&url)
        .await
        .query_one(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced_without_the_caller_noticing() {
    let (store, url) = open(1).await;
    write(
        &store,
        Changes {
            now: t(0),
            insert_runs: vec![bare_run(id(1)).into()],
            ..Changes::default()
        },
    )
    .await;
    connect(&url)
        .await
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'durable'",
        )
        .await
        .unwrap();
    store.write(Concern::Events, turns(1, 0)).await.unwrap();
    assert!(store.get_run(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_statement_that_is_cut_off_ends_the_write_as_unavailable_and_is_not_tried_again() {
    let (store, url) = open(1).await;
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(0)).into()],
        ..Changes::default()
    };
    write(&store, changes).await;
    let (holder, watcher) = (connect(&url).await, connect(&url).await);
    holder
        .batch_execute("BEGIN; SELECT 1 FROM durable.durable_workflow_instances FOR UPDATE")
        .await
        .unwrap();
    let cut_off_the_waiting = async {
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'durable'";
        while watcher.query(cancel, &[]).await.unwrap().is_empty() {}
    };
    let write = store.write(Concern::Events, turns(1, 0));
    let (written, ()) = tokio::join!(write, cut_off_the_waiting);
    assert!(
        matches!(written, Err(StoreError::Unavailable { .. })),
        "{written:?}"
    );
    holder.batch_execute("ROLLBACK").await.unwrap();
    store.write(Concern::Events, turns(1, 0)).await.unwrap();
}
