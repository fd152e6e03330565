//! Recovering runs: retry, reset, histories as files.

use std::time::Duration;

use everruns_durable::client::History;
use everruns_durable::core::{ReplayMode, TraitProgram, WorkflowEvent, effective_history, replay};
use everruns_durable::persistence::model::{
    DeadLetterState, DlqFilter, Page, RunFilter, WorkflowStatus,
};
use everruns_durable::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "recovering":
    a_retry_tries_the_failed_step_again_and_no_other,
    steps_that_failed_together_are_tried_again_together,
    a_child_that_failed_is_started_anew,
    a_function_is_taken_back_to_before_its_failed_step,
    a_run_that_was_terminated_goes_on_with_its_signals,
    a_retry_of_what_has_not_failed_is_refused,
    a_reset_takes_a_running_run_back_and_refuses_late_results,
    signals_taken_since_come_again_after_a_reset,
    a_reset_that_could_not_go_on_is_refused,
    a_reset_does_not_keep_a_child_that_was_asked_to_stop,
    a_history_is_the_same_after_a_trip_through_a_file,
}

async fn start(engine: &Engine, script: Script) -> RunHandle<Scripted> {
    let start = engine.client().start::<Scripted>(script);
    start.await.expect("starts")
}

fn wait(name: &str) -> Step {
    Step::Signal {
        name: name.to_owned(),
    }
}

fn fail() -> Step {
    Step::Fail {
        message: "as the script says".to_owned(),
    }
}

/// Sequence number of the first event of that name.
async fn first(client: &Client, run_id: Uuid, event_type: &str) -> i64 {
    let history = client.history(run_id).await.expect("there");
    let mut events = history.events.iter();
    let found = events.find(|event| event.event.event_type() == event_type);
    found.expect("is in the history").sequence_num
}

async fn effective(client: &Client, run_id: Uuid) -> Vec<WorkflowEvent> {
    let history = client.history(run_id).await.expect("there");
    let effective = effective_history(history.log()).expect("is one");
    effective
        .events
        .into_iter()
        .map(|(_, event)| event)
        .collect()
}

async fn a_retry_tries_the_failed_step_again_and_no_other(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([
        Step::activity("echo", json!(1)),
        Step::tried("mended", json!(0), 2),
        Step::activity("echo", json!(2)),
    ]);
    let run = start(&engine, script).await;
    run.result().await.expect_err("fails");
    effects.open_gate();
    client.retry(run.id()).await.expect("goes back");
    let result = run.result().await.expect("completes");
    assert_eq!(result, json!([1, "mended", 2]));
    assert_eq!(effects.count("echo 1"), 1, "what was done stays done");
    let record = run.get().await.expect("there");
    assert_eq!((record.epoch, record.error), (1, None));
    let letters = client.list_dead_letters(DlqFilter::default(), Page::default());
    let letters = letters.await.expect("lists");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].state, DeadLetterState::Requeued);
    assert_eq!(letters[0].requeue_count, 1);
    assert!(letters[0].requeued_at.is_some());
    engine.shutdown().await.expect("stops");
}

async fn steps_that_failed_together_are_tried_again_together(arena: &Arena) {
    let effects = Effects::new();
    let gate = effects.clone();
    let engine = arena
        .engine(&effects)
        .activity_fn("fatal_until_mended", move |_ctx, n: usize| {
            let mended = gate.is_gate_open();
            async move {
                if mended {
                    return Ok(n);
                }
                Err(ActivityError::new("Broken", "not mended yet").non_retryable())
            }
        })
        .start()
        .await
        .expect("starts");
    let three = Step::Parallel {
        name: "fatal_until_mended".to_owned(),
        count: 3,
    };
    let script = Script {
        tolerates_failure: true,
        ..Script::of([Step::activity("fatal", json!(0)), three, fail()])
    };
    let run = start(&engine, script).await;
    run.result().await.expect_err("fails");
    effects.open_gate();
    engine.client().retry(run.id()).await.expect("goes back");
    run.result().await.expect_err("the script ends that way");
    let events = effective(&engine.client(), run.id()).await;
    let completed = events
        .iter()
        .filter(|event| matches!(event, WorkflowEvent::ActivityCompleted { .. }));
    assert_eq!(completed.count(), 3, "all three were tried again");
    let failed = events.iter().filter(|event| {
        matches!(event, WorkflowEvent::ActivityFailed { activity_id, .. } if activity_id == "s0-0")
    });
    assert_eq!(failed.count(), 1, "what failed before them stays as it is");
    engine.shutdown().await.expect("stops");
}

/// Works once the gate is open.
struct Mended(Effects);

#[async_trait]
impl Activity for Mended {
    const TYPE: &'static str = "mended_local";
    type Input = String;
    type Output = String;

    async fn execute(&self, _ctx: &ActivityContext, text: String) -> ActivityResult<String> {
        self.0.note(text.clone());
        if self.0.is_gate_open() || text == "before" {
            return Ok(text);
        }
        Err(ActivityError::new("Broken", "not mended yet").non_retryable())
    }
}

#[workflow]
async fn delivery(ctx: WorkflowContext, local: bool) -> WorkflowResult<String> {
    let number = ctx.side_effect(|| 7)?;
    let before = ctx.activity::<Mended>("before".to_owned()).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    let after = if local {
        ctx.local_activity::<Mended>("after".to_owned()).await?
    } else {
        ctx.activity::<Mended>("after".to_owned()).await?
    };
    Ok(format!("{number} {before} {after}"))
}

async fn a_function_is_taken_back_to_before_its_failed_step(arena: &Arena) {
    for local in [false, true] {
        let effects = Effects::new();
        let engine = arena
            .engine(&effects)
            .workflow::<delivery>()
            .activity(Mended(effects.clone()))
            .start()
            .await
            .expect("starts");
        let client = engine.client();
        let run = client.start::<delivery>(local).await.expect("starts");
        run.result().await.expect_err("fails");
        effects.open_gate();
        client.retry(run.id()).await.expect("goes back");
        let result = run.result().await.expect("completes");
        assert_eq!(result, "7 before after");
        assert_eq!((effects.count("before"), effects.count("after")), (1, 2));
        engine.shutdown().await.expect("stops");
    }
}

async fn a_child_that_failed_is_started_anew(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let child = Script::of([Step::tried("mended", json!(0), 1)]);
    let script = Script::of([
        Step::activity("echo", json!(1)),
        Step::Child { script: child },
        fail(),
    ]);
    let run = start(&engine, script).await;
    run.result().await.expect_err("fails");
    effects.open_gate();
    client.retry(run.id()).await.expect("goes back");
    run.result().await.expect_err("the script ends that way");
    let children = RunFilter {
        parent: Some(run.id()),
        ..RunFilter::default()
    };
    let completed = children.clone().status(WorkflowStatus::Completed);
    assert_eq!(
        client
            .count(completed, Default::default())
            .await
            .expect("counts")
            .count,
        1
    );
    assert_eq!(
        client
            .count(children, Default::default())
            .await
            .expect("counts")
            .count,
        2
    );
    assert_eq!(effects.count("echo 1"), 1);
    engine.shutdown().await.expect("stops");
}

async fn a_run_that_was_terminated_goes_on_with_its_signals(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let echo = Step::activity("echo", json!(0));
    let run = start(&engine, Script::of([echo, wait("a"), wait("b")])).await;
    effects.reached("echo 0", 1).await;
    run.signal("b", &"early").await.expect("taken");
    run.terminate("by mistake").await.expect("ends");
    client.retry(run.id()).await.expect("goes back");
    run.signal("a", &"after").await.expect("taken");
    let result = run.result().await.expect("completes");
    assert_eq!(result, json!([0, "after", "early"]));
    engine.shutdown().await.expect("stops");
}

async fn a_retry_of_what_has_not_failed_is_refused(arena: &Arena) {
    // Nobody hosts it yet, so that it ends before it begins.
    let nowhere = Client::on(arena.store.clone());
    let unborn = nowhere.start::<Scripted>(Script::default());
    let unborn = unborn.await.expect("starts");
    unborn.terminate("too early").await.expect("ends");
    let error = nowhere.retry(unborn.id()).await.expect_err("refused");
    assert!(error.is_conflict(), "{error}");
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let run = start(&engine, Script::of([wait("go")])).await;
    let error = client.retry(run.id()).await.expect_err("refused");
    assert!(error.is_conflict(), "{error}");
    run.signal("go", &1).await.expect("taken");
    run.result().await.expect("completes");
    let error = client.retry(run.id()).await.expect_err("refused");
    assert!(error.is_run_finished(), "{error}");
    let error = client.reset_to(run.id(), 1).await.expect_err("refused");
    assert!(error.is_run_finished(), "{error}");
    let error = client.retry(Uuid::from_u128(1)).await.expect_err("refused");
    assert!(error.is_not_found(), "{error}");
    engine.shutdown().await.expect("stops");
}

async fn a_reset_takes_a_running_run_back_and_refuses_late_results(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([
        Step::activity("echo", json!(1)),
        Step::activity("gated", json!(2)),
    ]);
    let run = start(&engine, script).await;
    effects.reached("gated began", 1).await;
    let scheduled = first(&client, run.id(), "activity.scheduled").await;
    client
        .reset_to(run.id(), scheduled)
        .await
        .expect("goes back");
    effects.reached("gated began", 2).await;
    effects.open_gate();
    assert_eq!(run.result().await.expect("completes"), json!([1, 2]));
    assert_eq!(effects.count("echo 1"), 2, "it is done again");
    let history = client.history(run.id()).await.expect("there");
    let ends = history.events.iter().filter(|event| {
        matches!(&event.event, WorkflowEvent::ActivityCompleted { activity_id, .. } if activity_id == "s1-0")
    });
    assert_eq!(ends.count(), 1, "the old epoch's result is refused");
    assert_eq!(history.epoch, 1);
    engine.shutdown().await.expect("stops");
}

async fn signals_taken_since_come_again_after_a_reset(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let script = Script::of([wait("a"), wait("b"), Step::tried("mended", json!(0), 1)]);
    let run = start(&engine, script).await;
    run.signal("a", &1).await.expect("taken");
    run.signal("b", &2).await.expect("taken");
    run.result().await.expect_err("fails");
    effects.open_gate();
    client.reset_to(run.id(), 1).await.expect("goes back");
    let result = run.result().await.expect("completes");
    assert_eq!(result, json!([1, 2, "mended"]), "nobody sent them again");
    engine.shutdown().await.expect("stops");
}

async fn a_reset_that_could_not_go_on_is_refused(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let child = Script::of([Step::activity("echo", json!(0))]);
    let script = Script::of([Step::Child { script: child }, fail()]);
    let run = start(&engine, script).await;
    run.result().await.expect_err("fails");
    let started = first(&client, run.id(), "child.started").await;
    let end = first(&client, run.id(), "workflow.failed").await;
    for sequence in [started, end, 0, end + 1] {
        let refused = client.reset_to(run.id(), sequence).await;
        let error = refused.expect_err("refused");
        assert!(error.is_invalid(), "{sequence}: {error}");
    }
    assert_eq!(run.get().await.expect("there").epoch, 0);
    let before = started - 1;
    client.reset_to(run.id(), before).await.expect("goes back");
    run.result().await.expect_err("the script ends that way");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn waits_for_ever(ctx: WorkflowContext) -> WorkflowResult<String> {
    ctx.signal("never").await
}

#[workflow]
async fn drops_its_child(ctx: WorkflowContext) -> WorkflowResult<String> {
    let dropped = select! {
        child = ctx.child::<waits_for_ever>(()) => child?,
        signal = ctx.signal::<String>("drop") => signal?,
    };
    let end: String = ctx.signal("end").await?;
    Ok(format!("{dropped} {end}"))
}

async fn a_reset_does_not_keep_a_child_that_was_asked_to_stop(arena: &Arena) {
    let engine = arena.engine(&Effects::new());
    let engine = engine
        .workflow::<drops_its_child>()
        .workflow::<waits_for_ever>();
    let engine = engine.start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<drops_its_child>(()).await.expect("starts");
    run.signal("drop", "dropped").await.expect("sends");
    let asked = loop {
        let history = client.history(run.id()).await.expect("there");
        let mut names = history.events.iter().map(|event| event.event.event_type());
        if names.any(|name| name == "child.cancel_requested") {
            break first(&client, run.id(), "child.cancel_requested").await;
        }
        tokio::task::yield_now().await;
    };
    let started = first(&client, run.id(), "child.started").await;
    let refused = client.reset_to(run.id(), asked - 1).await;
    let error = refused.expect_err("the child will end by the request that is forgotten");
    assert!(error.is_invalid(), "{error}");
    let back = client.reset_to(run.id(), started - 1).await;
    back.expect("starts another child");
    run.signal("end", "end").await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), "dropped end");
    engine.shutdown().await.expect("stops");
}

async fn a_history_is_the_same_after_a_trip_through_a_file(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.engine(&effects).start().await.expect("starts");
    let client = engine.client();
    let next = Script::of([
        Step::activity("echo", json!({ "big": 9_007_199_254_740_993_i64 })),
        Step::tried("mended", json!(0), 2),
    ]);
    let script = Script::of([Step::ContinueAsNew {
        script: Box::new(next),
    }]);
    let run = start(&engine, script).await;
    run.result().await.expect_err("fails");
    effects.open_gate();
    client.retry(run.id()).await.expect("goes back");
    run.result().await.expect("completes");
    let history = client.history(run.id()).await.expect("there");
    let read = History::from_json(&history.to_json()).expect("reads");
    assert_eq!(read, history);
    assert_eq!((read.iteration, read.epoch), (1, 1));
    let effective = effective_history(read.log()).expect("is one");
    let program = Box::new(TraitProgram::<Scripted>::new());
    let replayed = replay(
        read.identity(),
        program,
        effective.events,
        ReplayMode::Strict,
    );
    assert!(
        !replayed
            .expect("is the same program")
            .history()
            .is_running()
    );
    engine.shutdown().await.expect("stops");
}
