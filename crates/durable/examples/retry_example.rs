//! Retries: a passing failure is tried again with growing delays, a final one is not.
//!
//! ```sh
//! cargo run --example retry_example
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::prelude::*;
use serde_json::Value;

/// Pays with a card, and is done.
struct Payment {
    card: String,
    receipt: Option<String>,
}

impl Workflow for Payment {
    const TYPE: &'static str = "payment";
    type Input = String;
    type Output = String;

    fn new(card: String) -> Self {
        Self {
            card,
            receipt: None,
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        vec![WorkflowAction::ScheduleActivity {
            activity_id: "charge".to_owned(),
            activity_type: "charge".to_owned(),
            input: Payload::from_value(&self.card).expect("a string is JSON"),
            options: ActivityOptions {
                // 100 ms after the first failure, 200 ms after the second, and so on; five attempts in all.
                retry_policy: RetryPolicy {
                    max_attempts: 5,
                    initial_interval: Duration::from_millis(100),
                    backoff_coefficient: 2.0,
                    ..RetryPolicy::default()
                },
                // One attempt may take so long; then it counts as failed.
                start_to_close_timeout: Duration::from_secs(5),
                ..ActivityOptions::default()
            },
        }]
    }

    fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        self.receipt = result.as_str().map(str::to_owned);
        vec![]
    }

    /// Called once, when no attempt is left: the attempts in between are not the workflow's concern.
    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let error = error.clone().into_failure().into();
        vec![WorkflowAction::FailWorkflow { error }]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }

    fn is_completed(&self) -> bool {
        self.receipt.is_some()
    }

    fn result(&self) -> Option<Result<String, WorkflowError>> {
        self.receipt.clone().map(Ok)
    }
}

/// A payment provider that is unreachable at first, and does not take expired cards.
async fn charge(ctx: ActivityContext, card: String) -> ActivityResult<String> {
    let (attempt, max) = (ctx.attempt, ctx.max_attempts);
    if card == "expired" {
        println!("attempt {attempt} of {max}: the card has expired");
        // Trying again cannot help, so it is not tried again.
        return Err(ActivityError::new("CardDeclined", "the card has expired").non_retryable());
    }
    if attempt < 3 {
        println!("attempt {attempt} of {max}: the provider cannot be reached");
        return Err(ActivityError::new("Unreachable", "connection refused"));
    }
    println!("attempt {attempt} of {max}: paid");
    Ok(format!("receipt {}", ctx.idempotency_key()))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<Payment>()
        .activity_fn("charge", charge)
        .start()
        .await?;

    println!("a payment whose provider fails twice:");
    let receipt = engine.run::<Payment>("valid".to_owned()).await?;
    println!("the payment is complete: {receipt}");

    println!("a payment that cannot succeed:");
    match engine.run::<Payment>("expired".to_owned()).await {
        Ok(receipt) => println!("the payment is complete: {receipt}"),
        Err(error) => match error.failure() {
            Some(failure) => println!("the payment failed: {failure}"),
            None => return Err(error),
        },
    }

    engine.shutdown().await
}
