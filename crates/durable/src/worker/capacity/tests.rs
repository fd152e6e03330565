use std::sync::Arc;

use durable_core::ActivityOptions;

use super::*;
use crate::activity::{ActivityRegistry, StoreLedger};
use crate::engine::{Desk, Hub};
use crate::persistence::{MemoryStore, WorkerPort, WorkflowEventStore};
use crate::reliability::Gate;
use crate::runtime::ResourceGauge;
use crate::worker::{HeartbeatBatcher, PoolParts, ResultSink, Slot};

struct Held(Resources);

impl ResourceGauge for Held {
    fn read(&self) -> Resources {
        self.0
    }
}

fn pool(resources: Resources, change: impl FnOnce(&mut WorkerSettings)) -> WorkerPool {
    let mut settings = WorkerSettings::default();
    change(&mut settings);
    let store: Arc<dyn WorkflowEventStore> = Arc::new(MemoryStore::new());
    let port = Arc::clone(&store) as Arc<dyn WorkerPort>;
    let runtime = Runtime::with_gauge(Arc::new(Held(resources)));
    let (lease, renewal) = (settings.lease, settings.lease_renewal);
    let leases = HeartbeatBatcher::new(Arc::clone(&port), runtime.clone(), lease, renewal);
    let mut activities = ActivityRegistry::new();
    activities.register_fn("echo", |_ctx, input: u32| async move { Ok(input) });
    WorkerPool::new(PoolParts {
        activities,
        settings,
        leases: Arc::new(leases),
        results: Arc::new(ResultSink::new(Arc::clone(&port), runtime.clone())),
        port,
        hub: Arc::new(Hub::new(Arc::new(Desk::default()), None, true)),
        gate: Arc::new(Gate::new(Arc::clone(&store), runtime.clone())),
        once: Arc::new(StoreLedger(store)),
        transactions: None,
        runtime,
    })
}

/// Takes slots, the last of which is the claim's own.
fn take(pool: &WorkerPool, count: usize) -> Vec<Slot> {
    (0..count)
        .map(|_| pool.slots.try_take().expect("is free"))
        .collect()
}

fn memory(used: u64) -> Resources {
    Resources {
        memory_used: Some(used),
        memory_limit: Some(1000),
        cpu_percent: Some(50.0),
    }
}

#[test]
fn claim_is_as_large_as_the_batch_or_the_free_slots() {
    let large = pool(Resources::default(), |_| {});
    let _held = take(&large, 1);
    assert_eq!(large.claim_size(), 50);
    let small = pool(Resources::default(), |settings| {
        settings.max_concurrent_tasks = 3;
    });
    let _held = take(&small, 1);
    assert_eq!(small.claim_size(), 3);
    let _more = take(&small, 2);
    assert_eq!(small.claim_size(), 1, "the slot that is held");
}

#[test]
fn claim_is_halved_while_memory_is_short() {
    let pool_at = |used| pool(memory(used), |_| {});
    assert_eq!(pool_at(800).claim_size(), 50);
    assert_eq!(pool_at(801).claim_size(), 25);
}

#[test]
fn claim_is_smaller_while_tasks_take_long() {
    let pool = pool(Resources::default(), |_| {});
    for _ in 0..LATENCIES_MAX {
        pool.capacity.took(Duration::from_secs(1));
    }
    pool.capacity.took(Duration::from_secs(60));
    assert_eq!(pool.claim_size(), 50, "one in a hundred may");
    pool.capacity.took(Duration::from_secs(60));
    assert_eq!(pool.claim_size(), 35);
    for _ in 0..LATENCIES_MAX {
        pool.capacity.took(Duration::from_secs(1));
    }
    assert_eq!(pool.claim_size(), 50, "what is long ago does not count");
}

#[test]
fn last_slot_is_always_claimed_for() {
    let small = pool(memory(999), |settings| settings.max_concurrent_tasks = 1);
    assert_eq!(small.pressure(), None);
    let _held = take(&small, 1);
    small.capacity.took(Duration::from_secs(60));
    assert_eq!(small.claim_size(), 1);
}

#[test]
fn others_leave_a_share_of_the_batch() {
    let pool = pool(Resources::default(), |_| {});
    let others = |count| BTreeMap::from([("charge".to_owned(), count)]);
    pool.others_are(others(2));
    assert_eq!(pool.claim_size(), 17);
    pool.others_are(others(999));
    assert_eq!(pool.claim_size(), SHARE_MIN);
}

#[test]
fn share_of_new_tasks_is_rounded_up() {
    let pool = pool(Resources::default(), |_| {});
    assert_eq!(pool.share_of("charge", 10), 10, "alone");
    pool.others_are(BTreeMap::from([("charge".to_owned(), 2)]));
    assert_eq!(pool.share_of("charge", 10), 4);
    assert_eq!(pool.share_of("charge", 1), 1);
    assert_eq!(pool.share_of("ship", 10), 10);
}

#[test]
fn full_worker_says_so_until_it_is_below_the_low_watermark() {
    let pool = pool(Resources::default(), |settings| {
        settings.max_concurrent_tasks = 10;
    });
    let mut held = take(&pool, 9);
    assert_eq!(
        pool.backpressure_reason().as_deref(),
        Some("load: 9 of 10 slots are in use")
    );
    held.truncate(7);
    assert!(pool.backpressure_reason().is_some());
    held.truncate(6);
    assert_eq!(pool.backpressure_reason(), None);
}

#[test]
fn slots_of_a_claim_under_way_are_no_load() {
    let pool = pool(Resources::default(), |settings| {
        settings.max_concurrent_tasks = 2;
    });
    let _held = take(&pool, 2);
    pool.claiming(2);
    assert_eq!((pool.current_load(), pool.pressure()), (0, None));
    pool.claiming(0);
    assert_eq!(pool.current_load(), 2);
}

#[test]
fn memory_and_cpu_over_their_thresholds_stop_it() {
    let reason = |memory_threshold, cpu_threshold| {
        let pool = pool(memory(500), |settings| {
            settings.backpressure.memory_threshold = memory_threshold;
            settings.backpressure.cpu_threshold = cpu_threshold;
        });
        pool.backpressure_reason()
    };
    assert_eq!(reason(Some(501), Some(50.0)), None);
    let text = reason(Some(500), None).expect("too much memory");
    assert!(text.starts_with("memory"), "{text}");
    let text = reason(None, Some(49.0)).expect("too much work");
    assert!(text.starts_with("cpu"), "{text}");
}

#[test]
fn draining_worker_says_so() {
    let pool = pool(Resources::default(), |_| {});
    pool.stop_accepting();
    assert_eq!(pool.backpressure_reason().as_deref(), Some("draining"));
}

#[test]
fn a_worker_under_pressure_hands_nothing_over_to_itself() {
    let options = durable_core::ActivityOptions::default();
    let at_threshold = pool(memory(500), |settings| {
        settings.backpressure.memory_threshold = Some(500);
    });
    assert!(at_threshold.reserve("echo", &options).is_none());
    let below = pool(memory(499), |settings| {
        settings.backpressure.memory_threshold = Some(500);
    });
    assert!(below.reserve("echo", &options).is_some());
    let nearly_full = pool(Resources::default(), |settings| {
        settings.max_concurrent_tasks = 10;
    });
    let mut held = take(&nearly_full, 9);
    assert!(nearly_full.reserve("echo", &options).is_none());
    held.truncate(6);
    assert!(nearly_full.reserve("echo", &options).is_some());
}

#[test]
fn worker_whose_activities_hold_large_payloads_takes_no_more() {
    let pool = pool(Resources::default(), |settings| {
        settings.max_bytes_in_flight = 10;
    });
    let mut held = take(&pool, 2);
    held[0].holds(4);
    held[1].holds(5);
    assert_eq!(pool.backpressure_reason(), None);
    held[1].holds(6);
    assert_eq!(
        pool.backpressure_reason().as_deref(),
        Some("payloads: running activities hold 10 bytes, max_bytes_in_flight is 10")
    );
    assert!(pool.reserve("echo", &ActivityOptions::default()).is_none());
    assert!(!pool.may_pass_on("echo", &ActivityOptions::default()));
    held.pop();
    assert!(pool.reserve("echo", &ActivityOptions::default()).is_some());
}
