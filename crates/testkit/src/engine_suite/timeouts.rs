//! The clocks of activities and runs (RL-03); an attempt's own time is among the activities' claims.

use std::time::Duration;

use everruns_durable::core::{ActivityOptions, RetryPolicy};
use serde_json::{Value, json};

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "timeouts":
    a_task_that_nobody_picks_up_in_time_fails_for_good,
    all_attempts_together_have_so_much_time,
    an_attempt_that_outlives_all_its_activity_had_is_stopped,
    an_attempt_without_a_heartbeat_is_tried_again,
    one_iteration_of_a_run_has_so_much_time,
}

/// Runs one activity with these options; answers how it failed.
async fn failure_of(
    arena: &Arena,
    effects: &Effects,
    name: &str,
    options: ActivityOptions,
) -> Value {
    let engine = arena.engine(effects).start().await.expect("starts");
    let mut script = Script::of([Step::Activity {
        name: name.to_owned(),
        input: json!(0),
        options,
    }]);
    script.tolerates_failure = true;
    let result = engine.run::<Scripted>(script).await.expect("completes");
    engine.shutdown().await.expect("stops");
    result[0]["failed"].clone()
}

fn tried(attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts: attempts,
        initial_interval: Duration::from_millis(1),
        max_interval: Duration::from_millis(5),
        ..RetryPolicy::default()
    }
}

async fn a_task_that_nobody_picks_up_in_time_fails_for_good(arena: &Arena) {
    let options = ActivityOptions {
        schedule_to_start_timeout: Duration::from_millis(50),
        retry_policy: tried(5),
        ..ActivityOptions::default()
    };
    let failed = failure_of(arena, &Effects::new(), "nobody's", options).await;
    assert_eq!(failed, json!("ScheduleToStartTimeout"));
}

async fn all_attempts_together_have_so_much_time(arena: &Arena) {
    let effects = Effects::new();
    let options = ActivityOptions {
        schedule_to_close_timeout: Some(Duration::from_millis(300)),
        // Each attempt fails at once; without that clock there would be no end of them.
        retry_policy: tried(1_000_000),
        ..ActivityOptions::default()
    };
    let failed = failure_of(arena, &effects, "broken", options).await;
    assert_eq!(failed, json!("ScheduleToCloseTimeout"));
    assert!(effects.count("broken 1") == 1, "it was tried");
}

async fn an_attempt_that_outlives_all_its_activity_had_is_stopped(arena: &Arena) {
    let effects = Effects::new();
    let options = ActivityOptions {
        schedule_to_close_timeout: Some(Duration::from_millis(200)),
        ..ActivityOptions::default()
    };
    let failed = failure_of(arena, &effects, "gated", options).await;
    assert_eq!(failed, json!("ScheduleToCloseTimeout"));
    // The gate stays closed: only being told to stop ends it.
    effects.reached("gated stopped", 1).await;
}

async fn an_attempt_without_a_heartbeat_is_tried_again(arena: &Arena) {
    let effects = Effects::new();
    let options = ActivityOptions {
        heartbeat_timeout: Some(Duration::from_millis(100)),
        retry_policy: tried(2),
        ..ActivityOptions::default()
    };
    let failed = failure_of(arena, &effects, "gated", options).await;
    assert_eq!(failed, json!("HeartbeatTimeout"));
    assert_eq!(effects.count("gated began"), 2);
}

async fn one_iteration_of_a_run_has_so_much_time(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    // The clock begins anew with the second iteration: only there does it run out.
    let forever = Script::of([Step::Signal {
        name: "never".to_owned(),
    }]);
    let again = Step::ContinueAsNew {
        script: Box::new(forever),
    };
    let script = Script::of([Step::activity("echo", json!(1)), again]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .run_timeout(Duration::from_secs(1))
        .await
        .expect("starts");
    let error = run.result().await.expect_err("fails");
    let failure = error.failure().expect("a failure");
    assert_eq!(failure.error_type, "RunTimeout");
    let ended = run.get().await.expect("there");
    let (began, over) = (ended.created_at, ended.completed_at.expect("it is over"));
    assert!(
        over.duration_since(began).as_millis() >= 1_000,
        "not before its time"
    );
    engine.shutdown().await.expect("stops");
}
