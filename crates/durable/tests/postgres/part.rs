//! Starts, signals and single activities as a part of the caller's own transaction.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::model::{ReusePolicy, StartRun, WorkflowStatus};
use everruns_durable::persistence::postgres::{Postgres, PostgresOptions};
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::{Shards, WorkflowEventStore};
use everruns_durable::postgres::{self, StartIn};
use everruns_durable::prelude::*;
use tokio_postgres::{IsolationLevel, Transaction};

use crate::server::{connect, fresh_database};

#[activity]
async fn greet(name: String) -> ActivityResult<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow(version = "1.2.0", run_timeout = "1h")]
async fn hello(ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
    ctx.activity::<greet>(name).await
}

#[workflow]
async fn told(ctx: WorkflowContext, _input: ()) -> WorkflowResult<String> {
    ctx.signal("news").await
}

/// A store on a new database.
async fn store(shards: u16) -> (Arc<dyn WorkflowEventStore>, String) {
    let url = fresh_database().await;
    let options = PostgresOptions {
        shards: Shards::new(shards),
        ..PostgresOptions::default()
    };
    let store = SqlStore::new(Postgres::open(&url, options).await.unwrap());
    (Arc::new(store), url)
}

async fn engine(store: &Arc<dyn WorkflowEventStore>) -> Engine {
    Engine::on(Arc::clone(store))
        // Nothing is found by looking: the notification at the commit has to be heard.
        .configure(|settings| settings.chores.fallback_poll = Duration::from_secs(3600))
        .workflow::<hello>()
        .workflow::<told>()
        .activity(greet)
        .start()
        .await
        .unwrap()
}

fn under_one_key<'t>(transaction: &'t Transaction<'_>) -> StartIn<'t, hello> {
    postgres::start_in(transaction, "Ann".to_owned()).idempotency_key("key-1")
}

#[tokio::test]
async fn a_start_that_is_rolled_back_leaves_nothing() {
    let (store, url) = store(4).await;
    let empty = store.dump().await.unwrap();
    let mut client = connect(&url).await;
    let transaction = client.transaction().await.unwrap();
    postgres::start_in::<hello>(&transaction, "Ann".into())
        .workflow_id("order-1")
        .idempotency_key("key-1")
        .attribute("city", "Bern")
        .memo(&"why")
        .signal("news", &1)
        .await
        .unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(store.dump().await.unwrap(), empty);
}

#[tokio::test]
async fn a_part_of_a_transaction_writes_what_the_store_writes() {
    let ((here, url), (there, _)) = (store(4).await, store(4).await);
    let mut client = connect(&url).await;
    let transaction = client.transaction().await.unwrap();
    let run_id = postgres::start_in::<hello>(&transaction, "Ann".into())
        .workflow_id("order-1")
        .idempotency_key("key-1")
        .attribute("city", "Bern")
        .memo(&"why")
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let written = here.dump().await.unwrap();
    let at: Timestamp = written.runs[0].run.created_at;

    let mut start = StartRun::new(run_id, "hello", Payload::from_value(&"Ann").unwrap());
    start.version = "1.2.0".into();
    start.run_timeout = Some(Duration::from_secs(3600));
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-1".into());
    start.attributes.insert("city".into(), "Bern".into());
    start.memo = Payload::from_value(&"why").unwrap();
    there.start_runs(vec![start], Some(at)).await.unwrap();
    assert_eq!(written, there.dump().await.unwrap());
}

#[tokio::test]
async fn a_committed_start_is_picked_up_at_once_and_completes() {
    let (store, url) = store(4).await;
    let engine = engine(&store).await;
    let mut client = connect(&url).await;
    // An engine that begins to listen has a look at everything once: that may find the first, and finds no other.
    for name in ["Ann", "Bob", "Cid"] {
        let transaction = client.transaction().await.unwrap();
        let run_id = postgres::start_in::<hello>(&transaction, name.into())
            .await
            .unwrap();
        let unseen = engine.client().get(run_id).await.unwrap_err();
        assert!(unseen.is_not_found(), "it exists with the commit");
        transaction.commit().await.unwrap();
        let run = engine.client().run::<hello>(run_id);
        let answer = tokio::time::timeout(Duration::from_secs(60), run.result()).await;
        assert_eq!(answer.expect("in time").unwrap(), format!("Hello, {name}!"));
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_used_twice_in_one_transaction_is_one_run() {
    let (store, url) = store(4).await;
    let mut client = connect(&url).await;
    let transaction = client.transaction().await.unwrap();
    let start = |name: &str| {
        postgres::start_in::<hello>(&transaction, name.to_owned()).idempotency_key("key-1")
    };
    let first = start("Ann").await.unwrap();
    assert_eq!(start("Ann").await.unwrap(), first);
    let refused = start("Bob").await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    assert_eq!(refused.run_id(), Some(first));
    transaction.commit().await.unwrap();
    assert_eq!(store.dump().await.unwrap().runs.len(), 1);
}

#[tokio::test]
async fn a_key_that_another_transaction_holds_is_waited_for() {
    let (store, url) = store(4).await;
    let (mut one, mut other) = (connect(&url).await, connect(&url).await);
    let (first, second) = (
        one.transaction().await.unwrap(),
        other.transaction().await.unwrap(),
    );
    let run_id = under_one_key(&first).await.unwrap();
    let waiting = under_one_key(&second).into_future();
    let commit = async { first.commit().await.unwrap() };
    let (found, ()) = tokio::join!(waiting, commit);
    assert_eq!(found.unwrap(), run_id);
    second.commit().await.unwrap();
    assert_eq!(store.dump().await.unwrap().runs.len(), 1);
}

#[tokio::test]
async fn a_refusal_or_an_error_leaves_the_callers_transaction_as_it_was() {
    let (store, url) = store(1).await;
    let mut client = connect(&url).await;
    client
        .batch_execute("CREATE TABLE own (n INT)")
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    let insert = "INSERT INTO own VALUES (1)";
    transaction.execute(insert, &[]).await.unwrap();
    let gone = uuid::Uuid::from_u128(7);
    let refused = postgres::signal_in(&transaction, gone, "news", &1).await;
    assert!(refused.unwrap_err().is_not_found());
    let elsewhere = postgres::start_in::<hello>(&transaction, "Ann".into())
        .schema("nowhere")
        .await;
    assert!(elsewhere.is_err(), "there is no such schema");
    let bad = postgres::start_named_in(&transaction, "no \0 name", Payload::null()).await;
    assert!(bad.unwrap_err().is_invalid());
    transaction.execute(insert, &[]).await.unwrap();
    transaction.commit().await.unwrap();
    let rows = client.query("SELECT * FROM own", &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert!(store.dump().await.unwrap().runs.is_empty());
}

#[tokio::test]
async fn a_signal_is_sent_with_the_commit_and_not_with_a_rollback() {
    let (store, url) = store(4).await;
    let engine = engine(&store).await;
    let run = engine.client().start::<told>(()).await.unwrap();
    let mut client = connect(&url).await;
    let lost = client.transaction().await.unwrap();
    postgres::signal_in(&lost, run.id(), "news", "taken back")
        .await
        .unwrap();
    lost.rollback().await.unwrap();
    let sent = client.transaction().await.unwrap();
    postgres::signal_in(&sent, run.id(), "news", "kept")
        .await
        .unwrap();
    sent.commit().await.unwrap();
    assert_eq!(run.result().await.unwrap(), "kept");
    let late = client.transaction().await.unwrap();
    let refused = postgres::signal_in(&late, run.id(), "news", "late").await;
    assert!(refused.unwrap_err().is_run_finished());
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_signal_with_an_id_of_its_own_is_sent_once() {
    let (store, url) = store(1).await;
    let mut client = connect(&url).await;
    let transaction = client.transaction().await.unwrap();
    let run_id = postgres::start_in::<told>(&transaction, ()).await.unwrap();
    for _ in 0..2 {
        postgres::signal_in(&transaction, run_id, "news", "once")
            .signal_id(uuid::Uuid::from_u128(1))
            .await
            .unwrap();
    }
    transaction.commit().await.unwrap();
    assert_eq!(store.dump().await.unwrap().runs[0].facts.len(), 1);
}

#[tokio::test]
async fn a_run_that_is_replaced_ends_only_if_the_transaction_commits() {
    let (store, url) = store(4).await;
    let mut client = connect(&url).await;
    let start = async |transaction: &Transaction<'_>| {
        postgres::start_in::<told>(transaction, ())
            .workflow_id("order-1")
            .reuse_policy(ReusePolicy::TerminateIfRunning)
            .await
            .unwrap()
    };
    let transaction = client.transaction().await.unwrap();
    let first = start(&transaction).await;
    transaction.commit().await.unwrap();
    let status = async || store.get_run(first).await.unwrap().unwrap().status;

    let transaction = client.transaction().await.unwrap();
    start(&transaction).await;
    transaction.rollback().await.unwrap();
    assert_eq!(status().await, WorkflowStatus::Pending);

    let transaction = client.transaction().await.unwrap();
    start(&transaction).await;
    transaction.commit().await.unwrap();
    assert_eq!(status().await, WorkflowStatus::Failed);
}

#[tokio::test]
async fn an_activity_is_enqueued_with_the_commit_and_its_result_is_the_runs() {
    let (store, url) = store(4).await;
    let engine = engine(&store).await;
    let mut client = connect(&url).await;
    let transaction = client.transaction().await.unwrap();
    let typed = postgres::enqueue_in::<greet>(&transaction, "Ann".into())
        .idempotency_key("mail-1")
        .await
        .unwrap();
    let named = Payload::from_value(&"Bob").unwrap();
    let named = postgres::enqueue_named_in(&transaction, "greet", named, None)
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let result = async |run_id| {
        let run = engine
            .client()
            .run::<everruns_durable::workflow::ActivityRun<greet>>(run_id);
        run.result().await.unwrap()
    };
    assert_eq!(result(typed).await, "Hello, Ann!");
    assert_eq!(result(named).await, "Hello, Bob!");
    let by_client = engine
        .client()
        .enqueue::<greet>("Cid".into())
        .await
        .unwrap();
    assert_eq!(by_client.result().await.unwrap(), "Hello, Cid!");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_start_inside_a_serializable_transaction_conflicts_with_an_error_of_its_own() {
    let (store, url) = store(1).await;
    let (mut one, mut other) = (connect(&url).await, connect(&url).await);
    let transaction = one
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .start()
        .await
        .unwrap();
    // The snapshot is taken before the other one commits.
    transaction.query("SELECT 1", &[]).await.unwrap();
    let first = other.transaction().await.unwrap();
    under_one_key(&first).await.unwrap();
    first.commit().await.unwrap();
    let refused = under_one_key(&transaction).await.unwrap_err();
    assert!(refused.is_conflict() && refused.is_retryable(), "{refused}");
    assert_eq!(store.dump().await.unwrap().runs.len(), 1);
}
