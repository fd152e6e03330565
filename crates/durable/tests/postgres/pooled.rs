//! Past a transaction pooler: unnamed statements, no session state, and migrations too where there is no other way.

use std::time::Duration;

use everruns_durable::persistence::model::ClaimTasks;
use everruns_durable::persistence::postgres::{PoolConfig, Postgres, PostgresOptions};
use everruns_durable::persistence::sql::rows::{Changes, Load};
use everruns_durable::persistence::sql::tx::{Concern, Database};

use crate::intents::{TasksClaim, load, write};
use crate::samples::{bare_task, full_run, id, t};
use crate::server::{fresh_database, with_database};

#[tokio::test]
async fn everything_works_through_a_pooler_without_a_way_past_it() {
    let pooler = std::env::var("DURABLE_TEST_PGBOUNCER_URL")
        .expect("DURABLE_TEST_PGBOUNCER_URL is not set: run by cargo xtask test");
    let direct = fresh_database().await;
    let (_, name) = direct.rsplit_once('/').unwrap();
    let url = with_database(&pooler, name.split('?').next().unwrap());
    let options = PostgresOptions {
        pooled: true,
        pools: PoolConfig {
            task_pool_size: 4,
            event_pool_size: 4,
            registry_pool_size: 2,
            ..PoolConfig::default()
        },
        ..PostgresOptions::default()
    };
    let starters = (0..3).map(|_| Postgres::open(&url, options.clone()));
    let mut opened = futures_util::future::join_all(starters).await;
    let store = opened.pop().unwrap().unwrap();
    for other in opened {
        other.unwrap();
    }
    let changes = Changes {
        now: t(0),
        insert_runs: vec![full_run(id(1)).into()],
        insert_tasks: (0..40).map(|n| bare_task(id(1), n)).collect(),
        ..Changes::default()
    };
    write(&store, changes).await;
    let claims = (0..8).map(|_| {
        let claim = ClaimTasks {
            worker_id: "w".into(),
            activity_types: vec!["charge".into()],
            max: 5,
            lease: Duration::from_secs(15),
            token: id(9),
            first_shard: 0,
            now: None,
        };
        store.write(Concern::Tasks, TasksClaim(0, claim))
    });
    let claimed = futures_util::future::join_all(claims).await;
    let count: usize = claimed.iter().map(|c| c.as_ref().unwrap().1.len()).sum();
    assert!(count > 0, "somebody got something");
    let loaded = load(
        &store,
        Load {
            runs: vec![id(1)],
            queued_of: vec![id(1)],
            ..Load::default()
        },
    )
    .await;
    assert_eq!((loaded.runs.len(), loaded.queued.len()), (1, 40));
    assert_eq!(store.dump().await.unwrap().runs[0].tasks.len(), 40);
}
