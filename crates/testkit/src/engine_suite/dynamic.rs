//! Handlers that take any type, and questions to runs that are hosted elsewhere.

use everruns_durable::client::Client;
use everruns_durable::prelude::*;
use serde_json::{Value, json};

use super::{Arena, Effects, claims};

claims! { "dynamic":
    any_workflow_and_activity_are_taken_by_the_catch_all,
    a_type_of_its_own_is_preferred,
    what_another_process_started_is_found,
    a_query_from_elsewhere_is_answered_by_a_process_that_hosts_the_workflow,
    a_query_that_nobody_can_answer_is_an_error_at_once,
    names_of_the_engine_are_refused_as_updates,
}

#[workflow]
async fn any_workflow(ctx: WorkflowContext, input: Value) -> WorkflowResult<Value> {
    let name = ctx.info().workflow_type.clone();
    let done: Value = ctx.activity_named(format!("do-{name}"), &input).await?;
    Ok(json!({ "workflow": name, "done": done }))
}

#[activity]
async fn any_activity(ctx: ActivityContext, input: Value) -> ActivityResult<Value> {
    Ok(json!([ctx.activity_type(), input]))
}

#[workflow]
async fn known(_ctx: WorkflowContext, input: Value) -> WorkflowResult<Value> {
    Ok(input)
}

#[workflow]
async fn counter(ctx: WorkflowContext) -> WorkflowResult<u32> {
    let count = ctx.state(0);
    let seen = count.clone();
    ctx.on_query("count", move |()| seen.get());
    loop {
        if ctx.signal::<bool>("add").await? {
            return Ok(count.get());
        }
        count.update(|count| *count += 1);
    }
}

async fn run_named(client: &Client, name: &str, input: Value) -> Value {
    let input = Payload::from_value(&input).expect("JSON");
    let run = client.start_named(name, input).await.expect("starts");
    let result = run.result().await.expect("completes");
    result.to_value().expect("JSON")
}

async fn any_workflow_and_activity_are_taken_by_the_catch_all(arena: &Arena) {
    let engine = arena
        .engine(&Effects::new())
        .dynamic_workflow::<any_workflow>()
        .dynamic_activity(any_activity)
        .start()
        .await
        .expect("starts");
    let result = run_named(&engine.client(), "tenant-7", json!(1)).await;
    let done = json!(["do-tenant-7", 1]);
    assert_eq!(result, json!({ "workflow": "tenant-7", "done": done }));
    engine.shutdown().await.expect("stops");
}

async fn a_type_of_its_own_is_preferred(arena: &Arena) {
    let engine = arena
        .engine(&Effects::new())
        .workflow::<known>()
        .dynamic_workflow::<any_workflow>()
        .start()
        .await
        .expect("starts");
    assert_eq!(run_named(&engine.client(), "known", json!(7)).await, 7);
    engine.shutdown().await.expect("stops");
}

async fn what_another_process_started_is_found(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let input = Payload::from_value(&json!(2)).expect("JSON");
    let run = client
        .start_named("elsewhere", input)
        .await
        .expect("starts");
    let engine = arena
        .engine(&Effects::new())
        .dynamic_workflow::<any_workflow>()
        .start()
        .await
        .expect("starts");
    let worker = arena
        .engine(&Effects::new())
        .dynamic_activity(any_activity)
        .start()
        .await
        .expect("starts");
    let result: Value = run
        .result()
        .await
        .expect("completes")
        .to_value()
        .expect("JSON");
    assert_eq!(result["done"], json!(["do-elsewhere", 2]));
    engine.shutdown().await.expect("stops");
    worker.shutdown().await.expect("stops");
}

async fn a_query_from_elsewhere_is_answered_by_a_process_that_hosts_the_workflow(arena: &Arena) {
    let host = arena.engine(&Effects::new()).workflow::<counter>();
    let host = host.start().await.expect("starts");
    let run = host.client().start::<counter>(()).await.expect("starts");
    run.signal("add", &false).await.expect("sends");
    let elsewhere = Client::on(arena.store.clone());
    loop {
        let count = elsewhere.query::<u32>(run.id(), "count", &()).await;
        if count.expect("answers") == 1 {
            break;
        }
    }
    let error = elsewhere.query::<u32>(run.id(), "colour", &()).await;
    assert!(error.expect_err("none").is_query_not_found());
    run.signal("add", &true).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), 1);
    let history = host.client().history(run.id()).await.expect("there");
    let traces = history
        .events
        .iter()
        .filter(|event| event.event.event_type().starts_with("update."));
    assert_eq!(traces.count(), 0, "a query leaves no trace");
    host.shutdown().await.expect("stops");
}

async fn a_query_that_nobody_can_answer_is_an_error_at_once(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let run = client.start::<counter>(()).await.expect("starts");
    let error = client.query::<u32>(run.id(), "count", &()).await;
    let error = error.expect_err("nobody is there");
    assert!(error.is_no_worker_for_type(), "{error}");
}

async fn names_of_the_engine_are_refused_as_updates(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let run = client.start::<counter>(()).await.expect("starts");
    let sent = run.update("durable.query/count", &()).send().await;
    let error = sent.expect_err("refused");
    assert!(error.is_invalid(), "{error}");
}
