//! Plans: the hot statements find their rows by an index whatever the planner knows of the tables.

use everruns_durable::persistence::postgres::{PLAN_SETTINGS, Postgres};
use serde_json::Value;
use tokio_postgres::Client;

use crate::server::{connect, open};

/// Statements that read all of something on purpose: dumps, counts, small tables, totals, ticks once an hour.
fn reads_all(name: &str) -> bool {
    name.starts_with("DUMP_")
        || name.starts_with("COUNT_")
        || name.starts_with("LIST_")
        || [
            "FORGET_LIMITERS",
            "OLD_SLOTS",
            "READ_ROLLUPS",
            "STOP_SILENT_WORKERS",
        ]
        .contains(&name)
}

/// A connection set up as the hot pools set theirs up.
async fn as_the_pools(url: &str) -> Client {
    let client = connect(url).await;
    for setting in PLAN_SETTINGS {
        client
            .batch_execute(&format!("SET {setting}"))
            .await
            .unwrap();
    }
    client
}

/// Prepares a statement.
async fn prepare(client: &Client, store: &Postgres, wanted: &str) -> usize {
    let statements = store.statements();
    let (name, sql, types) = statements
        .iter()
        .find(|(name, _, _)| *name == wanted)
        .unwrap();
    let types_list = types.join(", ");
    let list = if types.is_empty() {
        String::new()
    } else {
        format!("({types_list})")
    };
    client
        .batch_execute(&format!("PREPARE {name} {list} AS {sql}"))
        .await
        .unwrap();
    types.len()
}

/// The plan of a prepared statement.
async fn plan(client: &Client, execute: &str) -> Value {
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE {execute}");
    let row = client.simple_query(&explain).await.unwrap();
    let text: String = row
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    serde_json::from_str(&text).unwrap()
}

/// Every node of a plan.
fn nodes(plan: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut rest = vec![plan];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => {
                if fields.contains_key("Node Type") {
                    found.push(value);
                }
                rest.extend(fields.values());
            }
            _ => {}
        }
    }
    found
}

fn text<'a>(node: &'a Value, field: &str) -> &'a str {
    node.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What is wrong with a plan: a table scanned, or an index read from end to end of a shard without an order that is wanted.
fn complaints(plan: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for node in nodes(plan) {
        let kind = text(node, "Node Type");
        let table = text(node, "Relation Name");
        if kind == "Seq Scan" && table.starts_with("durable_") {
            complaints.push(format!("Seq Scan on {table}"));
        }
        if kind.contains("Index") {
            let condition = text(node, "Index Cond");
            let by_key = text(node, "Index Name").ends_with("_pkey");
            let whole_shard = condition.contains("partition_key") && !condition.contains("AND");
            if condition.is_empty() || by_key && whole_shard {
                complaints.push(format!("{kind} of a whole shard of {table}: {condition}"));
            }
        }
    }
    complaints
}

/// What is wrong with the plans of all hot statements, as they would be cached now.
async fn wrong_plans(store: &Postgres, url: &str, when: &str) -> Vec<String> {
    let client = as_the_pools(url).await;
    client
        .batch_execute("SET plan_cache_mode = force_generic_plan")
        .await
        .unwrap();
    let mut wrong = Vec::new();
    for (name, _, _) in store.statements() {
        if reads_all(name) {
            continue;
        }
        // In the order of an index, and no further than the first entries: the whole shard is what is wanted, but never the table.
        let in_order = [
            "GLANCE",
            "NEXT_DUE",
            "PENDING_TYPES",
            "PICK_MESSAGES",
            "PURGEABLE_RUNS",
            "READY_TYPES",
        ]
        .contains(&name);
        let params = prepare(&client, store, name).await;
        let nulls = vec!["NULL"; params].join(", ");
        let execute = if params == 0 {
            name.to_owned()
        } else {
            format!("{name}({nulls})")
        };
        let found = complaints(&plan(&client, &execute).await);
        wrong.extend(
            found
                .into_iter()
                .filter(|why| !in_order || why.starts_with("Seq Scan"))
                .map(|why| format!("{when}: {name}: {why}")),
        );
    }
    wrong
}

#[tokio::test]
async fn no_hot_statement_reads_a_whole_shard_whatever_the_planner_knew_when_it_was_planned() {
    let (store, url) = open(1).await;
    let mut wrong = wrong_plans(&store, &url, "new").await;
    let client = connect(&url).await;
    client.batch_execute("ANALYZE").await.unwrap();
    wrong.extend(wrong_plans(&store, &url, "analysed when empty").await);
    insert_pending(&client, 10).await;
    client.batch_execute("ANALYZE").await.unwrap();
    wrong.extend(wrong_plans(&store, &url, "analysed with a few tasks").await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Looks at the claim's plans: custom and generic.
async fn check_claim(url: &str, store: &Postgres, when: &str) {
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let client = as_the_pools(url).await;
        client
            .batch_execute(&format!("SET plan_cache_mode = {mode}"))
            .await
            .unwrap();
        prepare(&client, store, "CLAIM_TASKS").await;
        let execute = "CLAIM_TASKS(0, ARRAY['a', 'b', 'c'], 50, 'w', \
                       '00000000-0000-0000-0000-000000000001', 15000000, NULL, 1)";
        let plan = plan(&client, execute).await;
        let why = complaints(&plan);
        assert!(why.is_empty(), "{when}, {mode}: {why:?}");
        let all = nodes(&plan);
        let sorts: Vec<_> = all
            .iter()
            .filter(|n| text(n, "Node Type").contains("Sort"))
            .collect();
        assert_eq!(
            sorts.len(),
            1,
            "{when}, {mode}: only the candidates are sorted: {plan:#}"
        );
        let below: Vec<&str> = nodes(sorts[0])
            .iter()
            .map(|n| text(n, "Node Type"))
            .collect();
        assert!(
            below.contains(&"Limit"),
            "{when}, {mode}: the sort is above the limit of each type"
        );
        let by_index = all
            .iter()
            .any(|n| text(n, "Index Name") == "durable_task_queue_pending");
        assert!(
            by_index,
            "{when}, {mode}: candidates come from the claim index"
        );
    }
}

async fn insert_pending(client: &Client, count: u32) {
    let insert = format!(
        "INSERT INTO durable.durable_task_queue
            (partition_key, id, workflow_id, activity_id, activity_type, options, status, priority,
             line, sequential, epoch, scheduled_at, visible_at, attempt, max_attempts, deliveries,
             schedule_to_start_timeout_ms, start_to_close_timeout_ms, requeue_count, timeout_at, due_at)
         SELECT 0, lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 'x',
                CASE n % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'd' END, '{{}}', 'pending', n % 5, n,
                TRUE, 0, now(), now() + n * INTERVAL '1 microsecond', 0, 3, 0, 1000, 1000, 0, now(), now()
         FROM (SELECT count(*) AS have FROM durable.durable_task_queue) AS old,
              generate_series(old.have + 1, old.have + {count}) AS n"
    );
    client.batch_execute(&insert).await.unwrap();
}

#[tokio::test]
async fn the_claim_scans_no_table_and_sorts_only_candidates_at_0_10_and_1000000_tasks() {
    let (store, url) = open(1).await;
    let client = connect(&url).await;
    let analyze = "ANALYZE durable.durable_task_queue";
    check_claim(&url, &store, "0 tasks").await;
    client.batch_execute(analyze).await.unwrap();
    check_claim(&url, &store, "0 tasks, analysed").await;

    insert_pending(&client, 10).await;
    check_claim(&url, &store, "10 tasks, analysed when there were none").await;
    client.batch_execute(analyze).await.unwrap();
    check_claim(&url, &store, "10 tasks, analysed").await;

    insert_pending(&client, 999_990).await;
    check_claim(&url, &store, "1000000 tasks, analysed when there were 10").await;
    client.batch_execute(analyze).await.unwrap();
    check_claim(&url, &store, "1000000 tasks, analysed").await;
    touches_few_pages(&url, &store).await;
}

/// What the claim really does: the pages it touches are those of its candidates, not those of a million rows.
async fn touches_few_pages(url: &str, store: &Postgres) {
    let client = as_the_pools(url).await;
    prepare(&client, store, "CLAIM_TASKS").await;
    let explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE CLAIM_TASKS(0, ARRAY['a', 'b'], 50, \
                   'w', '00000000-0000-0000-0000-000000000001', 15000000, NULL, 1)";
    let messages = client.simple_query(explain).await.unwrap();
    let text: String = messages
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    let plan: Value = serde_json::from_str(&text).unwrap();
    let pages = |field: &str| plan[0]["Plan"][field].as_u64().unwrap();
    let touched = pages("Shared Hit Blocks") + pages("Shared Read Blocks");
    assert!(
        touched < 5_000,
        "the claim of 50 tasks touched {touched} pages"
    );
}
