//! Timers: sleeps that outlive the process, by a duration or an ISO 8601 text.
//!
//! ```sh
//! cargo run --example timers
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::prelude::*;
use tokio::sync::Notify;

static ASKED_TWICE: Notify = Notify::const_new();

#[activity]
async fn remind(who: String, times: u32) -> ActivityResult<()> {
    println!("{who}, please pay (reminder {times})");
    if times == 2 {
        ASKED_TWICE.notify_one();
    }
    Ok(())
}

/// Reminds twice and gives up. In earnest this would be days: `P2D`, `P1DT6H`.
#[workflow]
async fn dun(ctx: WorkflowContext, who: String) -> WorkflowResult<String> {
    ctx.sleep(Duration::from_millis(50)).await?;
    ctx.activity::<remind>((who.clone(), 1)).await?;
    ctx.sleep("PT0.05S").await?;
    ctx.activity::<remind>((who.clone(), 2)).await?;
    ctx.sleep("PT0.5S").await?;
    Ok(format!("{who} never paid"))
}

/// A text from outside may be no length of time at all.
#[workflow]
async fn wait_for(ctx: WorkflowContext, span: String) -> WorkflowResult<()> {
    ctx.sleep(span).await
}

fn engine(builder: EngineBuilder) -> EngineBuilder {
    builder
        .workflow::<dun>()
        .workflow::<wait_for>()
        .activity(remind)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let first = engine(Engine::open(url)).start().await?;
    let store = Arc::clone(first.store());
    let run = first.client().start::<dun>("Ann".into()).await?.id();
    ASKED_TWICE.notified().await;
    first.shutdown().await?;
    println!("nothing runs while the last timer does");

    let second = engine(Engine::on(store)).start().await?;
    let run = second.client().run::<dun>(run);
    println!("another engine: {}", run.result().await?);

    if let Err(error) = second.run::<wait_for>("ten minutes".into()).await {
        println!("{error}");
    }
    second.shutdown().await
}
