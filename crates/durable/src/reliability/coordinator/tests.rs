use durable_core::Payload;

use super::*;
use crate::persistence::MemoryStore;
use crate::persistence::model::WorkerInfo;

fn coordinator(settings: AdmissionSettings) -> BackpressureCoordinator {
    let store = Arc::new(MemoryStore::new());
    BackpressureCoordinator::new(store, Runtime::real(), settings, Duration::from_secs(60))
}

fn health(pending_tasks: u64, total_workers: usize) -> SystemHealth {
    SystemHealth {
        available_capacity: 0,
        total_capacity: 20 * total_workers as u64,
        current_load: 0,
        load_percentage: 0.0,
        pending_tasks,
        accepting_workers: 0,
        total_workers,
    }
}

async fn register(
    coordinator: &BackpressureCoordinator,
    id: &str,
    ago: Duration,
    change: impl FnOnce(&mut WorkerInfo),
) {
    let now = coordinator.runtime.now() - ago;
    let mut worker = WorkerInfo {
        id: id.to_owned(),
        worker_group: "default".to_owned(),
        activity_types: vec!["charge".to_owned()],
        max_concurrency: 10,
        current_load: 4,
        status: WorkerStatus::Active,
        accepting_tasks: true,
        backpressure_reason: None,
        started_at: now,
        last_heartbeat_at: now,
        hostname: None,
        version: None,
        metadata: Payload::ABSENT,
        tasks_completed: 0,
        tasks_failed: 0,
        avg_task_duration_ms: 0.0,
    };
    change(&mut worker);
    let registered = coordinator.store.register_worker(worker, Some(now)).await;
    registered.expect("registers");
}

#[tokio::test]
async fn health_counts_fresh_workers_that_run_activities() {
    let coordinator = coordinator(AdmissionSettings::default());
    register(&coordinator, "one", Duration::ZERO, |_| {}).await;
    register(&coordinator, "full", Duration::ZERO, |worker| {
        worker.current_load = 10;
        worker.accepting_tasks = false;
    })
    .await;
    register(&coordinator, "silent", Duration::from_secs(90), |_| {}).await;
    register(&coordinator, "turns only", Duration::ZERO, |worker| {
        worker.activity_types.clear();
    })
    .await;
    let health = coordinator.check_system_health().await.expect("looks");
    let expected = SystemHealth {
        available_capacity: 6,
        total_capacity: 20,
        current_load: 14,
        load_percentage: 70.0,
        pending_tasks: 0,
        accepting_workers: 1,
        total_workers: 2,
    };
    assert_eq!(health, expected);
}

#[tokio::test]
async fn what_was_seen_holds_for_a_while() {
    let coordinator = coordinator(AdmissionSettings::default());
    let before = coordinator.check_system_health().await.expect("looks");
    register(&coordinator, "one", Duration::ZERO, |_| {}).await;
    assert_eq!(
        coordinator.check_system_health().await.expect("remembers"),
        before
    );
}

#[test]
fn more_than_ten_times_the_capacity_is_too_much() {
    let coordinator = coordinator(AdmissionSettings::default());
    assert!(coordinator.has_room(&health(400, 2)));
    assert!(!coordinator.has_room(&health(401, 2)));
}

#[test]
fn without_workers_the_configured_capacity_counts() {
    let coordinator = coordinator(AdmissionSettings {
        configured_capacity: 3,
        ..AdmissionSettings::default()
    });
    assert!(coordinator.has_room(&health(30, 0)));
    assert!(!coordinator.has_room(&health(31, 0)));
}

#[tokio::test]
async fn a_start_is_judged_by_the_last_sample_and_never_waits_for_one() {
    let coordinator = coordinator(AdmissionSettings {
        // Below zero there is room for nothing.
        max_queue_ratio: -1.0,
        ..AdmissionSettings::default()
    });
    assert!(
        coordinator.admit().is_ok(),
        "without a sample all are admitted"
    );
    coordinator.check_system_health().await.expect("looks");
    // A look that hangs holds this.
    let _looking = coordinator.looking.lock().await;
    let refused = coordinator.admit().expect_err("the sample says so");
    assert!(matches!(refused, StoreError::Overloaded { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_old_sample_asks_for_a_new_one_and_a_very_old_one_decides_nothing() {
    let coordinator = coordinator(AdmissionSettings {
        max_queue_ratio: -1.0,
        ..AdmissionSettings::default()
    });
    coordinator.check_system_health().await.expect("looks");
    assert!(coordinator.admit().is_err());
    let wanted = |coordinator: &BackpressureCoordinator| {
        use futures_util::FutureExt as _;
        coordinator.wanted().now_or_never().is_some()
    };
    assert!(!wanted(&coordinator), "a new sample is not asked for");
    tokio::time::advance(FRESH).await;
    assert!(coordinator.admit().is_err());
    assert!(wanted(&coordinator));
    tokio::time::advance(HOLDS).await;
    assert!(coordinator.admit().is_ok());
    assert!(wanted(&coordinator));
}

#[test]
fn what_waits_is_counted_as_far_as_the_limit() {
    let at_most = |max_queue_ratio| {
        let settings = AdmissionSettings {
            max_queue_ratio,
            ..AdmissionSettings::default()
        };
        coordinator(settings).counted_at_most(&health(0, 2))
    };
    assert_eq!(at_most(10.0), 401);
    assert_eq!(at_most(-1.0), 1);
    assert_eq!(at_most(f64::NAN), 1);
    assert_eq!(at_most(f64::INFINITY), u64::MAX);
}
