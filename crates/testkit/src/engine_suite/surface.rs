//! The rest of what an async workflow can do.

use std::collections::BTreeMap;
use std::time::Duration;

use everruns_durable::core::{AttributeValue, WorkflowEvent};
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::functions::Noted;
use super::{Arena, Effects, claims};

claims! { "surface":
    a_sleep_written_as_text_fires,
    a_sleep_that_is_no_length_of_time_fails_the_run_and_says_how_to_write_one,
    a_signal_handler_is_given_early_and_late_signals,
    a_run_knows_who_it_is,
    what_ends_first_is_taken_first,
    of_branches_that_are_ready_together_the_first_wins,
    attributes_are_set_and_removed_from_inside,
    a_wait_that_timed_out_and_is_kept_eats_no_signal,
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .workflow::<napping>()
        .workflow::<listening>()
        .workflow::<who>()
        .workflow::<asking_who>()
        .workflow::<finishing>()
        .workflow::<tied>()
        .workflow::<marked>()
        .workflow::<keeping>()
        .activity(Noted(effects.clone()))
        .activity(Turn(effects.clone()))
}

#[workflow]
async fn napping(ctx: WorkflowContext, span: String) -> WorkflowResult<()> {
    ctx.sleep(span).await
}

async fn a_sleep_written_as_text_fires(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let client = engine.client();
    let run = client.start::<napping>("PT0.02S".to_owned()).await;
    let run = run.expect("starts");
    run.result().await.expect("completes");
    let history = client.history(run.id()).await.expect("there");
    let names: Vec<_> = history
        .events
        .iter()
        .map(|event| event.event.event_type())
        .collect();
    assert!(names.contains(&"timer.fired"), "{names:?}");
    let started = history.events.iter().find_map(|event| match &event.event {
        WorkflowEvent::TimerStarted { duration_ms, .. } => Some(*duration_ms),
        _ => None,
    });
    assert_eq!(started, Some(20));
    engine.shutdown().await.expect("stops");
}

async fn a_sleep_that_is_no_length_of_time_fails_the_run_and_says_how_to_write_one(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let error = engine.run::<napping>("soon".to_owned()).await;
    let error = error.expect_err("fails");
    assert!(error.to_string().contains("PT10M"), "{error}");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn listening(ctx: WorkflowContext) -> WorkflowResult<Vec<u32>> {
    let heard = ctx.state(Vec::new());
    let (of_handler, of_condition) = (heard.clone(), heard.clone());
    ctx.on_signal("n", move |n: u32| of_handler.update(|heard| heard.push(n)));
    ctx.activity::<Noted>("listening".to_owned()).await?;
    ctx.until(move || of_condition.with(Vec::len) == 4).await?;
    Ok(heard.get())
}

async fn a_signal_handler_is_given_early_and_late_signals(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<listening>(());
    let run = run.signal("n", &1_u32).signal("n", &2_u32).await;
    let run = run.expect("starts");
    effects.reached("listening", 1).await;
    for n in [3_u32, 4] {
        run.signal("n", &n).await.expect("sends");
    }
    assert_eq!(run.result().await.expect("completes"), [1, 2, 3, 4]);
    engine.shutdown().await.expect("stops");
}

#[workflow(version = "2.1.0")]
async fn who(ctx: WorkflowContext) -> WorkflowResult<Value> {
    let info = ctx.info();
    ctx.activity::<Noted>(format!("asked {}", info.attempt))
        .await?;
    if info.parent_run_id.is_none() {
        ctx.signal::<()>("tell").await?;
    }
    let memo: Value = info.memo.to_value().unwrap_or_default();
    Ok(json!({
        "run": info.run_id, "type": info.workflow_type, "version": info.version, "attempt": info.attempt,
        "iteration": info.iteration, "parent": info.parent_run_id, "id": info.workflow_id, "memo": memo,
    }))
}

#[workflow]
async fn asking_who(ctx: WorkflowContext) -> WorkflowResult<Value> {
    ctx.child::<who>(()).await
}

async fn a_run_knows_who_it_is(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let memo = json!({ "customer": 7 });
    let run = client.start::<who>(()).workflow_id("order-7").memo(&memo);
    let run = run.await.expect("starts");
    effects.reached("asked 1", 1).await;
    // Reset to its beginning, it is the same run and knows that it was tried before.
    client.reset_to(run.id(), 1).await.expect("goes back");
    effects.reached("asked 2", 1).await;
    run.signal("tell", &()).await.expect("sends");
    let expected = json!({
        "run": run.id(), "type": "who", "version": "2.1.0", "attempt": 2, "iteration": 0,
        "parent": null, "id": "order-7", "memo": memo,
    });
    assert_eq!(run.result().await.expect("completes"), expected);

    let parent = client.start::<asking_who>(()).await.expect("starts");
    let child = parent.result().await.expect("completes");
    assert_eq!(child["parent"], json!(parent.id()));
    assert_eq!(child["version"], "2.1.0");
    assert_eq!(child["attempt"], 1);
    engine.shutdown().await.expect("stops");
}

/// Ends when its predecessor has.
struct Turn(Effects);

#[async_trait]
impl Activity for Turn {
    const TYPE: &'static str = "turn";
    type Input = u32;
    type Output = u32;

    async fn execute(&self, _ctx: &ActivityContext, place: u32) -> ActivityResult<u32> {
        if place > 0 {
            self.0.reached(&format!("taken {}", place - 1), 1).await;
        }
        Ok(place)
    }
}

#[workflow]
async fn finishing(ctx: WorkflowContext) -> WorkflowResult<Vec<u32>> {
    let mut running: FuturesUnordered<_> = [2, 0, 1]
        .into_iter()
        .map(|place| ctx.activity::<Turn>(place))
        .collect();
    let mut order = Vec::new();
    while let Some(place) = running.next().await {
        let place = place?;
        order.push(place);
        ctx.activity::<Noted>(format!("taken {place}")).await?;
    }
    Ok(order)
}

async fn what_ends_first_is_taken_first(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let order = engine.run::<finishing>(()).await.expect("completes");
    assert_eq!(order, [0, 1, 2]);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn tied(ctx: WorkflowContext) -> WorkflowResult<Vec<String>> {
    ctx.activity::<Noted>("ready".to_owned()).await?;
    ctx.signal::<()>("go").await?;
    let mut winners = Vec::new();
    // Both have come by now, "b" first.
    for _ in 0..2 {
        winners.push(select! {
            biased;
            a = ctx.signal::<String>("a") => a?,
            b = ctx.signal::<String>("b") => b?,
        });
    }
    Ok(winners)
}

async fn of_branches_that_are_ready_together_the_first_wins(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<tied>(()).await.expect("starts");
    effects.reached("ready", 1).await;
    for name in ["b", "a"] {
        run.signal(name, name).await.expect("sends");
    }
    run.signal("go", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), ["a", "b"]);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn marked(ctx: WorkflowContext) -> WorkflowResult<()> {
    ctx.set_attribute("stage", "began");
    ctx.set_attribute("amount", 7_i64);
    ctx.activity::<Noted>("began".to_owned()).await?;
    ctx.signal::<()>("go").await?;
    ctx.remove_attribute("amount");
    ctx.upsert_attributes(BTreeMap::from([
        ("stage".to_owned(), Some("done".into())),
        ("customer".to_owned(), None),
        ("urgent".to_owned(), Some(true.into())),
    ]));
    Ok(())
}

async fn attributes_are_set_and_removed_from_inside(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<marked>(()).attribute("customer", "Ann");
    let run = run.await.expect("starts");
    effects.reached("began", 1).await;
    let expected: BTreeMap<String, AttributeValue> = BTreeMap::from([
        ("amount".to_owned(), 7_i64.into()),
        ("customer".to_owned(), "Ann".into()),
        ("stage".to_owned(), "began".into()),
    ]);
    let attributes = client.attributes(run.id()).await.expect("there");
    assert_eq!(attributes, expected);
    run.signal("go", &()).await.expect("sends");
    run.result().await.expect("completes");
    let expected: BTreeMap<String, AttributeValue> = BTreeMap::from([
        ("stage".to_owned(), "done".into()),
        ("urgent".to_owned(), true.into()),
    ]);
    let attributes = client.attributes(run.id()).await.expect("there");
    assert_eq!(attributes, expected);
    engine.shutdown().await.expect("stops");
}

/// Keeps a wait that has timed out while it waits again.
#[workflow]
async fn keeping(ctx: WorkflowContext) -> WorkflowResult<(Option<u32>, u32)> {
    let mut first = Box::pin(ctx.signal("n").timeout(Duration::from_millis(1)));
    let early = first.as_mut().await?;
    ctx.activity::<Noted>("timed out".to_owned()).await?;
    let late = ctx.signal("n").await?;
    drop(first);
    Ok((early, late))
}

async fn a_wait_that_timed_out_and_is_kept_eats_no_signal(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<keeping>(()).await.expect("starts");
    effects.reached("timed out", 1).await;
    run.signal("n", &7).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), (None, 7));
    engine.shutdown().await.expect("stops");
}
