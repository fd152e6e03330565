//! Breakers, limiters, admission.

use std::time::{Duration, Instant};

use everruns_durable::Engine;
use everruns_durable::core::{
    ActivityOptions, CircuitBreakerConfig, CircuitState, RateLimitConfig, RetryPolicy,
};
use everruns_durable::persistence::model::{Page, TaskFilter, TaskStatus};
use everruns_durable::reliability::AdmissionSettings;
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "reliability":
    an_open_breaker_parks_its_tasks_and_burns_no_attempts,
    a_limiter_holds_for_two_engines_together,
    too_much_waiting_refuses_new_runs_until_there_is_room,
}

fn step(name: &str, options: ActivityOptions) -> Step {
    Step::Activity {
        name: name.to_owned(),
        input: json!(0),
        options,
    }
}

/// Between two looks at the store.
async fn breathe() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

async fn an_open_breaker_parks_its_tasks_and_burns_no_attempts(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let options = ActivityOptions {
        // Without the breaker all attempts would be gone within milliseconds.
        retry_policy: RetryPolicy {
            max_attempts: 5,
            initial_interval: Duration::from_millis(1),
            max_interval: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        circuit_breaker: Some(CircuitBreakerConfig {
            failure_threshold: 2,
            success_threshold: 1,
            reset_timeout: Duration::from_millis(500),
            ..CircuitBreakerConfig::default()
        }),
        ..ActivityOptions::default()
    };
    let run = engine
        .client()
        .start::<Scripted>(Script::of([step("mended", options)]))
        .await
        .expect("starts");
    let parked = TaskFilter {
        run_id: Some(run.id()),
        status: Some(TaskStatus::Parked),
        ..TaskFilter::default()
    };
    loop {
        let tasks = engine
            .store()
            .list_tasks(parked.clone(), Page::default())
            .await
            .expect("lists");
        if let Some(task) = tasks.first() {
            assert!(task.attempt < 5, "the last attempt is not burned");
            break;
        }
        let status = run.get().await.expect("there").status;
        assert!(!status.is_terminal(), "the run failed instead of waiting");
        breathe().await;
    }
    let open = engine
        .store()
        .get_breaker("activity:mended")
        .await
        .expect("reads")
        .expect("there");
    assert_ne!(open.state, CircuitState::Closed);
    effects.open_gate();
    assert_eq!(run.result().await.expect("completes"), json!(["mended"]));
    let closed = async || {
        let breaker = engine
            .store()
            .get_breaker("activity:mended")
            .await
            .expect("reads");
        breaker.expect("there").state == CircuitState::Closed
    };
    while !closed().await {
        breathe().await;
    }
    engine.shutdown().await.expect("stops");
}

async fn a_limiter_holds_for_two_engines_together(arena: &Arena) {
    let (effects, count) = (Effects::new(), 20);
    let one = arena.engine(&effects).start().await.expect("starts");
    let two = arena.engine(&effects).start().await.expect("starts");
    let options = ActivityOptions {
        rate_limit: Some(
            RateLimitConfig::per_second(20)
                .with_burst(5)
                .with_key("shop"),
        ),
        ..ActivityOptions::default()
    };
    let began = Instant::now();
    let mut runs = Vec::new();
    for number in 0..count {
        let client = if number % 2 == 0 {
            one.client()
        } else {
            two.client()
        };
        let script = Script::of([step("echo", options.clone())]);
        runs.push(client.start::<Scripted>(script).await.expect("starts"));
    }
    for run in runs {
        run.result().await.expect("completes");
    }
    // The burst at once, the others 50 ms apart: less time would be more than the rate, on a machine of any speed.
    let least = Duration::from_millis(50) * (count - 5);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    assert_eq!(effects.count("echo 0"), count as usize);
    let listed = one.store().list_breakers().await.expect("lists");
    assert!(
        listed.iter().any(|row| row.key == "limit:shop"),
        "{listed:?}"
    );
    one.shutdown().await.expect("stops");
    two.shutdown().await.expect("stops");
}

async fn too_much_waiting_refuses_new_runs_until_there_is_room(arena: &Arena) {
    // It takes turns and runs no activities: what it starts waits.
    let engine = Engine::on(arena.store.clone())
        .workflow::<Scripted>()
        .always_replay(arena.always_replay)
        .configure(|settings| {
            settings.turns.owner_lease = Duration::from_secs(1);
            settings.admission = Some(AdmissionSettings {
                max_queue_ratio: 2.0,
                configured_capacity: 1,
                retry_after: Duration::from_millis(250),
            });
        })
        .start()
        .await
        .expect("starts");
    let client = engine.client();
    let script = || Script::of([step("echo", ActivityOptions::default())]);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(client.start::<Scripted>(script()).await.expect("has room"));
    }
    let another = async || {
        client
            .start::<Scripted>(script())
            .idempotency_key("another")
            .await
    };
    let refused = loop {
        match another().await {
            Ok(_) => breathe().await,
            Err(error) => break error,
        }
    };
    assert!(
        refused.is_overloaded() && refused.is_retryable(),
        "{refused}"
    );
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(250)));
    let worker = arena.engine(&Effects::new()).start().await.expect("starts");
    let accepted = loop {
        match another().await {
            Ok(run) => break run,
            Err(error) => {
                assert!(error.is_overloaded(), "{error}");
                breathe().await;
            }
        }
    };
    runs.push(accepted);
    for run in runs {
        assert_eq!(run.result().await.expect("completes"), json!([0]));
    }
    engine.shutdown().await.expect("stops");
    worker.shutdown().await.expect("stops");
}
