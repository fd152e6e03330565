//! Processes that share the work: what one leaves to another is done at once, not when somebody looks.
//!
//! None of these engines looks for work by itself, so a ring that is not made shows: the claim waits in vain.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::client::{Client, RunHandle};
use everruns_durable::core::{ActivityOptions, ExhaustedPolicy, RetryPolicy};
use everruns_durable::persistence::model::{DlqFilter, Page, RunFilter, TaskFilter, TaskStatus};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims, comes};
use crate::faults::{FaultRates, FaultyStore};

claims! { "apart":
    a_retry_that_another_process_fires_reaches_the_one_that_runs_it,
    a_run_s_time_is_up_without_a_look,
    the_time_of_the_next_iteration_is_up_without_a_look,
    a_claimed_task_s_heartbeat_is_missed_without_a_look,
    the_next_in_line_is_missed_in_time,
    a_dead_letter_put_back_by_a_lone_client_is_tried_again,
    a_reset_by_a_lone_client_is_carried_on,
    what_a_shutdown_gives_back_is_taken_over_at_once,
    a_result_whose_answer_was_lost_is_told,
    a_retry_whose_answer_was_lost_comes_in_time,
    a_child_ended_by_a_lone_client_tells_its_parent,
    a_termination_whose_answer_was_lost_is_done,
    a_decision_whose_answer_was_lost_is_done,
    a_reset_whose_answer_was_lost_is_done_once,
}

/// The engine's chores have looked once, so that what comes now comes by a ring.
async fn settled(engine: Engine) -> Engine {
    let nap = Script::of([Step::Timer { millis: 1 }]);
    let nap = engine.run::<Scripted>(nap);
    comes("a nap", nap).await.expect("completes");
    engine
}

async fn decider(arena: &Arena) -> Engine {
    settled(arena.blind_decider().start().await.expect("starts")).await
}

async fn doer(arena: &Arena, effects: &Effects) -> Engine {
    let doer = arena.blind_doer(effects);
    doer.start().await.expect("starts")
}

async fn both(arena: &Arena, effects: &Effects) -> Engine {
    let engine = arena.blind_engine(effects);
    settled(engine.start().await.expect("starts")).await
}

async fn start(client: &Client, script: Script) -> RunHandle<Scripted> {
    client.start::<Scripted>(script).await.expect("starts")
}

/// Between two looks: another run's whole life, so that no sleep is needed.
async fn a_while(engine: &Engine) {
    let other = engine.run::<Scripted>(Script::default());
    comes("another run", other).await.expect("completes");
}

fn waits() -> Script {
    Script::of([Step::Signal {
        name: "never".to_owned(),
    }])
}

/// Loses the answer to calls of one method until one was lost, then works.
fn losing(arena: &Arena, method: &'static str) -> Arc<FaultyStore> {
    let rates = FaultRates {
        failed_after: 100,
        ..FaultRates::NONE
    };
    Arc::new(FaultyStore::new(arena.store.clone(), 7, rates).only(method))
}

/// Lets the store work once an answer was lost.
async fn mended(store: &FaultyStore, method: &str) {
    let lost = || store.faults().get(method).map_or(0, |c| c.failed_after);
    while lost() == 0 {
        tokio::task::yield_now().await;
    }
    store.set_rates(FaultRates::NONE);
}

async fn a_retry_that_another_process_fires_reaches_the_one_that_runs_it(arena: &Arena) {
    let effects = Effects::new();
    let decider = decider(arena).await;
    // It fires nothing by itself.
    let rates = FaultRates {
        failed_before: 100,
        ..FaultRates::NONE
    };
    let deaf = FaultyStore::new(arena.store.clone(), 7, rates).only("fire_due");
    let doer = doer(&arena.on(Arc::new(deaf)), &effects).await;
    let client = decider.client();
    let run = start(&client, Script::of([Step::tried("flaky", json!(2), 2)])).await;
    let delayed = TaskFilter {
        run_id: Some(run.id()),
        status: Some(TaskStatus::Delayed),
        ..TaskFilter::default()
    };
    loop {
        let tasks = arena.store.list_tasks(delayed.clone(), Page::default());
        if !tasks.await.expect("lists").is_empty() {
            break;
        }
        a_while(&decider).await;
    }
    // Due after the retry: who fires this has fired that.
    let nap = decider.run::<Scripted>(Script::of([Step::Timer { millis: 50 }]));
    comes("a nap", nap).await.expect("completes");
    let result = comes("the retry", run.result()).await.expect("completes");
    assert_eq!(result, json!([2]));
    doer.shutdown().await.expect("stops");
    decider.shutdown().await.expect("stops");
}

async fn a_run_s_time_is_up_without_a_look(arena: &Arena) {
    let engine = decider(arena).await;
    for client in [engine.client(), Client::on(arena.store.clone())] {
        for whole in [false, true] {
            let start = client.start::<Scripted>(waits());
            let time = Duration::from_millis(20);
            let (start, expected) = if whole {
                (start.execution_timeout(time), "ExecutionTimeout")
            } else {
                (start.run_timeout(time), "RunTimeout")
            };
            let run = start.await.expect("starts");
            let ended = comes("its end", run.result()).await;
            let error = ended.expect_err("fails");
            assert_eq!(error.failure().expect("a failure").error_type, expected);
        }
    }
    engine.shutdown().await.expect("stops");
}

async fn the_time_of_the_next_iteration_is_up_without_a_look(arena: &Arena) {
    let effects = Effects::new();
    let engine = both(arena, &effects).await;
    let script = Script::of([
        Step::activity("gated", json!(1)),
        Step::ContinueAsNew {
            script: Box::new(waits()),
        },
    ]);
    let start = engine.client().start::<Scripted>(script);
    let run = start
        .run_timeout(Duration::from_secs(2))
        .await
        .expect("starts");
    effects.reached("gated began", 1).await;
    effects.open_gate();
    let ended = comes("its end", run.result()).await;
    let error = ended.expect_err("fails");
    assert_eq!(error.failure().expect("a failure").error_type, "RunTimeout");
    engine.shutdown().await.expect("stops");
}

async fn a_claimed_task_s_heartbeat_is_missed_without_a_look(arena: &Arena) {
    let effects = Effects::new();
    let decider = decider(arena).await;
    let doer = doer(arena, &effects).await;
    let mut script = Script::of([Step::Activity {
        name: "gated".to_owned(),
        input: json!(1),
        options: ActivityOptions {
            heartbeat_timeout: Some(Duration::from_millis(50)),
            retry_policy: RetryPolicy::never(),
            ..ActivityOptions::default()
        },
    }]);
    script.tolerates_failure = true;
    let run = decider.run::<Scripted>(script);
    let result = comes("the missed heartbeat", run).await.expect("completes");
    assert_eq!(result[0]["failed"], json!("HeartbeatTimeout"));
    effects.open_gate();
    doer.shutdown().await.expect("stops");
    decider.shutdown().await.expect("stops");
}

/// A line of two: `head` runs here, and nobody runs the second, which may wait for 50 ms only.
fn head_and_nobody(head: &str) -> Script {
    let second = Step::Activity {
        name: "nobody's".to_owned(),
        input: json!(0),
        options: ActivityOptions {
            schedule_to_start_timeout: Duration::from_millis(50),
            ..ActivityOptions::default()
        },
    };
    let mut script = Script::of([Step::Line2 {
        head: Box::new(Step::activity(head, json!(0))),
        behind: Box::new(second),
    }]);
    script.tolerates_failure = true;
    script
}

async fn the_next_in_line_is_missed_in_time(arena: &Arena) {
    let effects = Effects::new();
    // By its own commit, and by a result that comes in from elsewhere.
    let whole = both(arena, &effects).await;
    let run = whole.run::<Scripted>(head_and_nobody("echo"));
    let result = comes("the second's end", run).await.expect("completes");
    assert_eq!(result[1]["failed"], json!("ScheduleToStartTimeout"));
    whole.shutdown().await.expect("stops");
    let decider = decider(arena).await;
    let doer = doer(arena, &effects).await;
    let run = decider.run::<Scripted>(head_and_nobody("echo"));
    let result = comes("the second's end", run).await.expect("completes");
    assert_eq!(result[1]["failed"], json!("ScheduleToStartTimeout"));
    doer.shutdown().await.expect("stops");
    decider.shutdown().await.expect("stops");
}

/// Waits for its dead letter once its only attempt has failed.
fn parks() -> Script {
    Script::of([Step::Activity {
        name: "mended".to_owned(),
        input: json!(0),
        options: ActivityOptions {
            retry_policy: RetryPolicy::never(),
            on_exhausted: ExhaustedPolicy::Park,
            ..ActivityOptions::default()
        },
    }])
}

/// The id of the run's dead letter, as soon as there is one.
async fn letter(engine: &Engine, run: &RunHandle<Scripted>) -> uuid::Uuid {
    let filter = DlqFilter {
        run_id: Some(run.id()),
        ..DlqFilter::default()
    };
    let client = engine.client();
    loop {
        let letters = client.list_dead_letters(filter.clone(), Page::default());
        if let Some(letter) = letters.await.expect("lists").first() {
            return letter.id;
        }
        a_while(engine).await;
    }
}

async fn a_dead_letter_put_back_by_a_lone_client_is_tried_again(arena: &Arena) {
    let effects = Effects::new();
    let engine = both(arena, &effects).await;
    let run = start(&engine.client(), parks()).await;
    let id = letter(&engine, &run).await;
    effects.open_gate();
    let lone = Client::on(arena.store.clone());
    lone.requeue_dead_letter(run.id(), id)
        .await
        .expect("is put back");
    let result = comes("the second try", run.result()).await;
    assert_eq!(result.expect("completes"), json!(["mended"]));
    engine.shutdown().await.expect("stops");
}

async fn a_reset_by_a_lone_client_is_carried_on(arena: &Arena) {
    let effects = Effects::new();
    let engine = both(arena, &effects).await;
    let nap = Step::Timer { millis: 100 };
    let script = Script::of([nap, Step::tried("mended", json!(0), 1)]);
    let run = start(&engine.client(), script).await;
    comes("its failure", run.result()).await.expect_err("fails");
    effects.open_gate();
    let lone = Client::on(arena.store.clone());
    // To where only the timer was set: it begins anew, and nobody here has set it.
    lone.reset_to(run.id(), 2).await.expect("goes back");
    let result = comes("the rest of it", run.result()).await;
    assert_eq!(result.expect("completes"), json!(["slept", "mended"]));
    engine.shutdown().await.expect("stops");
}

async fn what_a_shutdown_gives_back_is_taken_over_at_once(arena: &Arena) {
    let effects = Effects::new();
    let decider = decider(arena).await;
    let leaving = arena
        .blind_doer(&effects)
        .configure(|settings| settings.shutdown_grace = Duration::ZERO);
    let leaving = leaving.start().await.expect("starts");
    let run = start(
        &decider.client(),
        Script::of([Step::activity("gated", json!(1))]),
    )
    .await;
    effects.reached("gated began", 1).await;
    let staying = doer(arena, &effects).await;
    // It has looked, and found nothing to do.
    let line = decider.run::<Scripted>(Script::of([Step::activity("echo", json!(2))]));
    comes("another run", line).await.expect("completes");
    leaving.shutdown().await.expect("stops");
    comes("the take-over", effects.reached("gated began", 2)).await;
    effects.open_gate();
    let result = comes("its end", run.result()).await.expect("completes");
    assert_eq!(result, json!([1]));
    staying.shutdown().await.expect("stops");
    decider.shutdown().await.expect("stops");
}

async fn a_result_whose_answer_was_lost_is_told(arena: &Arena) {
    let effects = Effects::new();
    let decider = decider(arena).await;
    let losing = losing(arena, "finish_tasks");
    let doer = doer(&arena.on(losing.clone()), &effects).await;
    // In line, so that the next one waits for the first one's result as well.
    let script = Script::of([Step::Line {
        name: "echo".to_owned(),
        count: 2,
    }]);
    let run = start(&decider.client(), script).await;
    comes("a result", mended(&losing, "finish_tasks")).await;
    let result = comes("its turn", run.result()).await.expect("completes");
    assert_eq!(result, json!([0, 1]));
    doer.shutdown().await.expect("stops");
    decider.shutdown().await.expect("stops");
}

async fn a_retry_whose_answer_was_lost_comes_in_time(arena: &Arena) {
    let effects = Effects::new();
    let decider = decider(arena).await;
    let losing = losing(arena, "finish_tasks");
    let doer = doer(&arena.on(losing.clone()), &effects).await;
    let run = start(
        &decider.client(),
        Script::of([Step::tried("flaky", json!(2), 2)]),
    )
    .await;
    comes("a result", mended(&losing, "finish_tasks")).await;
    let result = comes("its retry", run.result()).await.expect("completes");
    assert_eq!(result, json!([2]));
    doer.shutdown().await.expect("stops");
    decider.shutdown().await.expect("stops");
}

async fn a_child_ended_by_a_lone_client_tells_its_parent(arena: &Arena) {
    let engine = decider(arena).await;
    let client = engine.client();
    let run = start(&client, Script::of([Step::Child { script: waits() }])).await;
    let children = RunFilter {
        parent: Some(run.id()),
        ..RunFilter::default()
    };
    let child = loop {
        let runs = arena.store.list_runs(children.clone(), Page::default());
        // Once it has had a turn its start is long delivered, and nobody is about to look for more.
        if let Some(child) = runs.await.expect("lists").runs.first()
            && child.sequence > 0
        {
            break child.id;
        }
        a_while(&engine).await;
    };
    let lone = Client::on(arena.store.clone());
    lone.terminate(child, "no use").await.expect("ends");
    let result = comes("the parent's turn", run.result()).await;
    let note = json!([{ "child failed": "no use" }]);
    assert_eq!(result.expect("completes"), note);
    engine.shutdown().await.expect("stops");
}

async fn a_termination_whose_answer_was_lost_is_done(arena: &Arena) {
    let engine = decider(arena).await;
    let run = start(&engine.client(), waits()).await;
    let losing = losing(arena, "terminate_runs");
    let lone = Client::on(losing.clone());
    let (ended, ()) = tokio::join!(
        lone.terminate(run.id(), "enough"),
        mended(&losing, "terminate_runs")
    );
    ended.expect("is one's own success");
    let error = comes("its end", run.result()).await.expect_err("fails");
    assert_eq!(error.failure().expect("a failure").message, "enough");
    let late = lone.terminate(run.id(), "enough").await;
    assert!(late.expect_err("refused").is_run_finished());
    engine.shutdown().await.expect("stops");
}

async fn a_decision_whose_answer_was_lost_is_done(arena: &Arena) {
    let effects = Effects::new();
    let engine = both(arena, &effects).await;
    let run = start(&engine.client(), parks()).await;
    let id = letter(&engine, &run).await;
    let losing = losing(arena, "decide_dead_letter");
    let lone = Client::on(losing.clone());
    let (decided, ()) = tokio::join!(
        lone.complete_dead_letter(run.id(), id, &"by hand"),
        mended(&losing, "decide_dead_letter")
    );
    decided.expect("is one's own success");
    let result = comes("its turn", run.result()).await;
    assert_eq!(result.expect("completes"), json!(["by hand"]));
    let late = lone.complete_dead_letter(run.id(), id, &"again").await;
    assert!(late.expect_err("refused").is_conflict());
    engine.shutdown().await.expect("stops");
}

async fn a_reset_whose_answer_was_lost_is_done_once(arena: &Arena) {
    let effects = Effects::new();
    let engine = both(arena, &effects).await;
    let script = Script::of([
        Step::tried("mended", json!(0), 1),
        Step::activity("gated", json!(1)),
    ]);
    let run = start(&engine.client(), script).await;
    comes("its failure", run.result()).await.expect_err("fails");
    let id = letter(&engine, &run).await;
    effects.open_gate();
    let losing = losing(arena, "commit_turns");
    let lone = Client::on(losing.clone());
    let (reset, ()) = tokio::join!(
        lone.requeue_dead_letter(run.id(), id),
        mended(&losing, "commit_turns")
    );
    reset.expect("is one's own success");
    let result = comes("the rest of it", run.result()).await;
    assert_eq!(result.expect("completes"), json!(["mended", 1]));
    assert_eq!(
        run.get().await.expect("there").epoch,
        1,
        "it went back once"
    );
    engine.shutdown().await.expect("stops");
}
