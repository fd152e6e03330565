//! Where an audit row cannot be written, what it would have told of does not happen either.

use std::sync::Arc;

use durable_core::{CircuitState, ExhaustedPolicy, Payload, RetryPolicy};
use durable_testkit::World;
use durable_testkit::postgres::TestDatabase;
use everruns_durable::persistence::model::{
    AuditNote, BreakerRecord, DeadLetterDecision, DlqFilter, OverlapPolicy, ScheduleRecord,
    SendSignal, SendUpdate, TerminateRun, WorkerInfo, WorkerStatus,
};
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions};
use everruns_durable::persistence::{Shards, WorkflowEventStore};
use tokio_postgres::NoTls;
use uuid::Uuid;

/// What an operator can do something to.
struct Things {
    run_id: Uuid,
    letter: (Uuid, Uuid),
}

fn schedule(w: &World, id: &str) -> ScheduleRecord {
    ScheduleRecord {
        id: id.into(),
        workflow_type: "order".into(),
        version: "v1".into(),
        input: Payload::ABSENT,
        cron: "0 * * * *".into(),
        time_zone: "UTC".into(),
        overlap: OverlapPolicy::Skip,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: None,
        last_fire_at: None,
        last_run: None,
        created_at: w.instant(),
        updated_at: w.instant(),
    }
}

fn worker(w: &World) -> WorkerInfo {
    WorkerInfo {
        id: "w".into(),
        worker_group: "default".into(),
        activity_types: Vec::new(),
        max_concurrency: 1,
        current_load: 0,
        status: WorkerStatus::Active,
        accepting_tasks: true,
        backpressure_reason: None,
        started_at: w.instant(),
        last_heartbeat_at: w.instant(),
        hostname: None,
        version: None,
        metadata: Payload::ABSENT,
        tasks_completed: 0,
        tasks_failed: 0,
        avg_task_duration_ms: 0.0,
    }
}

fn breaker(w: &World) -> BreakerRecord {
    BreakerRecord {
        key: "b".into(),
        state: CircuitState::Open,
        failure_count: 1,
        success_count: 0,
        opened_at: w.now(),
        data: Payload::ABSENT,
        version: 0,
        updated_at: w.instant(),
    }
}

async fn things(w: &World) -> Things {
    let mut task = w.task("a");
    task.options.retry_policy = RetryPolicy::never();
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let parked = w.start_with_tasks(vec![task]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    let mut task = w.task("a");
    task.options.retry_policy = RetryPolicy::never();
    w.start_with_tasks(vec![task]).await;
    let failed = w.claim_one().await;
    w.fail(&failed.lease).await;
    w.store.put_schedule(schedule(w, "s")).await.expect("put");
    let registered = w.store.register_worker(worker(w), w.now()).await;
    registered.expect("registered");
    let saved = w.store.save_breaker(breaker(w), w.now()).await;
    assert!(saved.expect("saved"));
    Things {
        run_id: w.start_with_tasks(vec![w.task("b")]).await,
        letter: (parked, claimed.lease.task_id),
    }
}

/// Every change that leaves a row: each must fail, and change nothing.
async fn fails_as_a_whole(w: &World, things: &Things) {
    let note = AuditNote::new(w.id(), "alice", "operator", "all");
    let view = w.store.audited(note.into()).expect("the note fits");
    let store = view.expect("the store keeps an audit");
    let (run_id, now) = (things.run_id, w.now());
    let signal = SendSignal {
        run_id,
        signal: w.new_signal("s"),
    };
    let update = SendUpdate {
        run_id,
        update: w.new_update("u"),
    };
    let end = TerminateRun {
        run_id,
        reason: "enough".into(),
    };
    let reset = World::resetting(w.turn(run_id).await, 1);
    let (parked, letter) = things.letter;
    let requeue = DeadLetterDecision::Requeue;
    let seen = w.store.get_schedule("s").await.expect("read");
    let before = w.everything().await;
    let refused = |what: &str, failed: bool| assert!(failed, "{what} went through");
    refused(
        "a start",
        store.start_runs(vec![w.new_start()], now).await.is_err(),
    );
    refused(
        "a signal",
        store.send_signals(vec![signal], now).await.is_err(),
    );
    refused(
        "an update",
        store.send_updates(vec![update], now).await.is_err(),
    );
    refused(
        "an end",
        store.terminate_runs(vec![end], now).await.is_err(),
    );
    refused(
        "a reset",
        store.commit_turns(vec![reset], now).await.is_err(),
    );
    let decided = store.decide_dead_letter(parked, letter, requeue, now).await;
    refused("a decision", decided.is_err());
    refused(
        "a purge",
        store.purge_dlq(DlqFilter::default(), 10).await.is_err(),
    );
    refused(
        "a schedule",
        store.put_schedule(schedule(w, "t")).await.is_err(),
    );
    let created = store.swap_schedule(None, schedule(w, "t")).await;
    refused("a new schedule", created.is_err());
    let mut paused = schedule(w, "s");
    paused.paused = true;
    refused("a pause", store.swap_schedule(seen, paused).await.is_err());
    refused("a deletion", store.delete_schedule("s").await.is_err());
    let drained = store.set_worker_status("w", WorkerStatus::Draining).await;
    refused("a drain", drained.is_err());
    refused(
        "forgetting a worker",
        store.deregister_worker("w").await.is_err(),
    );
    refused("a breaker", store.reset_breaker("b").await.is_err());
    assert_eq!(w.everything().await, before);
    // Nobody is noted: nothing stands in the way.
    assert!(w.store.reset_breaker("b").await.expect("reset"));
}

#[tokio::test]
async fn nothing_happens_unnoted_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.db");
    let sqlite = Sqlite::open(&file, SqliteOptions::default()).expect("opens");
    let store: Arc<dyn WorkflowEventStore> = Arc::new(SqlStore::new(sqlite));
    let world = World::new(store);
    let things = things(&world).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON durable_audit \
                  BEGIN SELECT RAISE(ABORT, 'the audit is full'); END";
    let database = rusqlite::Connection::open(&file).expect("opens beside");
    database.execute_batch(refuse).expect("a trigger");
    fails_as_a_whole(&world, &things).await;
}

#[tokio::test]
async fn nothing_happens_unnoted_in_postgres() {
    for shards in [1, 4] {
        let database = TestDatabase::create(Shards::new(shards)).await;
        let database = database.expect("a database");
        let world = World::new(database.open(false).await.expect("opens"));
        let things = things(&world).await;
        let url = database.url().expect("a URL");
        let (client, connection) = tokio_postgres::connect(&url, NoTls)
            .await
            .expect("connects");
        tokio::spawn(connection);
        let refuse =
            "ALTER TABLE durable.durable_audit ADD CONSTRAINT refuse CHECK (actor <> 'alice')";
        client.batch_execute(refuse).await.expect("a constraint");
        fails_as_a_whole(&world, &things).await;
        drop((client, world));
        database.remove().await;
    }
}
