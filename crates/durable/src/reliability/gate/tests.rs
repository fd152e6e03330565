//! Two gates on one store are two processes.

use durable_core::{ActivityOptions, CircuitState, Failure, Payload, RateLimitConfig, Timestamp};
use parking_lot::Mutex;
use uuid::Uuid;

use super::*;
use crate::persistence::MemoryStore;
use crate::persistence::model::{BreakerRecord, TaskLease, TaskOutcome};
use crate::runtime::{Clock, Life};

const KEY: &str = "activity:charge";
const RESET: Duration = Duration::from_secs(60);

/// Each process has another idea of the time, and all of them are wrong.
struct Wrong(Mutex<Timestamp>);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let mut now = self.0.lock();
        *now -= Duration::from_secs(1);
        *now
    }
}

/// When the tests begin by the store's clock, which stands still until it is told to move: later than it is.
fn start() -> Timestamp {
    "2200-01-01T00:00:00Z".parse().expect("an instant")
}

struct World {
    store: Arc<MemoryStore>,
    now: Mutex<Timestamp>,
    here: Arc<Gate>,
    there: Arc<Gate>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        store.set_clock(start());
        let gate = |seed: u64| {
            let years = Duration::from_secs(seed * 1_000_000_000);
            let clock = Wrong(Mutex::new(Timestamp::UNIX_EPOCH + years));
            let runtime = Runtime::seeded(seed, Arc::new(clock), Life::new());
            let store = Arc::clone(&store) as Arc<dyn WorkflowEventStore>;
            Arc::new(Gate::new(store, runtime))
        };
        let (here, there) = (gate(1), gate(2));
        Self {
            store,
            now: Mutex::new(start()),
            here,
            there,
        }
    }

    fn pass(&self, time: Duration) {
        let mut now = self.now.lock();
        *now += time;
        self.store.set_clock(*now);
    }

    fn step_back(&self, time: Duration) {
        let mut now = self.now.lock();
        *now -= time;
        self.store.set_clock(*now);
    }

    async fn record(&self) -> BreakerRecord {
        let record = self.store.get_breaker(KEY).await.expect("reads");
        record.expect("is there")
    }

    /// Opens the breaker by failures on both sides.
    async fn open(&self) {
        for gate in [&self.here, &self.there, &self.here, &self.there, &self.here] {
            fail(gate, &guarded(1)[0]).await;
        }
        assert_eq!(self.record().await.state, CircuitState::Open);
    }
}

fn tasks(count: usize, options: &ActivityOptions) -> Vec<ClaimedTask> {
    let now = Timestamp::UNIX_EPOCH;
    let task = |_| ClaimedTask {
        lease: TaskLease {
            run_id: Uuid::now_v7(),
            task_id: Uuid::now_v7(),
            attempt: 1,
            token: Uuid::now_v7(),
        },
        lease_expires_at: now,
        activity_id: "a".to_owned(),
        activity_type: "charge".to_owned(),
        input: Payload::ABSENT,
        options: options.clone(),
        deliveries: 1,
        scheduled_at: now,
        started_at: now,
        heartbeat_details: Payload::ABSENT,
        attempts: Vec::new(),
        trace: None,
    };
    (0..count).map(task).collect()
}

/// Tasks behind the default breaker: 5 failures open it, 2 successes close it.
fn guarded(count: usize) -> Vec<ClaimedTask> {
    let options = ActivityOptions {
        circuit_breaker: Some(CircuitBreakerConfig::default()),
        ..ActivityOptions::default()
    };
    tasks(count, &options)
}

fn limited(count: usize, limit: RateLimitConfig) -> Vec<ClaimedTask> {
    let options = ActivityOptions {
        rate_limit: Some(limit),
        ..ActivityOptions::default()
    };
    tasks(count, &options)
}

async fn tell(gate: &Gate, task: &ClaimedTask, outcome: &TaskOutcome) {
    gate.record(task, outcome);
    assert!(gate.flush().await);
}

async fn fail(gate: &Gate, task: &ClaimedTask) {
    let failure = Failure::new("Down", "no answer");
    tell(gate, task, &TaskOutcome::Failed { failure }).await;
}

async fn succeed(gate: &Gate, task: &ClaimedTask) {
    let result = Payload::ABSENT;
    tell(gate, task, &TaskOutcome::Completed { result }).await;
}

async fn cancel(gate: &Gate, task: &ClaimedTask) {
    let reason = "no longer wanted".to_owned();
    tell(gate, task, &TaskOutcome::Cancelled { reason }).await;
}

fn running(verdicts: &[Verdict]) -> usize {
    verdicts
        .iter()
        .filter(|verdict| **verdict == Verdict::Run)
        .count()
}

async fn admitted(gate: &Gate, tasks: &[ClaimedTask]) -> usize {
    running(&gate.admit(tasks).await)
}

#[tokio::test]
async fn breaker_opens_at_the_threshold_of_both_processes_together() {
    let world = World::new();
    for gate in [&world.here, &world.there, &world.here, &world.there] {
        fail(gate, &guarded(1)[0]).await;
    }
    assert_eq!(world.record().await.failure_count, 4);
    assert_eq!(admitted(&world.there, &guarded(3)).await, 3);
    fail(&world.here, &guarded(1)[0]).await;
    let record = world.record().await;
    assert_eq!(
        (record.state, record.failure_count),
        (CircuitState::Open, 5)
    );
    assert_eq!(record.opened_at, Some(start()));
    for verdict in world.there.admit(&guarded(3)).await {
        let Verdict::Park(wait) = verdict else {
            panic!("it is open");
        };
        assert!(RESET <= wait && wait <= RESET.mul_f64(1.1), "{wait:?}");
    }
}

#[tokio::test]
async fn what_failed_here_counts_before_the_next_batch_without_a_flush() {
    let world = World::new();
    let failure = Failure::new("Down", "no answer");
    for task in guarded(5) {
        let failure = failure.clone();
        world.here.record(&task, &TaskOutcome::Failed { failure });
    }
    assert_eq!(admitted(&world.here, &guarded(1)).await, 0);
}

#[tokio::test]
async fn successes_of_a_closed_breaker_are_not_written() {
    let world = World::new();
    let batch = guarded(2);
    assert_eq!(admitted(&world.here, &batch).await, 2);
    succeed(&world.here, &batch[0]).await;
    assert_eq!(world.store.get_breaker(KEY).await.expect("reads"), None);
}

#[tokio::test]
async fn exactly_the_permitted_probes_pass_when_both_ask_at_once() {
    let world = World::new();
    world.open().await;
    world.pass(RESET);
    let (many_here, many_there) = (guarded(100), guarded(100));
    let (here, there) = tokio::join!(
        admitted(&world.here, &many_here),
        admitted(&world.there, &many_there)
    );
    assert_eq!(here + there, 2);
}

#[tokio::test]
async fn failures_reported_at_once_all_count() {
    let world = World::new();
    let (one, other) = (guarded(1), guarded(1));
    tokio::join!(fail(&world.here, &one[0]), fail(&world.there, &other[0]));
    assert_eq!(world.record().await.failure_count, 2);
}

#[tokio::test]
async fn limiter_asked_by_both_at_once_grants_its_burst_once() {
    let world = World::new();
    let limit = RateLimitConfig::per_second(10).with_burst(5);
    let (many_here, many_there) = (limited(5, limit.clone()), limited(5, limit));
    let (here, there) = tokio::join!(
        admitted(&world.here, &many_here),
        admitted(&world.there, &many_there)
    );
    assert_eq!(here + there, 5);
}

#[tokio::test]
async fn enough_good_probes_close_it_wherever_they_ran() {
    let world = World::new();
    world.open().await;
    world.pass(RESET);
    let (here, there) = (guarded(1), guarded(9));
    assert_eq!(admitted(&world.here, &here).await, 1);
    assert_eq!(admitted(&world.there, &there).await, 1);
    assert_eq!(world.record().await.state, CircuitState::HalfOpen);
    succeed(&world.here, &here[0]).await;
    assert_eq!(world.record().await.success_count, 1);
    succeed(&world.there, &there[0]).await;
    let record = world.record().await;
    assert_eq!(
        (record.state, record.failure_count),
        (CircuitState::Closed, 0)
    );
    assert_eq!(admitted(&world.here, &guarded(50)).await, 50);
}

#[tokio::test]
async fn failed_probe_opens_it_again() {
    let world = World::new();
    world.open().await;
    world.pass(RESET);
    let probe = guarded(1);
    assert_eq!(admitted(&world.here, &probe).await, 1);
    fail(&world.here, &probe[0]).await;
    let record = world.record().await;
    assert_eq!(record.state, CircuitState::Open);
    assert_eq!(record.opened_at, Some(start() + RESET));
    assert_eq!(admitted(&world.there, &guarded(1)).await, 0);
}

#[tokio::test]
async fn while_half_open_only_its_own_probes_decide() {
    let world = World::new();
    let early = guarded(3);
    assert_eq!(admitted(&world.there, &early).await, 3);
    world.open().await;
    world.pass(RESET);
    let first = guarded(2);
    assert_eq!(admitted(&world.here, &first).await, 2);
    fail(&world.here, &first[0]).await;
    world.pass(RESET);
    assert_eq!(admitted(&world.here, &guarded(2)).await, 2);
    // A probe of the first opening, and calls let through before it, come late.
    succeed(&world.here, &first[1]).await;
    succeed(&world.there, &early[0]).await;
    fail(&world.there, &early[1]).await;
    cancel(&world.there, &early[2]).await;
    let record = world.record().await;
    assert_eq!(
        (record.state, record.success_count),
        (CircuitState::HalfOpen, 0)
    );
    assert_eq!(
        admitted(&world.there, &guarded(1)).await,
        0,
        "no permit was freed"
    );
}

#[tokio::test]
async fn cancelled_probe_gives_its_permit_back() {
    let world = World::new();
    world.open().await;
    world.pass(RESET);
    let probes = guarded(2);
    assert_eq!(admitted(&world.here, &probes).await, 2);
    assert_eq!(admitted(&world.there, &guarded(5)).await, 0);
    cancel(&world.here, &probes[0]).await;
    assert_eq!(admitted(&world.there, &guarded(5)).await, 1);
}

#[tokio::test]
async fn probe_of_a_worker_that_died_is_given_up_after_the_reset_timeout() {
    let world = World::new();
    world.open().await;
    world.pass(RESET);
    assert_eq!(admitted(&world.here, &guarded(2)).await, 2);
    world.pass(RESET / 2);
    assert_eq!(admitted(&world.there, &guarded(2)).await, 0);
    world.pass(RESET / 2);
    assert_eq!(admitted(&world.there, &guarded(5)).await, 2);
}

#[tokio::test]
async fn breaker_that_cannot_be_read_lets_nothing_through() {
    let world = World::new();
    world.open().await;
    let mut record = world.record().await;
    record.data = Payload::from_value("nonsense").expect("a string is JSON");
    assert!(world.store.save_breaker(record, None).await.expect("saves"));
    world.pass(RESET);
    assert_eq!(admitted(&world.here, &guarded(3)).await, 0);
}

#[tokio::test]
async fn limiter_grants_both_processes_together_no_more_than_burst_and_rate() {
    let world = World::new();
    let limit = RateLimitConfig::per_second(10).with_burst(5);
    let mut granted = 0;
    for step in 0..50_usize {
        for gate in [&world.here, &world.there] {
            granted += admitted(gate, &limited(3, limit.clone())).await;
        }
        let rate = step * 50 / 100;
        assert!(granted <= 5 + rate, "{granted} after {} ms", step * 50);
        world.pass(Duration::from_millis(50));
    }
    assert_eq!(granted, 5 + 24, "and no less");
    let listed = world.store.list_breakers().await.expect("lists");
    assert_eq!(listed[0].key, "limit:activity:charge");
    assert_eq!(listed[0].state, CircuitState::Closed);
}

#[tokio::test]
async fn tasks_refused_by_a_limiter_come_back_one_after_the_other() {
    let world = World::new();
    let limit = RateLimitConfig::per_second(10)
        .with_burst(1)
        .with_key("bank");
    let verdicts = world.here.admit(&limited(4, limit)).await;
    let park = |millis| Verdict::Park(Duration::from_millis(millis));
    assert_eq!(verdicts, [Verdict::Run, park(100), park(200), park(300)]);
    assert!(
        world
            .store
            .get_breaker("limit:bank")
            .await
            .expect("reads")
            .is_some()
    );
}

#[tokio::test]
async fn limiter_grants_at_its_rate_after_the_clock_went_back() {
    let world = World::new();
    let limit = RateLimitConfig::per_second(1).with_burst(2);
    assert_eq!(admitted(&world.here, &limited(2, limit.clone())).await, 2);
    world.step_back(Duration::from_secs(3600));
    assert_eq!(admitted(&world.there, &limited(2, limit.clone())).await, 0);
    let mut granted = 0;
    for _ in 0..10 {
        world.pass(Duration::from_secs(1));
        granted += admitted(&world.here, &limited(2, limit.clone())).await;
    }
    assert_eq!(granted, 10, "and not before an hour has passed again");
}

#[tokio::test]
async fn breaker_lets_probes_through_after_the_clock_went_back() {
    let world = World::new();
    world.open().await;
    world.step_back(Duration::from_secs(3600));
    assert_eq!(admitted(&world.there, &guarded(1)).await, 0);
    world.pass(RESET);
    assert_eq!(admitted(&world.here, &guarded(5)).await, 2);
}

#[tokio::test]
async fn probe_that_the_limiter_refuses_is_given_back() {
    let world = World::new();
    world.open().await;
    world.pass(RESET);
    let options = ActivityOptions {
        circuit_breaker: Some(CircuitBreakerConfig::default()),
        rate_limit: Some(RateLimitConfig::per_second(1)),
        ..ActivityOptions::default()
    };
    let both = tasks(2, &options);
    assert_eq!(
        admitted(&world.here, &both).await,
        1,
        "two probes, one of them within the rate"
    );
    assert!(world.here.flush().await);
    assert_eq!(
        admitted(&world.there, &guarded(5)).await,
        1,
        "the other permit is free"
    );
}

#[tokio::test]
async fn tasks_without_breaker_or_limiter_ask_nobody() {
    let world = World::new();
    let free = tasks(3, &ActivityOptions::default());
    assert_eq!(admitted(&world.here, &free).await, 3);
    assert!(world.store.list_breakers().await.expect("lists").is_empty());
}
