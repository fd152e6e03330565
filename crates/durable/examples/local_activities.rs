//! Local activities: short work without a queue, recorded all the same.
//!
//! ```sh
//! cargo run --example local_activities
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::prelude::*;

#[activity]
async fn fetch(order: u32) -> ActivityResult<String> {
    println!("fetch order {order}, on some worker");
    Ok(format!(" Order {order}: TEA "))
}

#[activity]
async fn normalise(raw: String) -> ActivityResult<String> {
    println!("normalise {raw:?}, in the workflow's own process");
    Ok(raw.trim().to_lowercase())
}

/// Works at the third try.
#[activity]
async fn look_up(ctx: ActivityContext, key: String) -> ActivityResult<usize> {
    println!("look up {key:?}, attempt {}", ctx.attempt);
    match ctx.attempt {
        3 => Ok(key.len()),
        _ => Err(ActivityError::new("Busy", "the cache is busy")),
    }
}

#[activity]
async fn hang() -> ActivityResult<()> {
    std::future::pending().await
}

#[workflow]
async fn enrich(ctx: WorkflowContext, order: u32) -> WorkflowResult<String> {
    let raw = ctx.activity::<fetch>(order).await?;
    let clean = ctx.local_activity::<normalise>(raw).await?;

    // It is tried once unless you say so, and has 10 s unless you say so.
    let retry = RetryPolicy {
        max_attempts: 3,
        ..RetryPolicy::default()
    };
    let size = ctx
        .local_activity::<look_up>(clean.clone())
        .retry(retry)
        .await?;

    let call = ctx.local_activity::<hang>(());
    let error = call.start_to_close(Duration::from_millis(20)).await;
    let error = error.expect_err("it takes for ever");
    let late = error.is("StartToCloseTimeout");
    Ok(format!("{clean}, size {size}; out of time: {late}"))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<enrich>()
        .activity(fetch)
        .activity(normalise)
        .activity(look_up)
        .activity(hang)
        .start()
        .await?;
    let run = engine.client().start::<enrich>(7).await?;
    println!("{}", run.result().await?);

    let history = engine.client().history(run.id()).await?;
    let types = history.events.iter().map(|event| event.event.event_type());
    println!("recorded: {}", types.collect::<Vec<_>>().join(", "));
    engine.shutdown().await
}
