//! Listeners: told what becomes of runs and activities, after it is committed.
//!
//! ```sh
//! cargo run --example listeners
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everruns_durable::observability::Lifecycle;
use everruns_durable::prelude::*;

#[activity]
async fn charge(ctx: ActivityContext, cents: u64) -> ActivityResult<u64> {
    match (cents, ctx.attempt) {
        (0, _) => Err(ActivityError::new("NothingToPay", "0 cents").non_retryable()),
        (_, 1) => Err(ActivityError::new("Unavailable", "try again")),
        _ => Ok(cents),
    }
}

#[workflow]
async fn pay(ctx: WorkflowContext, cents: u64) -> WorkflowResult<u64> {
    let retry = RetryPolicy {
        initial_interval: Duration::from_millis(20),
        ..RetryPolicy::default()
    };
    ctx.activity::<charge>(cents).retry(retry).await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let failures = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&failures);
    let engine = Engine::in_memory()
        .workflow::<pay>()
        .activity(charge)
        .listener(|event| {
            let more = match &event.what {
                Lifecycle::RunCompleted { result } => {
                    format!("with {}", result.to_value::<u64>().expect("a number"))
                }
                Lifecycle::RunFailed { error } => format!("with {error}"),
                Lifecycle::ActivityFailed { attempt, error, .. } => {
                    format!("attempt {attempt}, {error}")
                }
                Lifecycle::ActivityCompleted { attempt, .. } => format!("attempt {attempt}"),
                _ => String::new(),
            };
            println!("{} {} {more}", event.workflow_type, event.name());
        })
        .listener(move |event| {
            if let Lifecycle::RunFailed { .. } = event.what {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })
        .start()
        .await?;

    engine.run::<pay>(499).await?;
    let failed = engine.run::<pay>(0).await;
    failed.expect_err("there is nothing to pay");
    // Shutting down waits until everything is told.
    engine.shutdown().await?;
    println!("failures counted: {}", failures.load(Ordering::Relaxed));
    Ok(())
}
