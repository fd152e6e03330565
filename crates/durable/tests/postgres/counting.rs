//! Counts of open work read no finished run.

use everruns_durable::persistence::postgres::Postgres;
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::server::{connect, open};
use crate::statements::preparation;

/// Runs that have completed.
async fn insert_finished(client: &Client, count: u32) {
    let insert = format!(
        "INSERT INTO durable.durable_workflow_instances
            (partition_key, id, workflow_type, version, fingerprint, status, has_children, sequence_num,
             history_start, iteration, epoch, arrivals, consumed, created_at, updated_at, completed_at)
         SELECT 0, lpad(to_hex(n), 32, '0')::uuid, 'w', '', 0, 'completed', FALSE, 2, 0, 0, 0, 1, 1,
                now(), now(), now()
         FROM generate_series(1, {count}) AS n"
    );
    client.batch_execute(&insert).await.unwrap();
}

/// Pages that a statement touches, planned as the pool of reads plans it, and its plan.
async fn pages_of(url: &str, store: &Postgres, name: &str, arguments: &str) -> (u64, String) {
    let client = connect(url).await;
    let statements = store.statements();
    let statement = statements.iter().find(|s| s.name == name).unwrap();
    client
        .batch_execute(&preparation(name, statement))
        .await
        .unwrap();
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name}({arguments})");
    let messages = client.simple_query(&explain).await.unwrap();
    let text: String = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    let plan: Value = serde_json::from_str(&text).unwrap();
    let pages = |field: &str| plan[0]["Plan"][field].as_u64().unwrap();
    (
        pages("Shared Hit Blocks") + pages("Shared Read Blocks"),
        text,
    )
}

#[tokio::test]
async fn counts_of_open_work_touch_no_page_of_finished_runs() {
    let (store, url) = open(1).await;
    let client = connect(&url).await;
    insert_finished(&client, 300_000).await;
    for when in ["never analysed", "analysed"] {
        for (name, arguments) in [
            ("OPEN_COUNTS", "0"),
            ("COUNT_WAITING", "0, 10001"),
            ("READ_ROLLUPS", "0, now(), 50000"),
        ] {
            let (pages, plan) = pages_of(&url, &store, name, arguments).await;
            // 300,000 runs are some 6,000 pages.
            assert!(pages < 100, "{when}: {name} touched {pages} pages:\n{plan}");
        }
        client.batch_execute("ANALYZE").await.unwrap();
    }
}
