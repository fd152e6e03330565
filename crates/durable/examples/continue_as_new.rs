//! Continue as new: a run without an end whose history stays short, and which loses no signal on the way.
//!
//! ```sh
//! cargo run --example continue_as_new
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};

/// What an iteration hands to the next.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Tally {
    count: u32,
    sum: u64,
}

#[activity]
async fn report(iteration: u32, count: u32, sum: u64) -> ActivityResult<()> {
    println!("iteration {iteration} hands on {count} readings, {sum} in all");
    Ok(())
}

/// Adds up readings, two in each iteration; ends with a reading of 0.
#[workflow]
async fn meter(ctx: WorkflowContext, mut tally: Tally) -> WorkflowResult<u64> {
    for _ in 0..2 {
        let reading: u64 = ctx.signal("reading").await?;
        if reading == 0 {
            return Ok(tally.sum);
        }
        tally.count += 1;
        tally.sum += reading;
    }
    let iteration = ctx.info().iteration;
    ctx.activity::<report>((iteration, tally.count, tally.sum))
        .await?;
    ctx.continue_as_new(tally)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<meter>()
        .activity(report)
        .start()
        .await?;
    let client = engine.client();

    // All of them wait before the run begins; each iteration reads two and leaves the rest.
    let mut start = client.start::<meter>(Tally::default());
    for reading in [3_u64, 1, 4, 1, 5, 9, 0] {
        start = start.signal("reading", &reading);
    }
    let run = start.await?;
    println!("the sum is {}", run.result().await?);

    let record = run.get().await?;
    let history = client.history(run.id()).await?;
    println!(
        "one run, iteration {}; its code saw {} of {} events",
        record.iteration,
        history.log().count(),
        history.events.len()
    );
    engine.shutdown().await
}
