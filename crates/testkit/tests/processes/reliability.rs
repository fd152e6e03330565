//! Breakers and limiters that three processes share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use durable_testkit::engine_suite::{Script, Scripted, Step};
use durable_testkit::process::{STOPPED, WorkerProcess, open_store, until};
use everruns_durable::core::{CircuitState, RateLimitConfig};
use everruns_durable::persistence::model::{Page, TaskFilter, TaskStatus};
use everruns_durable::prelude::*;
use everruns_durable::reliability::{DistributedCircuitBreaker, Ending};
use everruns_durable::runtime::Runtime;
use serde_json::json;
use uuid::Uuid;

use crate::ground::{Ground, SHORT_LEASE};

const WORKERS: usize = 3;
const SLOTS: usize = 2;

async fn workers(ground: &Ground) -> anyhow::Result<Vec<WorkerProcess>> {
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(ground.worker(&[&["--slots", "2"]]).await?);
    }
    Ok(workers)
}

/// An engine that hosts the workflow here; its activities run in the workers.
async fn host(ground: &Ground) -> anyhow::Result<Engine> {
    let store = open_store(&ground.url).await?;
    Ok(Engine::on(store).workflow::<Scripted>().start().await?)
}

fn step(name: &str, options: ActivityOptions) -> Script {
    let (name, input) = (name.to_owned(), json!(1));
    Script::of([Step::Activity {
        name,
        input,
        options,
    }])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_opened_by_one_process_holds_back_all() -> anyhow::Result<()> {
    const BREAKER: &str = "external:shaky";
    const RUNS: usize = 30;
    const FAILURES: u32 = 3;
    let ground = Ground::postgres().await?;
    let down = ground.effects.path().with_extension("down");
    std::fs::write(&down, "")?;
    let workers = workers(&ground).await?;
    let engine = host(&ground).await?;
    let options = ActivityOptions {
        retry_policy: RetryPolicy {
            max_attempts: 100,
            initial_interval: Duration::from_millis(10),
            ..RetryPolicy::default()
        },
        circuit_breaker: Some(CircuitBreakerConfig {
            key: Some(BREAKER.to_owned()),
            failure_threshold: FAILURES,
            success_threshold: 1,
            reset_timeout: Duration::from_secs(5),
            ..CircuitBreakerConfig::default()
        }),
        ..ActivityOptions::default()
    };
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = engine
            .client()
            .start::<Scripted>(step("shaky", options.clone()))
            .await?;
        runs.push(run);
    }
    until("an open breaker", async || {
        let breaker = engine.store().get_breaker(BREAKER).await.expect("reads")?;
        (breaker.state == CircuitState::Open).then_some(())
    })
    .await;
    // What the other slots had begun before they could know is all that may come on top.
    let called = ground.effects.count();
    let most = FAILURES as usize + WORKERS * SLOTS;
    assert!(
        called <= most,
        "{called} calls, at most {most} could have begun"
    );

    std::fs::remove_file(&down)?;
    for run in runs {
        assert_eq!(run.result().await?, json!([1]));
    }
    engine.shutdown().await?;
    for worker in workers {
        worker.stop().await?;
    }
    // Only calls burn attempts: as many attempts as there were calls, whatever was parked meanwhile.
    let attempts: usize = last_attempts(&ground).values().sum();
    assert_eq!(attempts, ground.effects.count());
    ground.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_breaker_lets_exactly_its_probes_through_all_processes_together()
-> anyhow::Result<()> {
    const BREAKER: &str = "external:held";
    const RUNS: usize = 30;
    const PROBES: u32 = 3;
    let ground = Ground::postgres().await?;
    let workers = workers(&ground).await?;
    let engine = host(&ground).await?;
    half_open(&engine, BREAKER).await?;
    let options = ActivityOptions {
        circuit_breaker: Some(CircuitBreakerConfig {
            key: Some(BREAKER.to_owned()),
            success_threshold: PROBES,
            // Longer than the test: a probe that is held counts as out all the time.
            reset_timeout: Duration::from_secs(600),
            ..CircuitBreakerConfig::default()
        }),
        ..ActivityOptions::default()
    };
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let script = step("held", options.clone());
        runs.push(engine.client().start::<Scripted>(script).await?);
    }
    let probes = PROBES as usize;
    let (free, parked) = (WORKERS * SLOTS - probes, RUNS - probes);
    assert!(free > 0, "there are slots for more");
    ground.effects.reached(probes).await;
    // All the others asked too, and were told to wait.
    until("the others to be parked", async || {
        let filter = TaskFilter {
            status: Some(TaskStatus::Parked),
            ..TaskFilter::default()
        };
        let listed = engine.store().list_tasks(filter, Page::default()).await;
        (listed.expect("lists").len() == parked).then_some(())
    })
    .await;
    assert_eq!(ground.effects.count(), probes);

    std::fs::write(ground.effects.path().with_extension("open"), "")?;
    for run in runs {
        assert_eq!(run.result().await?, json!([1]));
    }
    let breaker = engine.store().get_breaker(BREAKER).await?;
    assert_eq!(breaker.expect("there").state, CircuitState::Closed);
    engine.shutdown().await?;
    for worker in workers {
        worker.stop().await?;
    }
    assert_eq!(ground.effects.count(), RUNS, "each once");
    ground.close().await
}

/// Opens a breaker, and lets a probe through that tells nothing: it is half open then, and all its permits are free.
async fn half_open(engine: &Engine, key: &str) -> anyhow::Result<()> {
    let hasty = CircuitBreakerConfig {
        failure_threshold: 1,
        reset_timeout: Duration::from_millis(1),
        ..CircuitBreakerConfig::default()
    };
    let store = engine.store().clone();
    let breaker = DistributedCircuitBreaker::new(store, Runtime::real(), key, hasty);
    breaker.record_failure().await?;
    let probe = until("a probe", async || breaker.allow().await.ok()).await;
    probe.report(Ending::GivenBack).await?;
    assert_eq!(breaker.state().await?, CircuitState::HalfOpen);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_cancelled_by_another_process_is_told_while_it_runs() -> anyhow::Result<()> {
    let ground = Ground::postgres().await?;
    let worker = ground.worker(&[&SHORT_LEASE]).await?;
    let engine = host(&ground).await?;
    let script = Script::of([Step::StartThenCancel {
        name: "held".to_owned(),
        signal: "stop".to_owned(),
    }]);
    let run = engine.client().start::<Scripted>(script).await?;
    let began = ground.effects.reached(1).await;
    assert_eq!(began[0].pid, worker.pid());
    run.signal("stop", &"no longer wanted").await?;
    assert_eq!(run.result().await?, json!(["no longer wanted"]));
    // It ends in no other way: nobody opens its gate, and its own time is far longer than this test waits.
    let effects = ground.effects.reached(2).await;
    assert_eq!(effects[1].activity_id, STOPPED);
    engine.shutdown().await?;
    worker.stop().await?;
    ground.close().await
}

/// The highest attempt of each run.
fn last_attempts(ground: &Ground) -> BTreeMap<Uuid, usize> {
    let mut last: BTreeMap<Uuid, usize> = BTreeMap::new();
    for effect in ground.effects.all() {
        let highest = last.entry(effect.run_id).or_default();
        *highest = (*highest).max(effect.attempt as usize);
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_for_all_processes_together() -> anyhow::Result<()> {
    const RUNS: u32 = 25;
    const BURST: u32 = 5;
    const PERIOD: Duration = Duration::from_millis(500);
    let ground = Ground::postgres().await?;
    let workers = workers(&ground).await?;
    let engine = host(&ground).await?;
    let options = ActivityOptions {
        rate_limit: Some(RateLimitConfig::new(BURST, PERIOD)),
        ..ActivityOptions::default()
    };
    let began = Instant::now();
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = engine
            .client()
            .start::<Scripted>(step("paced", options.clone()))
            .await?;
        runs.push(run);
    }
    for run in runs {
        assert_eq!(run.result().await?, json!([1]));
    }
    // Not how fast it is, but that it cannot be faster: after the burst, BURST in each PERIOD.
    let least = PERIOD * (RUNS / BURST - 1);
    assert!(
        began.elapsed() >= least,
        "{:?}, at least {least:?}",
        began.elapsed()
    );
    engine.shutdown().await?;
    for worker in workers {
        worker.stop().await?;
    }
    let shares = ground.effects.by_process();
    assert!(shares.len() > 1, "one process did it all: {shares:?}");
    assert!(
        ground
            .effects
            .all()
            .iter()
            .all(|effect| effect.attempt == 1),
        "waiting burns no attempt"
    );
    ground.close().await
}
