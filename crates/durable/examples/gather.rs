//! Many at once: branches run beside each other, answer in the order of the calls, and fail fast.
//!
//! ```sh
//! cargo run --example gather
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use tokio::sync::{Barrier, Notify};

/// An activity with something of its own: registered by value.
struct Ask {
    /// Nobody gets past it before all three are there: they do run at the same time.
    all_here: Barrier,
}

#[async_trait]
impl Activity for Ask {
    const TYPE: &'static str = "ask";
    type Input = String;
    type Output = u32;

    async fn execute(&self, _ctx: &ActivityContext, warehouse: String) -> ActivityResult<u32> {
        self.all_here.wait().await;
        Ok(warehouse.len() as u32)
    }
}

static PRINTING: Notify = Notify::const_new();

#[activity]
async fn print_label(ctx: ActivityContext) -> ActivityResult<()> {
    PRINTING.notify_one();
    ctx.cancelled().await;
    println!("the label is no longer wanted");
    Err(ActivityError::new("Stopped", "told to stop"))
}

#[activity]
async fn charge() -> ActivityResult<()> {
    PRINTING.notified().await;
    Err(ActivityError::new("CardDeclined", "no money").non_retryable())
}

#[workflow]
async fn stock(ctx: WorkflowContext, warehouses: Vec<String>) -> WorkflowResult<Vec<u32>> {
    let asked = warehouses.into_iter().map(|name| ctx.activity::<Ask>(name));
    try_join_all(asked).await
}

/// Both at once; when one fails, the other is given up. Branches may be of different types.
#[workflow]
async fn fulfil(ctx: WorkflowContext) -> WorkflowResult<()> {
    try_join!(ctx.activity::<print_label>(()), ctx.activity::<charge>(()))?;
    Ok(())
}

/// Calls are made first and awaited later, like any other future.
#[workflow]
async fn overlap(ctx: WorkflowContext) -> WorkflowResult<String> {
    let left = ctx.child::<stock>(["north", "west", "southeast"].map(Into::into).into());
    let pause = ctx.sleep("PT0.02S");
    let (left, pause) = join!(left, pause);
    pause?;
    Ok(format!("{:?} after a pause", left?))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let ask = Ask {
        all_here: Barrier::new(3),
    };
    let engine = Engine::open(url)
        .workflow::<stock>()
        .workflow::<fulfil>()
        .workflow::<overlap>()
        .activity(ask)
        .activity(print_label)
        .activity(charge)
        .start()
        .await?;

    let warehouses = ["north", "west", "southeast"].map(String::from).to_vec();
    let left = engine.run::<stock>(warehouses).await?;
    println!("three asked at once, answers in order: {left:?}");

    if let Err(error) = engine.run::<fulfil>(()).await {
        println!("failed fast: {error}");
    }
    println!(
        "a child beside a timer: {}",
        engine.run::<overlap>(()).await?
    );
    engine.shutdown().await
}
