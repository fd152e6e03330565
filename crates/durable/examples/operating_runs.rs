//! For operators: terminate, stop many at once, try failed steps again, take a run back to a step.
//!
//! ```sh
//! cargo run --example operating_runs
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::atomic::{AtomicBool, Ordering};

use everruns_durable::client::BatchOptions;
use everruns_durable::persistence::model::{CountLimit, WorkflowStatus};
use everruns_durable::prelude::*;

static PROVIDER_IS_UP: AtomicBool = AtomicBool::new(false);

#[activity]
async fn reserve(order: u32) -> ActivityResult<u32> {
    println!("  order {order}: reserved");
    Ok(order)
}

#[activity(attempts = 1)]
async fn charge(order: u32) -> ActivityResult<u32> {
    if !PROVIDER_IS_UP.load(Ordering::Relaxed) {
        return Err(ActivityError::new("Unavailable", "the provider is down"));
    }
    println!("  order {order}: charged");
    Ok(order)
}

#[workflow]
async fn order(ctx: WorkflowContext, number: u32) -> WorkflowResult<u32> {
    ctx.activity::<reserve>(number).await?;
    ctx.activity::<charge>(number).await
}

/// Waits for a parcel that never comes.
#[workflow]
async fn parcel(ctx: WorkflowContext, _number: u32) -> WorkflowResult<()> {
    ctx.signal("arrived").await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = Engine::in_memory()
        .workflow::<order>()
        .workflow::<parcel>()
        .activity(reserve)
        .activity(charge)
        .start()
        .await?;
    let client = engine.client();

    println!("a step fails for good:");
    let run = client.start::<order>(1).await?;
    println!("  the run is {}", run.ended().await?.status);

    println!("the provider is back, what failed is tried again:");
    PROVIDER_IS_UP.store(true, Ordering::Relaxed);
    client.retry(run.id()).await?;
    println!("  the run answers {}", run.result().await?);

    println!("another run is taken back to before its first step:");
    PROVIDER_IS_UP.store(false, Ordering::Relaxed);
    let run = client.start::<order>(2).await?;
    run.ended().await?;
    PROVIDER_IS_UP.store(true, Ordering::Relaxed);
    let history = client.history(run.id()).await?;
    let started = &history.events[0];
    println!("  back to {:?}", started.event.event_type());
    client.reset_to(run.id(), started.sequence_num).await?;
    println!("  the run answers {}", run.result().await?);

    let mut parcels = Vec::new();
    for number in 0..6 {
        let region = if number < 4 { "eu" } else { "us" };
        let start = client.start::<parcel>(number).attribute("region", region);
        parcels.push(start.await?);
    }

    parcels[0].terminate("lost in the post").await?;
    if let Err(error) = parcels[0].result().await {
        println!("terminated: {error}");
    }

    let eu = RunFilter::default()
        .workflow_type("parcel")
        .attribute("region", "eu");
    let drill = BatchOptions {
        dry_run: true,
        ..BatchOptions::default()
    };
    let would = client.batch_cancel(eu.clone(), drill).await?;
    println!("a drill: {} would be asked to stop", would.affected);
    let asked = client
        .batch_cancel(eu, BatchOptions::because("strike"))
        .await?;
    println!("asked to stop: {}", asked.affected);

    let all = RunFilter::default().workflow_type("parcel");
    for parcel in &parcels[..4] {
        parcel.ended().await?;
    }
    let ended = client
        .batch_terminate(all.clone(), BatchOptions::because("closing"))
        .await?;
    println!("ended at once: {}", ended.affected);
    for status in [WorkflowStatus::Cancelled, WorkflowStatus::Failed] {
        let count = client
            .count(all.clone().status(status), CountLimit::Capped)
            .await?
            .count;
        println!("parcels {status}: {count}");
    }
    engine.shutdown().await
}
