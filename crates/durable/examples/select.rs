//! A race: the first branch wins, for ever; the others are really given up.
//!
//! ```sh
//! cargo run --example select
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// Who answers, and how long the window is.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Deal {
    bank_answers: bool,
    reviewer_answers: bool,
    window: String,
}

static CHARGING: Notify = Notify::const_new();

#[activity]
async fn charge(ctx: ActivityContext, deal: Deal) -> ActivityResult<String> {
    if deal.bank_answers {
        return Ok("charged".to_owned());
    }
    if !deal.reviewer_answers {
        CHARGING.notify_one();
    }
    ctx.cancelled().await;
    println!("  the bank is told to stop");
    Err(ActivityError::new("Stopped", "told to stop"))
}

#[activity]
async fn tidy_desk() -> ActivityResult<()> {
    println!("  the reviewer is told to stop, and tidies the desk");
    Ok(())
}

/// A reviewer: another workflow, which cleans up when it is given up.
#[workflow]
async fn review(ctx: WorkflowContext, answers: bool) -> WorkflowResult<String> {
    if answers {
        return Ok("reviewed".to_owned());
    }
    let decision = ctx.signal("decision").await;
    if decision.is_err() {
        ctx.activity::<tidy_desk>(()).await?;
    }
    decision
}

/// Of two branches that are ready at once, the upper one wins.
#[workflow]
async fn close(ctx: WorkflowContext, deal: Deal) -> WorkflowResult<String> {
    select! {
        receipt = ctx.activity::<charge>(deal.clone()) => receipt,
        verdict = ctx.child::<review>(deal.reviewer_answers) => verdict,
        reason = ctx.signal::<String>("call off") => Ok(format!("called off: {}", reason?)),
        slept = ctx.sleep(deal.window) => slept.map(|()| "the window has closed".to_owned()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<close>()
        .workflow::<review>()
        .activity(charge)
        .activity(tidy_desk)
        .start()
        .await?;

    let nobody = Deal {
        bank_answers: false,
        reviewer_answers: false,
        window: "PT15M".to_owned(),
    };
    let mut deal = nobody.clone();
    deal.bank_answers = true;
    println!("activity: {}", engine.run::<close>(deal).await?);

    let mut deal = nobody.clone();
    deal.reviewer_answers = true;
    println!("child: {}", engine.run::<close>(deal).await?);

    let run = engine.client().start::<close>(nobody.clone()).await?;
    CHARGING.notified().await;
    run.signal("call off", "too dear").await?;
    println!("signal: {}", run.result().await?);

    let mut deal = nobody;
    deal.window = "PT0.05S".to_owned();
    println!("timer: {}", engine.run::<close>(deal).await?);
    engine.shutdown().await
}
