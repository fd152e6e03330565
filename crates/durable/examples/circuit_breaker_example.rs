//! A circuit breaker: after some failures a provider is left alone for a while; what waits for it loses no attempt.
//!
//! ```sh
//! cargo run --example circuit_breaker_example
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everruns_durable::prelude::*;
use serde_json::Value;

/// The breaker's name. Activities of several types may share one, and so do all processes on the same database.
const BREAKER: &str = "external:payments";

/// Pays for one order.
struct Payment {
    order: u32,
    paid_at_attempt: Option<u64>,
}

impl Workflow for Payment {
    const TYPE: &'static str = "guarded-payment";
    type Input = u32;
    type Output = u64;

    fn new(order: u32) -> Self {
        Self {
            order,
            paid_at_attempt: None,
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        vec![WorkflowAction::ScheduleActivity {
            activity_id: "charge".to_owned(),
            activity_type: "charge".to_owned(),
            input: Payload::from_value(&self.order).expect("a number is JSON"),
            options: ActivityOptions {
                retry_policy: RetryPolicy {
                    max_attempts: 10,
                    initial_interval: Duration::from_millis(200),
                    ..RetryPolicy::default()
                },
                // Three failures within a minute open it; after a second one call at a time is let through as a probe.
                circuit_breaker: Some(CircuitBreakerConfig {
                    key: Some(BREAKER.to_owned()),
                    failure_threshold: 3,
                    success_threshold: 1,
                    reset_timeout: Duration::from_secs(1),
                    ..CircuitBreakerConfig::default()
                }),
                ..ActivityOptions::default()
            },
        }]
    }

    fn on_activity_completed(&mut self, _id: &str, attempt: Value) -> Vec<WorkflowAction> {
        self.paid_at_attempt = attempt.as_u64();
        vec![]
    }

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
        self.paid_at_attempt.is_some()
    }

    fn result(&self) -> Option<Result<u64, WorkflowError>> {
        self.paid_at_attempt.map(Ok)
    }
}

/// A payment provider that is down until it is repaired.
#[derive(Default)]
struct Provider {
    works: AtomicBool,
    calls: AtomicU32,
}

struct Charge {
    provider: Arc<Provider>,
}

#[async_trait]
impl Activity for Charge {
    const TYPE: &'static str = "charge";
    type Input = u32;
    type Output = u32;

    async fn execute(&self, ctx: &ActivityContext, order: u32) -> ActivityResult<u32> {
        self.provider.calls.fetch_add(1, Ordering::SeqCst);
        if !self.provider.works.load(Ordering::SeqCst) {
            println!(
                "order {order}, attempt {}: the provider is down",
                ctx.attempt
            );
            return Err(ActivityError::new("Unavailable", "503"));
        }
        println!("order {order}, attempt {}: paid", ctx.attempt);
        Ok(ctx.attempt)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let provider = Arc::new(Provider::default());
    let engine = Engine::open(url)
        .workflow::<Payment>()
        .activity(Charge {
            provider: Arc::clone(&provider),
        })
        .start()
        .await?;
    let client = engine.client();

    println!("three orders are to be paid, and the provider is down");
    let mut runs = Vec::new();
    for order in 1..=3 {
        runs.push(client.start::<Payment>(order).await?);
    }

    // Breakers are kept in the database, for all processes and for whoever wants to look.
    loop {
        match engine.store().get_breaker(BREAKER).await? {
            Some(breaker) if breaker.state == CircuitState::Open => break,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    let calls = provider.calls.load(Ordering::SeqCst);
    println!("the breaker is open after {calls} failed calls: the orders wait, and nobody calls");

    provider.works.store(true, Ordering::SeqCst);
    println!("the provider is back; the next probe will find out");
    for (order, run) in (1..).zip(runs) {
        println!(
            "order {order} is complete: paid at attempt {}",
            run.result().await?
        );
    }

    engine.shutdown().await
}
