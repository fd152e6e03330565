use std::collections::BTreeSet;

use tokio::time::Instant;

use super::*;
use crate::persistence::limits::{BATCH_ITEMS_MAX, PAYLOAD_BYTES_MAX};
use crate::worker::stub_port::{StubPort, task};

const LEASE: Duration = Duration::from_secs(15);
const RENEWAL: Duration = Duration::from_secs(5);

fn keeper(port: &Arc<StubPort>) -> HeartbeatBatcher {
    let port = Arc::clone(port) as Arc<dyn WorkerPort>;
    HeartbeatBatcher::new(port, Runtime::real(), LEASE, RENEWAL)
}

fn hold(keeper: &HeartbeatBatcher, count: usize) -> Vec<ClaimedTask> {
    let tasks: Vec<ClaimedTask> = (1..=count).map(|n| task(n as u128)).collect();
    for task in &tasks {
        keeper.hold(task, CancellationToken::new());
    }
    tasks
}

/// Tasks whose leases were renewed.
fn renewed(port: &StubPort) -> BTreeSet<Uuid> {
    let calls = port.extended.lock();
    let all = calls.iter().flatten();
    all.map(|extension| extension.lease.task_id).collect()
}

#[tokio::test]
async fn more_leases_than_one_call_takes_are_all_renewed() {
    let port = Arc::new(StubPort::default());
    let keeper = keeper(&port);
    hold(&keeper, BATCH_ITEMS_MAX + 1);
    assert_eq!(keeper.send(|_| true).await, Sent::All);
    assert_eq!(renewed(&port).len(), BATCH_ITEMS_MAX + 1);
}

#[tokio::test]
async fn more_bytes_than_one_call_takes_are_all_sent() {
    let port = Arc::new(StubPort::default());
    let keeper = keeper(&port);
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    let details = Payload::from_json_text(text).unwrap();
    for task in hold(&keeper, 70) {
        keeper.queue(&task.lease, details.clone());
    }
    assert_eq!(keeper.send(|_| true).await, Sent::All);
    let calls = port.extended.lock();
    let whole = |e: &LeaseExtension| e.heartbeat.as_ref() == Some(&details);
    assert!(calls.iter().flatten().all(whole), "and with their details");
    assert_eq!(calls.iter().flatten().count(), 70);
}

#[tokio::test]
async fn a_refused_heartbeat_loses_its_details_and_nobody_the_lease() {
    let port = Arc::new(StubPort {
        poison: Some("poison"),
        ..StubPort::default()
    });
    let keeper = keeper(&port);
    let tasks = hold(&keeper, 9);
    for (n, task) in tasks.iter().enumerate() {
        let details = if n == 4 { "poison" } else { "fine" };
        keeper.queue(&task.lease, Payload::from_value(&details).unwrap());
    }
    assert_eq!(keeper.send(|_| true).await, Sent::All);
    assert_eq!(renewed(&port).len(), 9);
    let calls = port.extended.lock();
    for extension in calls.iter().flatten() {
        let at_fault = extension.lease == tasks[4].lease;
        let details = extension.heartbeat.as_ref().expect("a heartbeat");
        assert_eq!(details.is_absent(), at_fault);
    }
    assert_eq!((keeper.held(), keeper.waiting()), (9, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_lives_through_many_failures_in_a_row() {
    let port = Arc::new(StubPort {
        failures: Mutex::new(10),
        ..StubPort::default()
    });
    let keeper = keeper(&port);
    hold(&keeper, 1);
    let began = Instant::now();
    tokio::select! {
        () = keeper.run() => {}
        // Virtual time: this is a moment of the lease's life, not of the test's.
        () = tokio::time::sleep(LEASE - Duration::from_secs(1)) => {}
    }
    assert!(began.elapsed() < LEASE);
    assert_eq!(renewed(&port).len(), 1);
}
