//! Activities: retries, a heartbeat whose details the next attempt finds, and what each timeout does.
//!
//! ```sh
//! cargo run --example activities
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::prelude::*;

/// Imports a book page by page. Its first attempt gets stuck after page 3.
#[activity(heartbeat = "300ms", attempts = 3)]
async fn import(ctx: ActivityContext, pages: u32) -> ActivityResult<u32> {
    let done = ctx.heartbeat_details().unwrap_or(0);
    println!("import, attempt {}: begins after page {done}", ctx.attempt);
    for page in done + 1..=pages {
        ctx.heartbeat_with(&page)?;
        if page == 3 && ctx.attempt == 1 {
            println!("import, attempt 1: stuck at page 3");
            ctx.cancelled().await;
        }
    }
    Ok(pages)
}

/// A provider that is away for a moment, and refuses one card for good.
#[activity]
async fn charge(ctx: ActivityContext, card: String) -> ActivityResult<String> {
    if card == "expired" {
        return Err(ActivityError::new("CardDeclined", "the card has expired").non_retryable());
    }
    if ctx.attempt < 3 {
        println!("charge, attempt {}: the provider is away", ctx.attempt);
        return Err(ActivityError::new("Unavailable", "try again later"));
    }
    Ok(format!("receipt of attempt {}", ctx.attempt))
}

/// Takes for ever.
#[activity]
async fn hang(ctx: ActivityContext) -> ActivityResult<()> {
    println!("hang, attempt {}", ctx.attempt);
    ctx.cancelled().await;
    Err(ActivityError::new("Stopped", "told to stop"))
}

/// Tries again soon, as often as it is allowed to.
fn soon(max_attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts,
        initial_interval: Duration::from_millis(20),
        ..RetryPolicy::default()
    }
}

#[workflow]
async fn import_book(ctx: WorkflowContext, pages: u32) -> WorkflowResult<u32> {
    ctx.activity::<import>(pages).retry(soon(3)).await
}

#[workflow]
async fn pay(ctx: WorkflowContext, card: String) -> WorkflowResult<String> {
    ctx.activity::<charge>(card).retry(soon(5)).await
}

/// Runs into the timeout of this name, and answers what it saw.
#[workflow]
async fn run_into(ctx: WorkflowContext, timeout: String) -> WorkflowResult<String> {
    let short = Duration::from_millis(100);
    let outcome = match timeout.as_str() {
        // One attempt takes too long: tried again, here once.
        "start_to_close" => {
            let call = ctx.activity::<hang>(()).start_to_close(short);
            call.retry(soon(2)).await
        }
        // All attempts together take too long, however many are left.
        "schedule_to_close" => {
            let call = ctx.activity::<hang>(()).schedule_to_close(short);
            call.retry(soon(1000)).await
        }
        // No worker takes it.
        _ => {
            let call = ctx.activity_named("nobody_runs_this", ());
            call.schedule_to_start(short).await
        }
    };
    let error = outcome.expect_err("it cannot succeed").into_failure();
    // The call failed because the activity did; that is the cause.
    let cause = error.cause.map(|cause| cause.error_type);
    Ok(format!(
        "{}: {}",
        error.error_type,
        cause.unwrap_or_default()
    ))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<import_book>()
        .workflow::<pay>()
        .workflow::<run_into>()
        .activity(import)
        .activity(charge)
        .activity(hang)
        .start()
        .await?;

    let pages = engine.run::<import_book>(5).await?;
    println!("all {pages} pages are imported");

    println!("paid: {}", engine.run::<pay>("good".into()).await?);
    if let Err(error) = engine.run::<pay>("expired".into()).await {
        println!("not paid, and not tried again: {error}");
    }

    for timeout in ["start_to_close", "schedule_to_close", "schedule_to_start"] {
        let seen = engine.run::<run_into>(timeout.into()).await?;
        println!("{timeout}: the workflow sees {seen}");
    }

    // A timeout of the whole run ends it without asking the workflow.
    let start = engine.client().start::<import_book>(5);
    let run = start.execution_timeout(Duration::from_millis(50)).await?;
    if let Err(error) = run.result().await {
        println!("execution_timeout: {error}");
    }
    engine.shutdown().await
}
