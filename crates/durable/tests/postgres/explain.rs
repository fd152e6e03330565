//! Plans: every statement finds its rows by an index, however large the tables are and whatever the
//! planner knew of them when the statement was planned.

use durable_core::{AttributeValue, Timestamp};
use everruns_durable::persistence::model::{
    AuditFilter, AuditKind, CountLimit, DeadLetterState, DlqFilter, LetterRank, Page, RunFilter,
    TaskFilter, TaskRank, TaskStatus, WorkflowStatus,
};
use everruns_durable::persistence::postgres::{
    LIST_SETTINGS, PLAN_SETTINGS, Postgres, PostgresOptions, Purpose, SentStatement,
};
use everruns_durable::persistence::sql::rows::RegistryWrite;
use everruns_durable::persistence::sql::tx::Database;
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use uuid::Uuid;

use crate::filled::{ROWS, filled};
use crate::intents::write_registry;
use crate::plans::{complaints, kinds_and_indexes, sorts_behind_limits};
use crate::server::{connect, open};
use crate::statements::preparation;

/// The ways in which the store's connections plan. The pools of claims, turns and results have the
/// settings of [`PLAN_SETTINGS`], the look-ups of operators those of [`LIST_SETTINGS`]; the others
/// plan as the server does, for the values given or, when a statement is sent often, for any values.
/// Behind a pooler both happen to every statement.
const PLANNERS: [(&str, &[&str]); 4] = [
    ("hot pools", &PLAN_SETTINGS),
    ("operators' look-ups", &LIST_SETTINGS),
    (
        "other pools, any values",
        &["plan_cache_mode=force_generic_plan"],
    ),
    (
        "other pools, these values",
        &["plan_cache_mode=force_custom_plan"],
    ),
];

/// A connection with some settings.
async fn connect_with(url: &str, settings: &[&str]) -> Client {
    let client = connect(url).await;
    for setting in settings {
        let set = format!("SET {setting}");
        client.batch_execute(&set).await.unwrap();
    }
    client
}

/// A value of a parameter's type as SQL writes it, of which the filled tables have a few rows.
/// None:
/// there is no sample of this type yet, and the test asks for one.
fn sample(type_: &Type) -> Option<&'static str> {
    Some(match *type_ {
        Type::BOOL => "TRUE",
        Type::BOOL_ARRAY => "ARRAY[TRUE, FALSE]",
        Type::BYTEA => "'x'",
        Type::BYTEA_ARRAY => "ARRAY['x', 'y']::bytea[]",
        Type::FLOAT8 => "60",
        Type::FLOAT8_ARRAY => "ARRAY[1, 2]::float8[]",
        Type::INT2 | Type::INT4 => "0",
        Type::INT2_ARRAY | Type::INT4_ARRAY | Type::INT8_ARRAY => "ARRAY[0, 1]",
        Type::INT8 => "100",
        Type::TEXT => "'x'",
        Type::TEXT_ARRAY => "ARRAY['x', 'y']",
        Type::TIMESTAMPTZ => "now() - INTERVAL '30 days'",
        Type::TIMESTAMPTZ_ARRAY => "ARRAY[now(), now()]",
        Type::UUID => "'00000000-0000-0000-0000-0000000003e8'",
        Type::UUID_ARRAY => {
            "ARRAY['00000000-0000-0000-0000-0000000003e8', '00000000-0000-0000-0000-0000000003e9']::uuid[]"
        }
        _ => return None,
    })
}

/// The call of a prepared statement with samples for its parameters.
fn execution(statement: &SentStatement) -> Result<String, String> {
    let mut values = Vec::new();
    for type_ in &statement.types {
        let value = sample(type_).ok_or_else(|| format!("there is no sample of type {type_}"))?;
        values.push(value);
    }
    Ok(match values.is_empty() {
        true => statement.name.to_owned(),
        false => format!("{}({})", statement.name, values.join(", ")),
    })
}

/// The plan of a prepared statement.
async fn plan(client: &Client, options: &str, execute: &str) -> Value {
    let explain = format!("EXPLAIN ({options}, FORMAT JSON) EXECUTE {execute}");
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

/// What is wrong with the plans of all statements of requests, chores and claims, as a connection
/// with these settings would plan them now.
async fn wrong_plans(store: &Postgres, url: &str, settings: &[&str]) -> Vec<String> {
    let client = connect_with(url, settings).await;
    let mut wrong = Vec::new();
    for statement in store.statements() {
        match statement.purpose {
            Purpose::Proof => continue,
            Purpose::Service => {}
        }
        let name = statement.name;
        let execute = match execution(&statement) {
            Ok(execute) => execute,
            Err(why) => {
                wrong.push(format!("{name}: {why}"));
                continue;
            }
        };
        let prepare = preparation(name, &statement);
        client.batch_execute(&prepare).await.unwrap();
        let plan = plan(&client, "COSTS", &execute).await;
        let found = complaints(&statement.sql, &plan);
        wrong.extend(found.into_iter().map(|why| format!("{name}: {why}")));
    }
    wrong
}

/// The store on the filled database.
async fn filled_store() -> (Postgres, &'static str) {
    let url = filled().await;
    let store = Postgres::open(url, PostgresOptions::default()).await;
    (store.unwrap(), url)
}

#[tokio::test]
async fn no_statement_reads_or_sorts_without_bound_at_1000000_rows_with_the_settings_of_any_pool() {
    let (store, url) = filled_store().await;
    let mut wrong = Vec::new();
    for (planner, settings) in PLANNERS {
        let found = wrong_plans(&store, url, settings).await;
        wrong.extend(found.into_iter().map(|why| format!("{planner}: {why}")));
    }
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The judge itself: a table that is read from end to end, one that is sorted, and a shard of which
/// all is read by an index.
#[tokio::test]
async fn a_scan_and_a_sort_of_a_large_table_are_found() {
    let url = filled().await;
    let client = connect_with(url, &["max_parallel_workers_per_gather=0"]).await;
    let cases = [
        (
            "SELECT workflow_id FROM durable.durable_workflow_events WHERE event_type = 'none'",
            Some("Seq Scan on durable_workflow_events"),
        ),
        (
            "SELECT id FROM durable.durable_workflow_instances WHERE partition_key = 0
             ORDER BY updated_at LIMIT 10",
            Some("Sort of "),
        ),
        (
            "SELECT id FROM durable.durable_workflow_instances WHERE partition_key = 0
             ORDER BY partition_key, id LIMIT 10",
            None,
        ),
    ];
    for (sql, expected) in cases {
        let rows = client
            .query(&format!("EXPLAIN (FORMAT JSON) {sql}"), &[])
            .await
            .unwrap();
        let found = complaints(sql, &rows[0].get::<_, Plan>(0).0);
        match expected {
            Some(text) => assert!(
                found.iter().any(|why| why.starts_with(text)),
                "{sql}: {found:?}"
            ),
            None => assert_eq!(found, Vec::<String>::new(), "{sql}"),
        }
    }
}

#[tokio::test]
async fn every_table_has_1000000_rows_or_is_small() {
    let url = filled().await;
    let client = connect(url).await;
    let tables = "SELECT relname::text, reltuples::float8 FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'durable'::regnamespace";
    let mut unfilled = Vec::new();
    for row in client.query(tables, &[]).await.unwrap() {
        let (table, rows): (String, f64) = (row.get(0), row.get(1));
        let small = crate::filled::SMALL.contains(&&*table);
        if !small && rows < f64::from(ROWS) * 0.9 {
            unfilled.push(format!("{table}: {rows}"));
        }
    }
    assert!(unfilled.is_empty(), "fill them in filled.rs: {unfilled:?}");
}

/// A parameter in the binary form in which the store sent it.
#[derive(Debug)]
struct Encoded(Option<Vec<u8>>);

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The answer to `EXPLAIN`.
struct Plan(Value);

impl<'a> FromSql<'a> for Plan {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(serde_json::from_slice(raw)?))
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::JSON
    }
}

/// Explains the statements that the store put together since the last call for the values sent:
/// with the settings that were sent before each, or those of its connection.
async fn wrong_composed(store: &Postgres, url: &str, what: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let composed = store.take_composed();
    if composed.is_empty() {
        wrong.push(format!(
            "{what}: the store kept no statement of the request"
        ));
    }
    let client = connect(url).await;
    for (statement, values) in composed {
        let values: Vec<Encoded> = values.into_iter().map(Encoded).collect();
        let params: Vec<(&(dyn ToSql + Sync), Type)> = values
            .iter()
            .map(|value| value as _)
            .zip(statement.types.iter().cloned())
            .collect();
        let explain = format!("EXPLAIN (FORMAT JSON) {}", statement.sql);
        client.batch_execute(&statement.before).await.unwrap();
        let rows = client.query_typed(&explain, &params).await.unwrap();
        if !statement.before.is_empty() {
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        let found = complaints(&statement.sql, &rows[0].get::<_, Plan>(0).0);
        wrong.extend(found.into_iter().map(|why| format!("{what}: {why}")));
    }
    wrong
}

/// An id that the filled tables have.
fn known() -> Uuid {
    Uuid::from_u128(1_003)
}

fn now() -> Timestamp {
    Timestamp::now()
}

/// Every filter of a list of runs, each alone, and none.
fn run_filters() -> Vec<(String, RunFilter)> {
    let mut filters = vec![("runs".to_owned(), RunFilter::default())];
    for status in WorkflowStatus::ALL {
        let name = format!("runs by status {}", status.as_str());
        filters.push((name, RunFilter::default().status(status)));
    }
    let mut add = |name: &str, change: &dyn Fn(&mut RunFilter)| {
        let mut filter = RunFilter::default();
        change(&mut filter);
        filters.push((format!("runs by {name}"), filter));
    };
    add("workflow_type", &|f| f.workflow_type = Some("type7".into()));
    add("rare workflow_type", &|f| {
        f.workflow_type = Some("x".into());
    });
    add("business_id", &|f| f.business_id = Some("b1000".into()));
    add("parent", &|f| f.parent = Some(known()));
    add("created_from", &|f| f.created_from = Some(now()));
    add("created_until", &|f| {
        f.created_until = Some(Timestamp::UNIX_EPOCH);
    });
    add("blocked", &|f| f.blocked = true);
    add("before", &|f| f.before = Some(known()));
    let values = [
        ("text", AttributeValue::Text("v5".into())),
        ("int", AttributeValue::Int(1)),
        ("double", AttributeValue::Double(2.0)),
        ("bool", AttributeValue::Bool(true)),
        ("time", AttributeValue::Time(now())),
    ];
    for (place, (kind, value)) in values.into_iter().enumerate() {
        add(&format!("attribute of kind {kind}"), &|f| {
            f.attributes.insert(format!("name{place}"), value.clone());
        });
    }
    filters
}

#[tokio::test]
async fn every_filter_of_a_list_of_runs_has_an_index_at_1000000_rows() {
    let (store, url) = filled_store().await;
    drop(store.take_composed());
    let mut wrong = Vec::new();
    for (what, filter) in run_filters() {
        let _ = store.list_runs(filter, Page::default()).await;
        wrong.extend(wrong_composed(&store, url, &what).await);
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn every_count_of_runs_is_bounded_at_1000000_rows() {
    let (store, url) = filled_store().await;
    drop(store.take_composed());
    let mut wrong = Vec::new();
    for (what, filter) in run_filters() {
        let _ = store.count_runs(filter, CountLimit::Capped).await;
        wrong.extend(wrong_composed(&store, url, &format!("count of {what}")).await);
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The queue holds open work only, and an index in the order of its list would be written with
/// every task: what no index answers is looked through within the time limit of operators' reads.
#[tokio::test]
async fn tasks_of_a_run_and_pending_tasks_are_listed_by_an_index_at_1000000_rows() {
    let (store, url) = filled_store().await;
    drop(store.take_composed());
    let pending = |activity_type: &str| TaskFilter {
        activity_type: Some(activity_type.to_owned()),
        status: Some(TaskStatus::Pending),
        ..TaskFilter::default()
    };
    let of_run = TaskFilter {
        run_id: Some(known()),
        ..TaskFilter::default()
    };
    let behind = TaskFilter {
        after: Some(TaskRank {
            priority: 2,
            visible_at: now(),
            id: known(),
            run_id: known(),
        }),
        ..pending("activity7")
    };
    let of_any_type = TaskFilter {
        activity_type: None,
        ..pending("x")
    };
    let behind_any = TaskFilter {
        activity_type: None,
        ..behind.clone()
    };
    let filters = [
        ("pending tasks", of_any_type),
        ("pending tasks behind another", behind_any),
        ("tasks of a run", of_run),
        ("pending tasks of a type", pending("activity7")),
        ("pending tasks of a rare type", pending("x")),
        ("pending tasks of a type behind another", behind),
    ];
    let mut wrong = Vec::new();
    for (what, filter) in filters {
        let _ = store.list_tasks(filter, Page::default()).await;
        wrong.extend(wrong_composed(&store, url, what).await);
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Every filter of dead letters, each alone, and none.
fn letter_filters() -> Vec<(String, DlqFilter)> {
    let mut filters = vec![("letters".to_owned(), DlqFilter::default())];
    let mut add = |name: &str, change: &dyn Fn(&mut DlqFilter)| {
        let mut filter = DlqFilter::default();
        change(&mut filter);
        filters.push((format!("letters by {name}"), filter));
    };
    add("id", &|f| f.id = Some(known()));
    add("run_id", &|f| f.run_id = Some(known()));
    add("activity_type", &|f| {
        f.activity_type = Some("activity7".into());
    });
    add("rare activity_type", &|f| {
        f.activity_type = Some("x".into());
    });
    for state in DeadLetterState::ALL {
        add(&format!("state {}", state.as_str()), &|f| {
            f.state = Some(state);
        });
    }
    add("dead_before", &|f| f.dead_before = Some(now()));
    add("after", &|f| {
        f.after = Some(LetterRank {
            dead_at: now(),
            id: known(),
            run_id: known(),
        });
    });
    filters
}

#[tokio::test]
async fn every_filter_of_a_list_of_dead_letters_has_an_index_at_1000000_rows() {
    let (store, url) = filled_store().await;
    drop(store.take_composed());
    let mut wrong = Vec::new();
    for (what, filter) in letter_filters() {
        let _ = store.list_dlq(filter, Page::default()).await;
        wrong.extend(wrong_composed(&store, url, &what).await);
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn every_filter_of_a_purge_of_dead_letters_has_an_index_at_1000000_rows() {
    let (store, url) = filled_store().await;
    drop(store.take_composed());
    let mut wrong = Vec::new();
    for (what, filter) in letter_filters() {
        // None at most: the filled table is shared by all tests.
        write_registry(&store, RegistryWrite::PurgeLetters(filter, 0)).await;
        wrong.extend(wrong_composed(&store, url, &format!("purge of {what}")).await);
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn every_filter_of_a_list_of_audit_rows_has_an_index_at_1000000_rows() {
    let (store, url) = filled_store().await;
    drop(store.take_composed());
    let mut filters = vec![("audit".to_owned(), AuditFilter::default())];
    let mut add = |name: &str, change: &dyn Fn(&mut AuditFilter)| {
        let mut filter = AuditFilter::default();
        change(&mut filter);
        filters.push((format!("audit by {name}"), filter));
    };
    add("actor", &|f| f.actor = Some("actor7".into()));
    add("rare actor", &|f| f.actor = Some("x".into()));
    add("action", &|f| f.action = Some("action7".into()));
    add("rare action", &|f| f.action = Some("x".into()));
    for kind in AuditKind::ALL {
        add(&format!("kind {}", kind.as_str()), &|f| f.kind = Some(kind));
    }
    add("target_id", &|f| f.target_id = Some("t7".into()));
    add("request_id", &|f| f.request_id = Some(known()));
    add("from", &|f| f.from = Some(now()));
    add("until", &|f| f.until = Some(now()));
    add("before", &|f| f.before = Some(known()));
    let mut wrong = Vec::new();
    for (what, filter) in filters {
        let _ = store.list_audit(filter, Page::default()).await;
        wrong.extend(wrong_composed(&store, url, &what).await);
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn no_hot_statement_reads_a_whole_shard_whatever_the_planner_knew_when_it_was_planned() {
    let (store, url) = open(1).await;
    let mut wrong = Vec::new();
    let mut look = async |when: &str| {
        let mut found = wrong_plans(&store, &url, &PLAN_SETTINGS).await;
        // The registry's pool alone, which has none of these settings, sends it, and its index is
        // not chosen before the table was ever analysed.
        found.retain(|why| !why.starts_with("OLD_LOGS:"));
        wrong.extend(found.into_iter().map(|why| format!("{when}: {why}")));
    };
    look("new").await;
    let client = connect(&url).await;
    client.batch_execute("ANALYZE").await.unwrap();
    look("analysed when empty").await;
    insert_pending(&client, 10).await;
    client.batch_execute("ANALYZE").await.unwrap();
    look("analysed with a few tasks").await;
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Prepares the claim of tasks on a connection.
async fn prepare_claim(client: &Client, store: &Postgres) -> SentStatement {
    let mut statements = store.statements().into_iter();
    let claim = statements
        .find(|statement| statement.name == "CLAIM_TASKS")
        .unwrap();
    let prepare = preparation(claim.name, &claim);
    client.batch_execute(&prepare).await.unwrap();
    claim
}

/// A claim of two types and fifty tasks.
const CLAIM: &str = "CLAIM_TASKS(0, ARRAY['a', 'b', 'c'], 50, 'w', \
                     '00000000-0000-0000-0000-000000000001', 15000000, NULL, 1, 33554432)";

/// Looks at the claim's plans: custom and generic.
async fn check_claim(url: &str, store: &Postgres, when: &str) {
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let client = connect_with(url, &PLAN_SETTINGS).await;
        let set = format!("SET plan_cache_mode = {mode}");
        client.batch_execute(&set).await.unwrap();
        let claim = prepare_claim(&client, store).await;
        let plan = plan(&client, "COSTS", CLAIM).await;
        let why = complaints(&claim.sql, &plan);
        assert!(why.is_empty(), "{when}, {mode}: {why:?}");
        assert_eq!(
            sorts_behind_limits(&plan),
            [true],
            "{when}, {mode}: only the candidates are sorted: {plan:#}"
        );
        let by_index = kinds_and_indexes(&plan)
            .iter()
            .any(|(_, index)| index == "durable_task_queue_pending");
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
    let client = connect_with(url, &PLAN_SETTINGS).await;
    prepare_claim(&client, store).await;
    let plan = plan(&client, "ANALYZE, BUFFERS", CLAIM).await;
    let pages = |field: &str| plan[0]["Plan"][field].as_u64().unwrap();
    let touched = pages("Shared Hit Blocks") + pages("Shared Read Blocks");
    assert!(
        touched < 5_000,
        "the claim of 50 tasks touched {touched} pages"
    );
}
