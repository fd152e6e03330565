//! Parents and children that are async functions.

use everruns_durable::client::Client;
use everruns_durable::core::AttributeValue;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::WorkflowStatus;
use everruns_durable::prelude::*;
use uuid::Uuid;

use super::functions::Noted;
use super::{Arena, Effects, claims};

claims! { "families":
    a_cancelled_parent_asks_its_child_to_stop_and_hears_of_it,
    a_cancelled_child_fails_its_parents_call,
    an_abandoned_child_is_not_asked_to_stop,
    a_child_is_pinned_to_the_version_its_parent_names,
    a_run_that_names_no_version_gets_the_highest,
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .workflow::<child>()
        .workflow::<parent>()
        .workflow::<leaving>()
        .activity(Noted(effects.clone()))
}

/// Says its id, and waits; asked to stop, it says so.
#[workflow]
async fn child(ctx: WorkflowContext) -> WorkflowResult<String> {
    let waited = match ctx.activity::<Noted>("child began".to_owned()).await {
        Ok(_) => ctx.signal::<String>("end").await,
        Err(error) => Err(error),
    };
    if waited.is_err() {
        ctx.activity::<Noted>("child stopped".to_owned()).await?;
    }
    waited
}

/// Answers what its child came to.
#[workflow]
async fn parent(ctx: WorkflowContext) -> WorkflowResult<String> {
    let call = ctx.child::<child>(());
    ctx.set_attribute("child", call.run_id().to_string());
    match call.await {
        Err(error) if error.is_cancelled() => Err(error),
        Err(error) => Ok(format!(
            "child failed: {} {}",
            error.error_type,
            error.is("Cancelled")
        )),
        Ok(answer) => Ok(answer),
    }
}

#[workflow]
async fn leaving(ctx: WorkflowContext) -> WorkflowResult<String> {
    let call = ctx.child::<child>(()).abandon();
    ctx.set_attribute("child", call.run_id().to_string());
    call.await
}

async fn child_of(client: &Client, run_id: Uuid) -> Uuid {
    let attributes = client.attributes(run_id).await.expect("there");
    let id = attributes.get("child").expect("it was set");
    let AttributeValue::Text(id) = id else {
        panic!("{id:?}");
    };
    id.parse().expect("an id")
}

async fn a_cancelled_parent_asks_its_child_to_stop_and_hears_of_it(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<parent>(()).await.expect("starts");
    effects.reached("child began", 1).await;
    let child_id = child_of(&client, run.id()).await;
    run.cancel("enough").await.expect("sends");
    let ended = run.ended().await.expect("there");
    assert_eq!(ended.status, WorkflowStatus::Cancelled);
    let of_child = client.run::<child>(child_id).ended().await.expect("there");
    assert_eq!(of_child.status, WorkflowStatus::Cancelled);
    assert_eq!(effects.count("child stopped"), 1);
    engine.shutdown().await.expect("stops");
}

async fn a_cancelled_child_fails_its_parents_call(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<parent>(()).await.expect("starts");
    effects.reached("child began", 1).await;
    let child_id = child_of(&client, run.id()).await;
    client.cancel(child_id, "enough").await.expect("sends");
    let answer = run.result().await.expect("the parent goes on");
    assert_eq!(answer, "child failed: ChildWorkflowFailed true");
    engine.shutdown().await.expect("stops");
}

async fn an_abandoned_child_is_not_asked_to_stop(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<leaving>(()).await.expect("starts");
    effects.reached("child began", 1).await;
    let child_id = child_of(&client, run.id()).await;
    run.cancel("enough").await.expect("sends");
    let error = run.result().await.expect_err("cancelled");
    assert!(error.is_cancelled(), "{error}");
    let orphan = client.run::<child>(child_id);
    orphan.signal("end", "by itself").await.expect("sends");
    assert_eq!(orphan.result().await.expect("completes"), "by itself");
    assert_eq!(effects.count("child stopped"), 0);
    engine.shutdown().await.expect("stops");
}

#[workflow(name = "told", version = "1.9.0")]
async fn told_old(ctx: WorkflowContext) -> WorkflowResult<String> {
    Ok(ctx.info().version.clone())
}

#[workflow(name = "told", version = "1.10.0")]
async fn told_new(ctx: WorkflowContext) -> WorkflowResult<String> {
    Ok(ctx.info().version.clone())
}

#[workflow]
async fn telling(ctx: WorkflowContext) -> WorkflowResult<Vec<String>> {
    let by_type = ctx.child::<told_old>(()).await?;
    let by_name = ctx
        .child_named::<String>("told", ())
        .version("1.10.0")
        .await?;
    Ok(vec![by_type, by_name])
}

/// The parent's process hosts neither version.
async fn a_child_is_pinned_to_the_version_its_parent_names(arena: &Arena) {
    let effects = Effects::new();
    let elsewhere = arena.engine(&effects);
    let elsewhere = elsewhere.workflow::<told_old>().workflow::<told_new>();
    let elsewhere = elsewhere.start().await.expect("starts");
    let engine = arena.engine(&effects).workflow::<telling>();
    let engine = engine.start().await.expect("starts");
    let answer = engine.run::<telling>(()).await.expect("completes");
    assert_eq!(answer, ["1.9.0", "1.10.0"]);
    engine.shutdown().await.expect("stops");
    elsewhere.shutdown().await.expect("stops");
}

async fn a_run_that_names_no_version_gets_the_highest(arena: &Arena) {
    let engine = arena.engine(&Effects::new());
    let engine = engine.workflow::<told_new>().workflow::<told_old>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start_named("told", Payload::null());
    let run = run.await.expect("starts");
    let answer = run.result().await.expect("completes");
    assert_eq!(answer.to_value::<String>().expect("text"), "1.10.0");
    engine.shutdown().await.expect("stops");
}
