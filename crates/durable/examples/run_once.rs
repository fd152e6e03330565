//! Doing things once: a key that every attempt shares, and a result that is remembered.
//!
//! ```sh
//! cargo run --example run_once
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::prelude::*;

/// Charges a card and mails the receipt. The mail fails the first time, so the whole activity runs again.
#[activity]
async fn charge_and_mail(ctx: ActivityContext, cents: u64) -> ActivityResult<String> {
    let info = ctx.info();
    println!("attempt {} of {}", info.attempt, info.activity_type);

    // Give this key to the provider: it then knows a repeated call from a new one.
    let key = info.idempotency_key;
    let (receipt, under): (String, String) = ctx
        .run_once(format!("{key}:charge"), || async {
            println!("  charging {cents} cents");
            Ok((format!("receipt for {cents} cents"), key.clone()))
        })
        .await?;
    println!("  charged under the same key: {}", under == key);

    if ctx.attempt == 1 {
        println!("  the mail server is away");
        return Err(ActivityError::new("Unavailable", "no mail server"));
    }
    println!("  {receipt} mailed");
    Ok(receipt)
}

#[workflow]
async fn pay(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
    let retry = RetryPolicy {
        initial_interval: Duration::from_millis(20),
        ..RetryPolicy::default()
    };
    ctx.activity::<charge_and_mail>(cents).retry(retry).await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<pay>()
        .activity(charge_and_mail)
        .start()
        .await?;
    println!("done: {}", engine.run::<pay>(499).await?);
    engine.shutdown().await
}
