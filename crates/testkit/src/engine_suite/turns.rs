//! Turns: steps in order, results, failures, panics.

use everruns_durable::persistence::model::{RunFilter, WorkflowStatus};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, blocked, claims};

claims! { "turns":
    a_run_without_steps_completes_at_once,
    steps_are_taken_in_order_and_results_come_back,
    a_failing_run_tells_its_error,
    a_panic_blocks_the_run_and_nothing_else,
    a_run_is_blocked_whatever_its_panic_says,
    another_build_goes_on_with_a_blocked_run,
    many_runs_side_by_side_all_complete,
    a_run_goes_on_as_new_with_an_empty_history,
    an_input_that_does_not_fit_fails_the_run,
}

async fn a_run_without_steps_completes_at_once(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let result = engine.run::<Scripted>(Script::default()).await;
    assert_eq!(result.expect("completes"), json!([]));
    engine.shutdown().await.expect("stops");
}

async fn steps_are_taken_in_order_and_results_come_back(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let script = Script::of((1..=10).map(|n| Step::activity("echo", json!(n))));
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result, json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    let expected: Vec<String> = (1..=10).map(|n| format!("echo {n}")).collect();
    assert_eq!(effects.all(), expected, "each once, in order");
    engine.shutdown().await.expect("stops");
}

async fn a_failing_run_tells_its_error(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let script = Script::of([Step::Fail {
        message: "enough".to_owned(),
    }]);
    let error = engine.run::<Scripted>(script).await.expect_err("fails");
    let failure = error.failure().expect("a failure");
    assert_eq!(
        (failure.error_type.as_str(), failure.message.as_str()),
        ("Scripted", "enough")
    );
    engine.shutdown().await.expect("stops");
}

async fn a_panic_blocks_the_run_and_nothing_else(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let panics = Script::of([Step::activity("echo", json!(1)), Step::Panic]);
    let panicked = client.start::<Scripted>(panics).await.expect("starts");
    let reason = blocked(&engine, &panicked).await.reason;
    let run = panicked.get().await.expect("there");
    assert!(!run.status.is_terminal(), "{:?}", run.status);
    assert!(reason.contains("as the script says"), "{reason}");
    engine.shutdown().await.expect("stops");
}

async fn a_run_is_blocked_whatever_its_panic_says(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let message = format!("\0{}", "é".repeat(64 * 1024));
    let script = Script::of([Step::PanicWith { message }]);
    let run = client.start::<Scripted>(script).await.expect("starts");
    let blocked = blocked(&engine, &run).await;
    assert!(blocked.reason.contains("ééé"), "{}", blocked.reason);
    engine.shutdown().await.expect("stops");
}

/// A build whose script interpreter knows no panic: the same type under another build id.
async fn another_build_goes_on_with_a_blocked_run(arena: &Arena) {
    let first = arena
        .engine(&Effects::new())
        .build_id("one")
        .start()
        .await
        .expect("starts");
    let client = first.client();
    let script = Script::of([
        Step::Signal {
            name: "go".to_owned(),
        },
        Step::Panic,
    ]);
    let run = client.start::<Scripted>(script).await.expect("starts");
    run.signal("go", &1).await.expect("taken");
    while run.get().await.expect("there").blocked.is_none() {
        first
            .run::<Scripted>(Script::default())
            .await
            .expect("completes");
    }
    first.shutdown().await.expect("stops");
    let second = arena
        .engine(&Effects::new())
        .build_id("two")
        .start()
        .await
        .expect("starts");
    let handle = second.client().run::<Scripted>(run.id());
    // The other build tries, panics in its turn, and it is that build which is named then.
    while handle
        .get()
        .await
        .expect("there")
        .blocked
        .is_none_or(|blocked| blocked.build != "two")
    {
        second
            .run::<Scripted>(Script::of([Step::Timer { millis: 20 }]))
            .await
            .expect("completes");
    }
    handle.terminate("seen enough").await.expect("ends");
    second.shutdown().await.expect("stops");
}

async fn many_runs_side_by_side_all_complete(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let mut runs = Vec::new();
    for n in 0..100 {
        let script = Script::of([
            Step::activity("echo", json!(n)),
            Step::Parallel {
                name: "echo".to_owned(),
                count: 3,
            },
            Step::activity("echo", json!(-n)),
        ]);
        runs.push((n, client.start::<Scripted>(script).await.expect("starts")));
    }
    for (n, run) in runs {
        let result = run.result().await.expect("completes");
        assert_eq!(result[0], json!(n));
        assert_eq!(result[4], json!(-n));
    }
    let filter = RunFilter {
        statuses: vec![WorkflowStatus::Completed],
        ..RunFilter::default()
    };
    assert_eq!(
        client
            .count(filter, Default::default())
            .await
            .expect("counts")
            .count,
        100
    );
    engine.shutdown().await.expect("stops");
}

async fn a_run_goes_on_as_new_with_an_empty_history(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let second = Script::of([Step::activity("echo", json!("second"))]);
    let first = Script::of([
        Step::activity("echo", json!("first")),
        Step::ContinueAsNew {
            script: Box::new(second),
        },
    ]);
    let run = engine
        .client()
        .start::<Scripted>(first)
        .await
        .expect("starts");
    assert_eq!(run.result().await.expect("completes"), json!(["second"]));
    let record = run.get().await.expect("there");
    assert_eq!(record.iteration, 1);
    assert!(record.history_start > 0);
    engine.shutdown().await.expect("stops");
}

async fn an_input_that_does_not_fit_fails_the_run(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let input = everruns_durable::core::Payload::from_value(&"not a script").expect("JSON");
    let run = engine
        .client()
        .start_named("scripted", input)
        .await
        .expect("starts");
    let error = run.result().await.expect_err("fails");
    assert_eq!(
        error.failure().expect("a failure").error_type,
        "InvalidInput"
    );
    engine.shutdown().await.expect("stops");
}
