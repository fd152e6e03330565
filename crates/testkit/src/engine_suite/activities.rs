//! Activities: retries, dead letters, order, heartbeats.

use std::time::Duration;

use everruns_durable::core::{ActivityOptions, ExhaustedPolicy, RetryPolicy};
use everruns_durable::persistence::model::{DlqFilter, Page};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "activities":
    a_failed_attempt_is_tried_again_until_it_succeeds,
    an_activity_out_of_attempts_fails_the_run_and_leaves_a_letter,
    a_final_failure_is_not_tried_again,
    a_panic_is_a_failed_attempt,
    tasks_of_one_run_keep_their_order,
    parallel_tasks_all_run,
    a_parked_activity_waits_for_its_letter_to_be_decided,
    a_requeued_letter_is_tried_again,
    a_letter_of_a_run_that_ended_says_how_it_ended,
    a_failed_run_is_taken_back_to_before_its_failure,
    heartbeat_details_reach_the_next_attempt,
    an_attempt_past_its_time_is_tried_again,
    an_activity_without_a_worker_runs_when_one_comes,
    engines_and_clients_on_one_open_store_hear_each_other,
}

async fn a_failed_attempt_is_tried_again_until_it_succeeds(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([Step::tried("flaky", json!(3), 5)]);
    let run = engine
        .client()
        .start::<Scripted>(script)
        .await
        .expect("starts");
    assert_eq!(run.result().await.expect("completes"), json!([3]));
    assert_eq!(effects.all(), ["flaky 1", "flaky 2", "flaky 3"]);
    let history = engine
        .store()
        .load_history(run.id(), 0)
        .await
        .expect("reads")
        .expect("there");
    let names: Vec<&str> = history
        .events
        .iter()
        .map(|event| event.event.event_type())
        .collect();
    let attempts = names
        .iter()
        .filter(|name| **name == "activity.started")
        .count();
    assert_eq!(attempts, 3, "{names:?}");
    engine.shutdown().await.expect("stops");
}

async fn an_activity_out_of_attempts_fails_the_run_and_leaves_a_letter(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([Step::tried("broken", json!(0), 3)]);
    let error = engine.run::<Scripted>(script).await.expect_err("fails");
    assert_eq!(error.failure().expect("a failure").error_type, "Broken");
    assert_eq!(effects.all(), ["broken 1", "broken 2", "broken 3"]);
    let letters = engine
        .store()
        .list_dlq(DlqFilter::default(), Page::default())
        .await
        .expect("lists");
    assert_eq!(letters.len(), 1);
    let letter = engine.store().get_dead_letter(letters[0].id).await;
    let letter = letter.expect("reads").expect("it is listed");
    assert_eq!(letter.error_history.len(), 3);
    engine.shutdown().await.expect("stops");
}

async fn a_final_failure_is_not_tried_again(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let mut script = Script::of([Step::tried("fatal", json!(0), 5)]);
    script.tolerates_failure = true;
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result[0]["failed"], json!("Fatal"));
    engine.shutdown().await.expect("stops");
}

async fn a_panic_is_a_failed_attempt(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let mut script = Script::of([Step::tried("panics", json!(0), 2)]);
    script.tolerates_failure = true;
    let result = engine.run::<Scripted>(script).await.expect("completes");
    let message = result[0]["message"].as_str().expect("a text").to_owned();
    assert!(message.contains("an activity that panics"), "{message}");
    engine.shutdown().await.expect("stops");
}

async fn tasks_of_one_run_keep_their_order(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of([Step::Line {
        name: "echo".to_owned(),
        count: 10,
    }]);
    engine.run::<Scripted>(script).await.expect("completes");
    let expected: Vec<String> = (0..10).map(|n| format!("echo {n}")).collect();
    assert_eq!(effects.all(), expected);
    engine.shutdown().await.expect("stops");
}

async fn parallel_tasks_all_run(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena
        .engine(&effects)
        .max_concurrent_tasks(4)
        .start()
        .await
        .expect("starts");
    let script = Script::of([Step::Parallel {
        name: "echo".to_owned(),
        count: 50,
    }]);
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result.as_array().expect("a list").len(), 50);
    let mut done = effects.all();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 50, "each once");
    engine.shutdown().await.expect("stops");
}

fn parked(name: &str, succeeds_at: u32) -> Step {
    let retry_policy = RetryPolicy {
        max_attempts: 1,
        ..RetryPolicy::default()
    };
    Step::Activity {
        name: name.to_owned(),
        input: json!(succeeds_at),
        options: ActivityOptions {
            retry_policy,
            on_exhausted: ExhaustedPolicy::Park,
            ..ActivityOptions::default()
        },
    }
}

async fn a_parked_activity_waits_for_its_letter_to_be_decided(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([parked("broken", 0)]))
        .await
        .expect("starts");
    let letter = first_letter(&engine).await;
    engine
        .client()
        .complete_dead_letter(run.id(), letter, &"by hand")
        .await
        .expect("decides");
    assert_eq!(run.result().await.expect("completes"), json!(["by hand"]));
    engine.shutdown().await.expect("stops");
}

async fn a_requeued_letter_is_tried_again(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    // Attempt 1 of the first round fails; a requeue begins again with attempt 1, which fails again.
    let run = engine
        .client()
        .start::<Scripted>(Script::of([parked("broken", 0)]))
        .await
        .expect("starts");
    let letter = first_letter(&engine).await;
    engine
        .client()
        .requeue_dead_letter(run.id(), letter)
        .await
        .expect("decides");
    effects.reached("broken 1", 2).await;
    run.terminate("seen enough").await.expect("ends");
    engine.shutdown().await.expect("stops");
}

async fn a_letter_of_a_run_that_ended_says_how_it_ended(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let run = client
        .start::<Scripted>(Script::of([parked("broken", 0)]))
        .await
        .expect("starts");
    let letter = first_letter(&engine).await;
    run.terminate("seen enough").await.expect("ends");
    let refused = client.complete_dead_letter(run.id(), letter, &1).await;
    let error = refused.expect_err("the run has ended");
    assert!(error.is_run_finished(), "{error}");
    assert!(error.to_string().contains("failed"), "{error}");
    engine.shutdown().await.expect("stops");
}

async fn a_failed_run_is_taken_back_to_before_its_failure(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([
        Step::activity("echo", json!(1)),
        Step::tried("mended", json!(0), 1),
    ]);
    let run = client.start::<Scripted>(script).await.expect("starts");
    run.result().await.expect_err("fails");
    effects.open_gate();
    let letter = first_letter(&engine).await;
    client
        .requeue_dead_letter(run.id(), letter)
        .await
        .expect("resets");
    assert_eq!(run.result().await.expect("completes"), json!([1, "mended"]));
    assert_eq!(
        effects.count("echo 1"),
        1,
        "what was done before stays done"
    );
    assert_eq!(run.get().await.expect("there").epoch, 1);
    engine.shutdown().await.expect("stops");
}

async fn first_letter(engine: &everruns_durable::Engine) -> uuid::Uuid {
    loop {
        let letters = engine
            .store()
            .list_dlq(DlqFilter::default(), Page::default())
            .await
            .expect("lists");
        if let Some(letter) = letters.first() {
            return letter.id;
        }
        // Another run's whole life passes between two looks.
        engine
            .run::<Scripted>(Script::default())
            .await
            .expect("completes");
    }
}

async fn heartbeat_details_reach_the_next_attempt(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of([Step::tried("beating", json!(0), 3)]);
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result, json!([{ "attempt": 2, "found": { "page": 7 } }]));
    engine.shutdown().await.expect("stops");
}

async fn an_attempt_past_its_time_is_tried_again(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let options = ActivityOptions {
        retry_policy: RetryPolicy {
            max_attempts: 2,
            initial_interval: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        start_to_close_timeout: Duration::from_millis(50),
        ..ActivityOptions::default()
    };
    let mut script = Script::of([Step::Activity {
        name: "gated".to_owned(),
        input: json!(0),
        options,
    }]);
    script.tolerates_failure = true;
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result[0]["failed"], json!("StartToCloseTimeout"));
    assert_eq!(effects.count("gated began"), 2);
    engine.shutdown().await.expect("stops");
}

async fn an_activity_without_a_worker_runs_when_one_comes(arena: &Arena) {
    let engine = everruns_durable::Engine::on(arena.store.clone())
        .workflow::<Scripted>()
        .always_replay(arena.always_replay)
        .configure(|settings| settings.turns.owner_lease = Duration::from_secs(1))
        .start()
        .await
        .expect("starts");
    let run = engine
        .client()
        .start::<Scripted>(Script::of([Step::activity("echo", json!(1))]))
        .await
        .expect("starts");
    let worker = arena.engine(&Effects::new()).start().await.expect("starts");
    assert_eq!(run.result().await.expect("completes"), json!([1]));
    engine.shutdown().await.expect("stops");
    worker.shutdown().await.expect("stops");
}

async fn engines_and_clients_on_one_open_store_hear_each_other(arena: &Arena) {
    // Nobody looks by himself within the life of this test: what is done, somebody rang for. A program that is not kept is at home nowhere
    // though, and its run has to be claimed.
    let replays = arena.always_replay;
    let deaf = move |settings: &mut everruns_durable::engine::Settings| {
        if replays {
            settings.turns.owner_lease = Duration::from_millis(100);
            settings.chores.fallback_poll = Duration::from_millis(100);
        } else {
            settings.turns.owner_lease = Duration::from_secs(3600);
            settings.chores.fallback_poll = Duration::from_secs(3600);
        }
    };
    let decider = everruns_durable::Engine::on(arena.store.clone())
        .workflow::<Scripted>()
        .always_replay(arena.always_replay)
        .configure(deaf)
        .start()
        .await
        .expect("starts");
    let doer = everruns_durable::Engine::on(arena.store.clone())
        .activity_fn("work", |_ctx, input: u32| async move { Ok(input) })
        .configure(deaf)
        .start()
        .await
        .expect("starts");
    let client = everruns_durable::Client::on(arena.store.clone());
    let steps = (0..5).map(|n| Step::activity("work", json!(n)));
    let run = client
        .start::<Scripted>(Script::of(steps))
        .await
        .expect("starts");
    let result = tokio::time::timeout(Duration::from_secs(60), run.result()).await;
    let result = result.expect("only a bell that is not heard takes so long");
    assert_eq!(result.expect("completes"), json!([0, 1, 2, 3, 4]));
    decider.shutdown().await.expect("stops");
    doer.shutdown().await.expect("stops");
}
