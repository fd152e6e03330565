//! A first workflow: an order is reserved, charged and shipped, one step after the other.
//!
//! ```sh
//! cargo run --example simple_workflow
//! DATABASE_URL=sqlite:orders.db cargo run --example simple_workflow
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is ordered.
#[derive(Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

/// The workflow: it decides what comes next, and does nothing itself.
struct OrderWorkflow {
    order: Order,
    parcel: Option<String>,
}

impl OrderWorkflow {
    /// Asks for an activity; its type serves as its id, since each is used once.
    fn step(&self, activity: &str) -> Vec<WorkflowAction> {
        let input = Payload::from_value(&self.order).expect("an order is JSON");
        vec![WorkflowAction::schedule_activity(activity, activity, input)]
    }
}

impl Workflow for OrderWorkflow {
    const TYPE: &'static str = "order";
    type Input = Order;
    type Output = String;

    fn new(order: Order) -> Self {
        Self {
            order,
            parcel: None,
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        self.step("reserve")
    }

    fn on_activity_completed(&mut self, activity_id: &str, result: Value) -> Vec<WorkflowAction> {
        match activity_id {
            "reserve" => self.step("charge"),
            "charge" => self.step("ship"),
            _ => {
                self.parcel = result.as_str().map(str::to_owned);
                vec![]
            }
        }
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
        self.parcel.is_some()
    }

    fn result(&self) -> Option<Result<String, WorkflowError>> {
        self.parcel.clone().map(Ok)
    }
}

/// An activity as a type of its own: what it needs (a database, an HTTP client) are its fields.
struct Reserve;

#[async_trait]
impl Activity for Reserve {
    const TYPE: &'static str = "reserve";
    type Input = Order;
    type Output = ();

    async fn execute(&self, _ctx: &ActivityContext, order: Order) -> ActivityResult<()> {
        println!("reserve: one {} is set aside", order.item);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<OrderWorkflow>()
        .activity(Reserve)
        // An activity can also be an async closure.
        .activity_fn("charge", |ctx: ActivityContext, order: Order| async move {
            // Every attempt has the same key: a payment provider can tell a repetition from a second payment.
            let _key = ctx.idempotency_key();
            println!("charge: {} cents are paid", order.cents);
            Ok(())
        })
        .activity_fn("ship", |_ctx, order: Order| async move {
            println!("ship: the {} is on its way", order.item);
            Ok("parcel 1".to_owned())
        })
        .start()
        .await?;

    let order = Order {
        item: "teapot".to_owned(),
        cents: 2_900,
    };
    let run = engine.client().start::<OrderWorkflow>(order).await?;
    println!("the order is started");
    println!("the order is complete: {}", run.result().await?);

    engine.shutdown().await
}
