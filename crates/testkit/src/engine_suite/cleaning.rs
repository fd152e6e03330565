//! Cleaning up: what code does after its run was asked to stop, and what a saga undoes.

use std::time::Duration;

use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::WorkflowStatus;
use everruns_durable::prelude::*;
use everruns_durable::runtime::Runtime;

use super::functions::{Gate, Noted};
use super::{Arena, Effects, claims};

claims! { "cleaning":
    cleaning_up_may_wait_for_a_signal_a_condition_and_time,
    a_cancelled_run_undoes_its_saga_in_reverse_order,
    a_saga_goes_on_undoing_after_a_crash,
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .workflow::<careful>()
        .workflow::<trip>()
        .activity(Noted(effects.clone()))
        .activity(Gate(effects.clone()))
        .activity(Waits(effects.clone()))
}

/// Notes that it began, and ends when the gate is open.
struct Waits(Effects);

#[async_trait]
impl Activity for Waits {
    const TYPE: &'static str = "waits";
    type Input = String;
    type Output = String;

    async fn execute(&self, _ctx: &ActivityContext, name: String) -> ActivityResult<String> {
        self.0.note(format!("{name} began"));
        self.0.pass_gate().await;
        self.0.note(name.clone());
        Ok(name)
    }
}

#[workflow]
async fn careful(ctx: WorkflowContext) -> WorkflowResult<()> {
    let confirmed = ctx.state(0);
    let (of_handler, of_condition) = (confirmed.clone(), confirmed);
    ctx.on_signal("confirm", move |n: u32| of_handler.set(n));
    let error = match ctx.activity::<Gate>(()).await {
        Err(error) if error.is_cancelled() => error,
        other => return other,
    };
    let by: String = ctx.signal("by").await?;
    ctx.until(move || of_condition.get() == 2).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    ctx.activity::<Noted>(format!("cleaned up by {by}")).await?;
    Err(error)
}

async fn cleaning_up_may_wait_for_a_signal_a_condition_and_time(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<careful>(()).await.expect("starts");
    effects.reached("gate began", 1).await;
    run.cancel("enough").await.expect("sends");
    effects.reached("gate stopped", 1).await;
    run.signal("by", "Ann").await.expect("it still runs");
    for n in [1, 2] {
        run.signal("confirm", &n).await.expect("it still runs");
    }
    let error = run.result().await.expect_err("cancelled");
    assert!(error.is_cancelled(), "{error}");
    assert!(error.to_string().contains("enough"), "{error}");
    assert_eq!(effects.count("cleaned up by Ann"), 1);
    engine.shutdown().await.expect("stops");
}

/// Books a flight and a hotel, waits, and undoes both; undoing the hotel waits for the gate.
#[workflow]
async fn trip(ctx: WorkflowContext) -> WorkflowResult<()> {
    let saga = ctx.saga();
    saga.run(async {
        ctx.activity::<Noted>("flight".to_owned()).await?;
        saga.compensate_with::<Noted>("undo flight".to_owned());
        ctx.activity::<Noted>("hotel".to_owned()).await?;
        saga.compensate_with::<Waits>("undo hotel".to_owned());
        ctx.activity::<Noted>("car".to_owned()).await?;
        saga.compensate_with::<Noted>("undo car".to_owned());
        ctx.signal::<()>("paid").await
    })
    .await
}

const WHOLE: [&str; 7] = [
    "flight",
    "hotel",
    "car",
    "undo car",
    "undo hotel began",
    "undo hotel",
    "undo flight",
];

async fn a_cancelled_run_undoes_its_saga_in_reverse_order(arena: &Arena) {
    let effects = Effects::new();
    effects.open_gate();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<trip>(()).await.expect("starts");
    effects.reached("car", 1).await;
    run.cancel("no time").await.expect("sends");
    let ended = run.ended().await.expect("there");
    assert_eq!(ended.status, WorkflowStatus::Cancelled);
    let done = effects.all();
    // The request may come before the car is on record: then there is no car to undo.
    let whole: Vec<_> = WHOLE.to_vec();
    let without_car: Vec<_> = whole.iter().filter(|step| **step != "undo car").collect();
    assert!(
        done == whole || done.iter().collect::<Vec<_>>() == without_car,
        "{done:?}"
    );
    engine.shutdown().await.expect("stops");
}

async fn a_saga_goes_on_undoing_after_a_crash(arena: &Arena) {
    let effects = Effects::new();
    let runtime = Runtime::real();
    let first = engine(arena, &effects).runtime(runtime.clone());
    let first = first.start().await.expect("starts");
    let run = first.client().start::<trip>(()).await.expect("starts");
    effects.reached("car", 1).await;
    run.cancel("no time").await.expect("sends");
    effects.reached("undo hotel began", 1).await;
    runtime.kill();
    let second = engine(arena, &effects).start().await.expect("starts");
    // It was under way when the process died, so it is run again; what was undone before is not.
    effects.reached("undo hotel began", 2).await;
    effects.open_gate();
    let run = second.client().run::<trip>(run.id());
    let ended = run.ended().await.expect("there");
    assert_eq!(ended.status, WorkflowStatus::Cancelled);
    let done = effects.all();
    assert_eq!(done.last().map(String::as_str), Some("undo flight"));
    assert_eq!(effects.count("undo flight"), 1);
    assert!(effects.count("undo car") <= 1);
    for step in ["flight", "hotel", "car"] {
        assert_eq!(effects.count(step), 1, "{step}");
    }
    drop(first);
    second.shutdown().await.expect("stops");
}
