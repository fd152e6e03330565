//! Ids of your own: the four reuse policies of a workflow id, and keys that make a start harmless to repeat.
//!
//! ```sh
//! cargo run --example workflow_ids
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;

/// Waits to be told how it ends.
#[workflow]
async fn order(ctx: WorkflowContext, item: String) -> WorkflowResult<String> {
    match ctx.signal::<bool>("end").await? {
        true => Ok(item),
        false => Err(WorkflowError::new("OutOfStock", "none left")),
    }
}

/// Starts an order under the id.
async fn start(client: &Client, policy: ReusePolicy) -> Result<RunHandle<order>, Error> {
    let start = client.start::<order>("tea".into());
    start.workflow_id("order-17").reuse_policy(policy).await
}

fn told<T>(outcome: &Result<T, Error>) -> &'static str {
    match outcome {
        Ok(_) => "started",
        Err(error) if error.is_conflict() => "refused",
        Err(_) => "an error",
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = Engine::in_memory().workflow::<order>().start().await?;
    let client = engine.client();

    let first = start(&client, ReusePolicy::RejectDuplicate).await?;
    let again = start(&client, ReusePolicy::RejectDuplicate).await;
    println!("reject duplicate, while one runs: {}", told(&again));
    let in_the_way = again.err().and_then(|error| error.run_id());
    println!("the error names it: {}", in_the_way == Some(first.id()));

    let again = start(&client, ReusePolicy::AllowDuplicateFailedOnly).await;
    println!("failed only, while one runs: {}", told(&again));
    first.signal("end", &false).await?;
    first.ended().await?;
    let second = start(&client, ReusePolicy::AllowDuplicateFailedOnly).await;
    println!("failed only, after it failed: {}", told(&second));

    let third = start(&client, ReusePolicy::TerminateIfRunning).await;
    let second = second?.ended().await?;
    println!("terminate if running: {}", told(&third));
    let error = second.error.map(|error| error.error_type);
    println!(
        "and the one before ended with {}",
        error.unwrap_or_default()
    );

    let fourth = start(&client, ReusePolicy::AllowDuplicate).await;
    println!("allow duplicate, the default: {}", told(&fourth));
    println!(
        "runs of order-17: {}",
        client.runs_of("order-17").await?.len()
    );

    // A key is another matter: the same start again is the same run, whatever became of it.
    let once = || {
        client
            .start::<order>("tea".into())
            .idempotency_key("webhook-4711")
    };
    let run = once().await?;
    println!(
        "the same key, the same run: {}",
        run.id() == once().await?.id()
    );
    let other = client.start::<order>("coffee".into());
    let other = other.idempotency_key("webhook-4711").await;
    println!("the same key for another start: {}", told(&other));
    engine.shutdown().await
}
