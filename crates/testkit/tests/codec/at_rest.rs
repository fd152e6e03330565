//! Nothing readable is in the database.

use std::collections::BTreeSet;
use std::sync::Arc;

use durable_testkit::World;
use durable_testkit::postgres::TestDatabase;
use durable_testkit::process::until;
use everruns_durable::codec::{AesGcmCodec, PayloadCodec as _, ZstdCodec};
use everruns_durable::persistence::model::{
    AuditNote, DlqFilter, NewUpdate, Page, SendUpdate, StepLogFilter, UpdateState,
};
use everruns_durable::persistence::{OpenOptions, Shards};
use everruns_durable::{Client, Engine};
use uuid::Uuid;

use crate::secretive::{Failing, Secretive, hosting};
use crate::{CANARY, canary, confiding, payload, raw, search};

/// Columns with payloads or failures in them: where the canary must be without a codec, or the search proves nothing.
const PAYLOAD_COLUMNS: [&str; 25] = [
    "durable_dead_letter_queue.error_history",
    "durable_dead_letter_queue.input",
    "durable_dead_letter_queue.last_error",
    "durable_dedup.result",
    "durable_inbox.event_data",
    "durable_inbox.payload",
    "durable_messages.memo",
    "durable_messages.payload",
    "durable_outbox.payload",
    "durable_schedules.input",
    "durable_signals.payload",
    "durable_step_logs.meta",
    "durable_task_queue.attempts",
    "durable_task_queue.heartbeat_details",
    "durable_task_queue.input",
    "durable_updates.error",
    "durable_updates.input",
    "durable_updates.result",
    "durable_workers.metadata",
    "durable_workflow_events.event_data",
    "durable_workflow_events.payload",
    "durable_workflow_instances.error",
    "durable_workflow_instances.input",
    "durable_workflow_instances.memo",
    "durable_workflow_instances.result",
];

fn encrypting() -> OpenOptions {
    let encryption = AesGcmCodec::new("k1", &[7; 32]).expect("a good id");
    let compression = ZstdCodec::default().threshold_bytes(0);
    OpenOptions::default().with_codec(compression.then(encryption))
}

/// Runs everything, reads it back, and leaves it in the database.
async fn exercise(url: &str, options: OpenOptions) {
    let engine = hosting(Engine::open(url).open_options(options.clone()));
    let engine = confiding::hosting(engine);
    run_workflows(engine.start().await.expect("it starts")).await;
    let client = Client::open_with(url, options).await;
    // Somebody is noted for all of it: audit rows must not tell what payloads hold.
    let note = AuditNote::new(Uuid::now_v7(), "alice", "operator", "exercise");
    let client = client.expect("the store opens").acting(note);
    let world = World::new(Arc::clone(client.expect("it keeps an audit").store()));
    let left = raw::write(&world).await;
    raw::read(&world, left).await;
}

async fn run_workflows(engine: Engine) {
    let client = engine.client();
    let start = || {
        let start = client.start::<Secretive>(canary("workflow input"));
        start.memo(&canary("memo")).idempotency_key("once")
    };
    let run = start().await.expect("it starts");
    assert_eq!(start().await.expect("the same start").id(), run.id());
    send_updates(&client, run.id()).await;
    // Rings for the updates as well.
    let signalled = client.signal(run.id(), "go", &canary("signal")).await;
    signalled.expect("it is taken");
    let result = run.result().await.expect("it completes");
    assert_eq!(result, canary("workflow result"));
    let failed = engine.run::<Failing>(canary("input")).await.unwrap_err();
    let failure = failed.failure().expect("it failed");
    assert_eq!(failure.details, payload("details"));
    read_back(&client, run.id()).await;
    confiding::run(&client, &Client::on(Arc::clone(client.store()))).await;
    engine.shutdown().await.expect("it stops");
}

async fn send_updates(client: &Client, run_id: uuid::Uuid) {
    for name in ["answered", "refused"] {
        let update = NewUpdate {
            update_id: name.to_owned(),
            name: name.to_owned(),
            input: payload("update"),
        };
        let update = SendUpdate { run_id, update };
        let sent = client.store().send_updates(vec![update], None).await;
        sent.expect("it is taken");
    }
}

async fn read_back(client: &Client, run_id: uuid::Uuid) {
    let store = client.store();
    let update = |name| store.get_update(run_id, name);
    let answered = update("answered").await.expect("get_update").expect("sent");
    assert_eq!(
        answered.state,
        UpdateState::Completed(payload("update result"))
    );
    let refused = update("refused").await.expect("get_update").expect("sent");
    let UpdateState::Failed(failure) = refused.state else {
        panic!("{:?}", refused.state);
    };
    assert_eq!(failure.details, payload("details"));
    let run = client.get(run_id).await.expect("get");
    assert_eq!(run.memo, payload("memo"));
    let letters = store.list_dlq(DlqFilter::default(), Page::default()).await;
    let letters = letters.expect("list_dlq");
    let letter = store.get_dead_letter(letters[0].id).await;
    let letter = letter.expect("get_dead_letter").expect("it is listed");
    assert_eq!(letter.last_error.details, payload("details"));
    assert_eq!(letter.input, payload("doomed"));
    until("log lines", async || {
        let logs = store
            .list_step_logs(StepLogFilter::of_run(run_id), Page::default())
            .await;
        let logs = logs.expect("list_step_logs").lines;
        logs.first().map(|log| assert_eq!(log.meta, payload("log")))
    })
    .await;
}

fn assert_everywhere(found: &BTreeSet<String>) {
    for column in PAYLOAD_COLUMNS {
        assert!(found.contains(column), "{column} is not among {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_holds_no_plaintext_with_a_codec_and_does_without() {
    for (options, encrypted) in [(encrypting(), true), (OpenOptions::default(), false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("test.db");
        exercise(&format!("sqlite:{}", file.display()), options).await;
        let files = search::in_files(folder.path(), CANARY);
        let found = search::in_sqlite(&file, CANARY);
        if encrypted {
            assert_eq!(found, BTreeSet::new());
            assert!(files.is_empty(), "{files:?}");
        } else {
            assert_everywhere(&found);
            assert!(!files.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_holds_no_plaintext_with_a_codec_and_does_without() {
    for (options, encrypted) in [(encrypting(), true), (OpenOptions::default(), false)] {
        let database = TestDatabase::create(Shards::new(1))
            .await
            .expect("a server");
        let url = database.url().expect("a server");
        exercise(&url, options).await;
        let found = search::in_postgres(&url, CANARY).await;
        if encrypted {
            assert_eq!(found, BTreeSet::new());
        } else {
            assert_everywhere(&found);
        }
        database.remove().await;
    }
}
