//! Keys come and go; a start stays the same start, and a run without its key waits.

use std::sync::Arc;

use durable_testkit::World;
use durable_testkit::process::until;
use everruns_durable::codec::{AesGcmCodec, CodecError, CodecStore};
use everruns_durable::persistence::model::{
    DlqFilter, Page, RunFilter, StartOutcome, StartRejection, StartRun, TaskStatus, WorkflowStatus,
};
use everruns_durable::persistence::{MemoryStore, StoreError, WorkflowEventStore};
use everruns_durable::{Client, Engine};

use crate::secretive::{Secretive, hosting};
use crate::{canary, payload};

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

fn old_key() -> AesGcmCodec {
    AesGcmCodec::new("old", &OLD).expect("a good id")
}

fn new_key() -> AesGcmCodec {
    AesGcmCodec::new("new", &NEW).expect("a good id")
}

fn both_keys() -> AesGcmCodec {
    new_key().with_old_key("old", &OLD).expect("a good id")
}

fn behind(store: &Arc<MemoryStore>, codec: AesGcmCodec) -> Arc<dyn WorkflowEventStore> {
    let plain = Arc::clone(store) as Arc<dyn WorkflowEventStore>;
    Arc::new(CodecStore::new(plain, Arc::new(codec)))
}

#[tokio::test]
async fn a_repeated_start_is_one_start_under_every_key_and_before_there_was_one() {
    let memory = Arc::new(MemoryStore::new());
    let plain = World::new(Arc::clone(&memory) as Arc<dyn WorkflowEventStore>);
    let stores = [old_key(), both_keys()].map(|codec| behind(&memory, codec));
    let [old, rotated] = stores.map(World::new);
    for (key, first) in [("before", &plain), ("then", &old), ("now", &rotated)] {
        let start = |input: &str| StartRun {
            idempotency_key: Some(key.to_owned()),
            ..StartRun::new(uuid::Uuid::now_v7(), "w", payload(input))
        };
        let run_id = first.start_one(start("same")).await;
        let again = rotated.try_start(start("same")).await;
        assert_eq!(again, StartOutcome::Existing { run_id }, "{key}");
        let other = rotated.try_start(start("other")).await;
        let conflict = StartRejection::KeyConflict { run_id };
        assert_eq!(other, StartOutcome::Rejected(conflict), "{key}");
    }
}

#[tokio::test]
async fn a_payload_without_its_key_fails_its_read_and_no_other() {
    let memory = Arc::new(MemoryStore::new());
    let start = |world: &World| {
        let mut start = world.new_start();
        start.run_id = uuid::Uuid::now_v7();
        start.input = payload("input");
        start
    };
    let old = World::new(behind(&memory, old_key()));
    let new = World::new(behind(&memory, new_key()));
    let lost = old.start_one(start(&old)).await;
    let read = new.start_one(start(&new)).await;
    let error = new.store.get_run(lost).await.unwrap_err();
    let unknown = matches!(
        &error,
        StoreError::Codec { source: CodecError::UnknownKey(id), .. } if id == "old"
    );
    assert!(unknown && !error.is_retryable(), "{error}");
    let listed = new.store.list_runs(RunFilter::default(), Page::default());
    let listed = listed.await.expect("a list decodes nothing").runs;
    let ids: Vec<_> = listed.into_iter().map(|run| run.id).collect();
    assert!(ids.contains(&lost) && ids.contains(&read), "{ids:?}");
    let back = World::new(behind(&memory, both_keys())).run(lost).await;
    assert_eq!(back.input, payload("input"), "nothing is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_its_key_is_blocked_until_there_is_one() {
    let memory = Arc::new(MemoryStore::new());
    let on = || Engine::on(Arc::clone(&memory) as Arc<dyn WorkflowEventStore>);
    let run_id = {
        let client = Client::on(behind(&memory, old_key()));
        let run = client.start::<Secretive>(canary("child")).await;
        run.expect("it starts").id()
    };
    for engine in [on(), on().codec(new_key())] {
        let engine = hosting(engine).start().await.expect("it starts");
        let reason = until("the block", async || {
            let run = memory.get_run(run_id).await.expect("get_run");
            let blocked = run.and_then(|run| run.blocked);
            let here = blocked.filter(|b| b.build.contains("codec") == engine_has_codec(&engine));
            here.map(|blocked| blocked.reason)
        })
        .await;
        assert!(reason.contains("encoded"), "{reason}");
        engine.shutdown().await.expect("it stops");
    }
    let engine = hosting(on().codec(both_keys())).start().await;
    let engine = engine.expect("it starts");
    let result = engine.client().run::<Secretive>(run_id).result().await;
    assert_eq!(result.expect("it completes"), canary("workflow result"));
    engine.shutdown().await.expect("it stops");
}

fn engine_has_codec(engine: &Engine) -> bool {
    engine.store().encodes_payloads()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_without_its_key_is_parked_and_costs_no_attempt() {
    let memory = Arc::new(MemoryStore::new());
    let world = World::new(behind(&memory, old_key()));
    let mut task = world.parallel_task("a");
    task.activity_type = "flaky".to_owned();
    task.input = payload("flaky");
    let run_id = world.start_with_tasks(vec![task]).await;
    let engine = Engine::on(Arc::clone(&memory) as Arc<dyn WorkflowEventStore>);
    let engine = hosting(engine.codec(new_key())).start().await;
    let engine = engine.expect("it starts");
    let parked = until("the task is parked", async || {
        let task = world
            .queued(run_id, "a")
            .await
            .expect("it stays in the queue");
        (task.status == TaskStatus::Parked).then_some(task)
    })
    .await;
    assert_eq!((parked.attempt, parked.deliveries), (0, 0));
    assert_eq!(parked.input, payload("flaky"));
    let letters = world.store.list_dlq(DlqFilter::default(), Page::default());
    assert_eq!(letters.await.expect("list_dlq"), []);
    assert_ne!(world.run(run_id).await.status, WorkflowStatus::Failed);
    engine.shutdown().await.expect("it stops");
}
