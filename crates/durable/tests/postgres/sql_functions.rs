//! `durable_start`, `durable_signal` and `durable_enqueue`: from any driver, the same rows as the library's.

use std::sync::Arc;
use std::time::Duration;

use durable_core::Payload;
use everruns_durable::persistence::model::{
    NewSignal, ReusePolicy, SendSignal, StartRun, TerminateRun,
};
use everruns_durable::persistence::postgres::{Postgres, PostgresOptions};
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::{Shards, WorkflowEventStore};
use everruns_durable::prelude::{
    ActivityResult, Engine, WorkflowContext, WorkflowResult, activity, workflow,
};
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use crate::server::{connect, fresh_database};

async fn store(shards: u16) -> (Arc<dyn WorkflowEventStore>, Client) {
    let url = fresh_database().await;
    let options = PostgresOptions {
        shards: Shards::new(shards),
        ..PostgresOptions::default()
    };
    let store = SqlStore::new(Postgres::open(&url, options).await.unwrap());
    (Arc::new(store), connect(&url).await)
}

/// What the first column of a plain query's first row says, as `psql` would show it.
async fn ask(client: &Client, sql: &str) -> Result<String, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(row.unwrap_or_default())
}

async fn ask_id(client: &Client, sql: &str) -> Uuid {
    ask(client, sql).await.unwrap().parse().unwrap()
}

/// SQLSTATE and message of a query that is refused.
async fn refusal(client: &Client, sql: &str) -> (String, String) {
    let error = ask(client, sql).await.unwrap_err();
    let error = error.as_db_error().expect("the server's own");
    (error.code().code().to_owned(), error.message().to_owned())
}

/// Rows of the tables that are written, shard and all; event bytes are compared as what they mean, by the dump.
async fn rows(client: &Client) -> Vec<String> {
    let mut rows = Vec::new();
    for (table, columns) in [
        ("durable_workflow_instances", "to_jsonb(t)"),
        ("durable_keys", "to_jsonb(t)"),
        ("durable_signals", "to_jsonb(t)"),
        ("durable_inbox", "to_jsonb(t) - 'event_data'"),
    ] {
        let sql = format!("SELECT ({columns})::text FROM durable.{table} AS t ORDER BY 1");
        let found = client.query(&sql, &[]).await.unwrap();
        rows.extend(
            found
                .iter()
                .map(|row| format!("{table} {}", row.get::<_, String>(0))),
        );
    }
    rows
}

#[tokio::test]
async fn sql_places_rows_where_rust_looks_for_them() {
    let (_store, client) = store(1).await;
    let keys: Vec<String> = (0..40)
        .map(|n| format!("{}é{n}", "k".repeat(n * 7 % 40)))
        .chain([String::new()])
        .collect();
    for count in [1, 2, 3, 7, 64, 1000, 1024_u16] {
        let shards = Shards::new(count);
        let sql =
            "SELECT durable.durable_shard(convert_to(k, 'UTF8'), $2) FROM unnest($1::TEXT[]) AS k";
        let placed = client
            .query(sql, &[&keys, &i32::from(count)])
            .await
            .unwrap();
        for (key, row) in keys.iter().zip(placed) {
            assert_eq!(row.get::<_, i32>(0), shards.of_key(key), "{key} of {count}");
        }
    }
}

#[tokio::test]
async fn sql_and_rust_write_the_same_rows() {
    let ((by_sql, client), (by_rust, other)) = (store(64).await, store(64).await);
    let input = r#"{"name": "Zoë", "n": 9007199254740993, "nul": "\u0000"}"#;
    let plain = ask_id(&client, "SELECT durable.durable_start('hello')").await;
    let full = format!(
        "SELECT durable.durable_start('hello', '{input}', version => '1.2.0', workflow_id => 'order-1',
             idempotency_key => 'key-é', memo => '[1]', execution_timeout => '1 day', run_timeout => '90 min')"
    );
    let full = ask_id(&client, &full).await;
    let signal_id = Uuid::from_u128(5);
    let signal = format!(
        r#"SELECT durable.durable_signal('{full}', 'new"s', '{{"a":  1}}', '{signal_id}')"#
    );
    assert_eq!(ask(&client, &signal).await.unwrap(), "t");
    let written = by_sql.dump().await.unwrap();
    let run = |run_id| {
        let run = written.runs.iter().find(|run| run.run.id == run_id);
        run.expect("it was started")
    };

    let start = StartRun::new(plain, "hello", Payload::null());
    let at = run(plain).run.created_at;
    by_rust.start_runs(vec![start], Some(at)).await.unwrap();
    let input = Payload::from_json_text(input).unwrap();
    let mut start = StartRun::new(full, "hello", input);
    start.version = "1.2.0".into();
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-é".into());
    start.memo = Payload::from_json_text("[1]").unwrap();
    start.execution_timeout = Some(Duration::from_secs(86_400));
    start.run_timeout = Some(Duration::from_secs(5_400));
    let at = run(full).run.created_at;
    by_rust.start_runs(vec![start], Some(at)).await.unwrap();
    let signal = NewSignal {
        signal_id,
        signal_type: "new\"s".into(),
        payload: Payload::from_json_text(r#"{"a":  1}"#).unwrap(),
    };
    let send = SendSignal {
        run_id: full,
        signal,
    };
    let at = run(full).signals[0].sent_at;
    by_rust.send_signals(vec![send], Some(at)).await.unwrap();

    assert_eq!(written, by_rust.dump().await.unwrap());
    assert_eq!(rows(&client).await, rows(&other).await);
}

#[tokio::test]
async fn ids_made_by_sql_are_of_version_7_and_of_now() {
    let (store, client) = store(1).await;
    let before = store.clock(None).await.unwrap().as_millisecond();
    let id = ask_id(&client, "SELECT durable.durable_uuid_v7()").await;
    let after = store.clock(None).await.unwrap().as_millisecond();
    assert_eq!(id.get_version_num(), 7);
    assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
    let millis = i64::try_from(id.as_u128() >> 80).unwrap();
    assert!((before..=after).contains(&millis));
    assert_ne!(
        id,
        ask_id(&client, "SELECT durable.durable_uuid_v7()").await
    );
}

#[workflow]
async fn told(ctx: WorkflowContext, greeting: String) -> WorkflowResult<String> {
    let name: String = ctx.signal("name").await?;
    Ok(format!("{greeting}, {name}!"))
}

#[activity]
async fn double(n: u32) -> ActivityResult<u32> {
    Ok(n * 2)
}

#[tokio::test]
async fn a_run_that_sql_starts_and_signals_is_carried_out_by_an_engine() {
    let (store, client) = store(7).await;
    let engine = Engine::on(store)
        .configure(|settings| settings.chores.fallback_poll = Duration::from_secs(3600))
        .workflow::<told>()
        .activity(double)
        .start()
        .await
        .unwrap();
    let sql = "BEGIN; SELECT durable.durable_start('told', '\"Hello\"')";
    let run_id = ask_id(&client, sql).await;
    let signal = format!("SELECT durable.durable_signal('{run_id}', 'name', '\"Ann\"'); COMMIT");
    ask(&client, &signal).await.unwrap();
    let result = engine.client().run::<told>(run_id).result().await;
    assert_eq!(result.unwrap(), "Hello, Ann!");

    let sql = "SELECT durable.durable_enqueue('double', '21', '{\"priority\": 3}')";
    let run_id = ask_id(&client, sql).await;
    let run = engine
        .client()
        .run::<everruns_durable::workflow::ActivityRun<double>>(run_id);
    assert_eq!(run.result().await.unwrap(), 42);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_sql_rolls_back_never_was() {
    let (store, client) = store(4).await;
    let empty = store.dump().await.unwrap();
    let sql = "BEGIN;
        SELECT durable.durable_start('told', workflow_id => 'a', idempotency_key => 'b');
        SELECT durable.durable_enqueue('double', '1');
        ROLLBACK";
    ask(&client, sql).await.unwrap();
    assert_eq!(store.dump().await.unwrap(), empty);
}

#[tokio::test]
async fn a_key_means_the_same_run_to_sql_and_to_rust() {
    let (store, client) = store(4).await;
    let sql = "SELECT durable.durable_enqueue('double', '21', idempotency_key => 'key-1', workflow_id => 'w-1')";
    let run_id = ask_id(&client, sql).await;
    assert_eq!(ask_id(&client, sql).await, run_id, "to SQL again");
    let by_rust = everruns_durable::Client::on(Arc::clone(&store))
        .enqueue::<double>(21)
        .idempotency_key("key-1");
    assert_eq!(by_rust.await.unwrap().id(), run_id, "to Rust");
    let other = sql.replace("21", "22");
    let (state, message) = refusal(&client, &other).await;
    assert_eq!(state, "23505", "{message}");
    assert!(message.contains(&run_id.to_string()), "{message}");
    let key = "SELECT durable.durable_enqueue('double', '21', idempotency_key => 'key-1', workflow_id => 'w-2')";
    assert_eq!(ask_id(&client, key).await, run_id);
    assert_eq!(
        store.dump().await.unwrap().keys.len(),
        2,
        "w-2 is not taken"
    );
}

#[tokio::test]
async fn reuse_policies_hold_from_sql() {
    let (store, client) = store(4).await;
    let start = |policy: &str| {
        format!(
            "SELECT durable.durable_start('told', workflow_id => 'a', reuse_policy => '{policy}')"
        )
    };
    let first = ask_id(&client, &start("reject_duplicate")).await;
    for policy in ["reject_duplicate", "allow_duplicate_failed_only"] {
        let (state, message) = refusal(&client, &start(policy)).await;
        assert_eq!(state, "23505", "{message}");
        assert!(message.contains(&first.to_string()), "{message}");
    }
    let reason = "to fail it".to_owned();
    let terminate = TerminateRun {
        run_id: first,
        reason,
    };
    store.terminate_runs(vec![terminate], None).await.unwrap();
    let second = ask_id(&client, &start("allow_duplicate_failed_only")).await;
    let third = ask_id(&client, &start("allow_duplicate")).await;
    assert!(first != second && second != third);
    let mut start = StartRun::new(Uuid::from_u128(9), "told", Payload::null());
    start.business_id = Some("a".into());
    start.reuse_policy = ReusePolicy::RejectDuplicate;
    let refused = store.start_runs(vec![start], None).await.unwrap();
    assert!(format!("{refused:?}").contains(&third.to_string()));
}

#[tokio::test]
async fn what_sql_cannot_do_is_refused_with_a_code_and_a_reason() {
    let (store, client) = store(1).await;
    let ended = ask_id(&client, "SELECT durable.durable_start('told')").await;
    let reason = "to end it".to_owned();
    let terminate = TerminateRun {
        run_id: ended,
        reason,
    };
    store.terminate_runs(vec![terminate], None).await.unwrap();
    let signal_ended = format!("durable_signal('{ended}', 'n')");
    let long = format!("durable_start('{}')", "a".repeat(201));
    for (call, code, words) in [
        ("durable_start('')", "22023", "workflow_type is empty"),
        (long.as_str(), "22023", "longer than 200"),
        (
            "durable_start('a', workflow_id => '')",
            "22023",
            "workflow_id",
        ),
        ("durable_start('a', version => NULL)", "22023", "version"),
        (
            "durable_start('a', run_timeout => '-1 s')",
            "22023",
            "run_timeout",
        ),
        (
            "durable_start('a', reuse_policy => 'never')",
            "22023",
            "never",
        ),
        (
            "durable_start('a', reuse_policy => 'terminate_if_running')",
            "0A000",
            "not supported from SQL",
        ),
        ("durable_enqueue('a', options => '3')", "22023", "object"),
        ("durable_enqueue(NULL)", "22023", "activity_type"),
        (
            "durable_signal('00000000-0000-0000-0000-000000000007', 'n')",
            "P0002",
            "there is no run",
        ),
        (signal_ended.as_str(), "55000", "has ended: failed"),
    ] {
        let (state, message) = refusal(&client, &format!("SELECT durable.{call}")).await;
        assert_eq!(state, code, "{call}: {message}");
        assert!(message.contains(words), "{call}: {message}");
    }
    assert_eq!(store.dump().await.unwrap().runs.len(), 1);
}

#[tokio::test]
async fn a_signal_with_an_id_of_its_own_is_sent_once_from_sql() {
    let (store, client) = store(1).await;
    let run_id = ask_id(&client, "SELECT durable.durable_start('told')").await;
    let sql = format!(
        "SELECT durable.durable_signal('{run_id}', 'n', '1', '00000000-0000-0000-0000-000000000001')"
    );
    assert_eq!(ask(&client, &sql).await.unwrap(), "t");
    assert_eq!(ask(&client, &sql).await.unwrap(), "f");
    assert_eq!(store.dump().await.unwrap().runs[0].facts.len(), 1);
}

#[tokio::test]
async fn functions_work_in_a_schema_of_any_name() {
    let url = fresh_database().await;
    let schema = format!("My_{}", "a".repeat(60));
    let options = PostgresOptions {
        schema: schema.clone(),
        ..PostgresOptions::default()
    };
    let store = SqlStore::new(Postgres::open(&url, options).await.unwrap());
    let engine = Engine::on(Arc::new(store))
        .activity(double)
        .start()
        .await
        .unwrap();
    let client = connect(&url).await;
    let run_id = ask_id(
        &client,
        &format!("SELECT \"{schema}\".durable_enqueue('double', '4')"),
    )
    .await;
    let run = engine
        .client()
        .run::<everruns_durable::workflow::ActivityRun<double>>(run_id);
    assert_eq!(run.result().await.unwrap(), 8);
    engine.shutdown().await.unwrap();
}
