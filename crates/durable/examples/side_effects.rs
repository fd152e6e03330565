//! Side effects and run info: what a workflow may not make up by itself, and what it knows about its run.
//!
//! ```sh
//! cargo run --example side_effects
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};

/// What was drawn. All of it is the same whenever the code runs again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Draw {
    receipt: uuid::Uuid,
    winner: usize,
    luck: f64,
    host: String,
}

#[activity]
async fn publish(draw: Draw) -> ActivityResult<Draw> {
    Ok(draw)
}

#[activity]
async fn say(text: String) -> ActivityResult<()> {
    println!("{text}");
    Ok(())
}

#[workflow(version = "1.0.0")]
async fn raffle(ctx: WorkflowContext, people: Vec<String>) -> WorkflowResult<String> {
    let info = ctx.info().clone();
    let told = format!(
        "{} {}, attempt {}, iteration {}, started by {}, memo {:?}",
        info.workflow_type,
        info.version,
        info.attempt,
        info.iteration,
        info.parent_run_id.map_or("a client", |_| "a parent"),
        info.memo.to_value::<Option<String>>()?,
    );
    ctx.activity::<say>(told).await?;

    let began = ctx.now();
    let draw = Draw {
        receipt: ctx.uuid(),
        winner: ctx.random_u64() as usize % people.len(),
        luck: ctx.random(),
        // Anything else that would differ the next time: computed once, recorded.
        host: ctx.side_effect(|| {
            println!("the side effect runs");
            format!("process {}", std::process::id())
        })?,
    };

    // This engine forgets the workflow at every await and runs it again from its first line.
    let published = ctx.activity::<publish>(draw.clone()).await?;
    ctx.sleep("PT0.02S").await?;
    let same = published == draw;
    let later = ctx.now() > began;
    let winner = &people[draw.winner];
    Ok(format!(
        "{winner} won; same draw: {same}; time has passed: {later}"
    ))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<raffle>()
        .activity(publish)
        .activity(say)
        .always_replay(true)
        .start()
        .await?;
    let start = engine.client().start::<raffle>(vec!["Ann".into()]);
    let run = start.memo(&"ticket OPS-42").await?;
    println!("{}", run.result().await?);
    engine.shutdown().await
}
