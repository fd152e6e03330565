//! Signals: waiting for one, giving up, a handler in the background, and a start that brings its signal along.
//!
//! ```sh
//! cargo run --example signals
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

static REMINDED: Notify = Notify::const_new();

#[derive(Debug, Serialize, Deserialize)]
struct Decision {
    by: String,
    approved: bool,
}

#[activity]
async fn remind(order: u32) -> ActivityResult<()> {
    println!("order {order}: nobody has decided yet, sending a reminder");
    REMINDED.notify_one();
    Ok(())
}

/// Waits a moment, reminds, and waits again. A signal that comes after the first wait is there for the second.
#[workflow]
async fn approval(ctx: WorkflowContext, order: u32) -> WorkflowResult<String> {
    let early = ctx.signal("decision").timeout("PT0.05S").await?;
    let decision: Decision = match early {
        Some(decision) => decision,
        None => {
            ctx.activity::<remind>(order).await?;
            ctx.signal("decision").await?
        }
    };
    let verb = if decision.approved {
        "approved"
    } else {
        "rejected"
    };
    Ok(format!("{verb} by {}", decision.by))
}

/// Collects what is added, in the background, until the customer checks out.
#[workflow]
async fn cart(ctx: WorkflowContext, customer: String) -> WorkflowResult<String> {
    let items = ctx.state(Vec::new());
    let added = items.clone();
    ctx.on_signal("add", move |item: String| {
        added.update(|items| items.push(item));
    });
    ctx.signal::<()>("check out").await?;
    Ok(format!("{customer} buys {}", items.get().join(" and ")))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = Engine::in_memory()
        .workflow::<approval>()
        .workflow::<cart>()
        .activity(remind)
        .start()
        .await?;
    let client = engine.client();

    let decision = |by: &str, approved| Decision {
        by: by.to_owned(),
        approved,
    };
    let start = client.start::<approval>(1);
    let run = start.signal("decision", &decision("Ann", true)).await?;
    println!(
        "order 1 is {}: the signal was there first",
        run.result().await?
    );

    let run = client.start::<approval>(2).await?;
    REMINDED.notified().await;
    run.signal("decision", &decision("Bob", false)).await?;
    println!("order 2 is {}", run.result().await?);

    // Whoever comes first starts the cart; all others find it. The key says which cart.
    let mut carts = Vec::new();
    for item in ["tea", "a pot", "two cups"] {
        let start = client.start::<cart>("Cleo".into());
        let run = start.idempotency_key("cart:cleo").signal("add", &item);
        carts.push(run.await?);
    }
    println!(
        "one cart: {}",
        carts.iter().all(|cart| cart.id() == carts[0].id())
    );
    carts[0].signal("check out", &()).await?;
    println!("{}", carts[0].result().await?);

    if let Err(error) = carts[0].signal("add", "cake").await {
        println!("too late, and said so: {}", error.is_run_finished());
    }
    engine.shutdown().await
}
