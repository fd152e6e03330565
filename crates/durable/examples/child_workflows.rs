//! Child workflows: their results and failures, stopping in both directions, and one that is let go.
//!
//! ```sh
//! cargo run --example child_workflows
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use tokio::sync::Notify;
use uuid::Uuid;

static WAITING: Notify = Notify::const_new();

#[activity]
async fn say(text: String) -> ActivityResult<()> {
    println!("{text}");
    Ok(())
}

#[activity]
async fn at_the_counter(parcel: String) -> ActivityResult<()> {
    println!("{parcel}: waits for its stamp");
    WAITING.notify_one();
    Ok(())
}

/// Ships a parcel once it has a stamp. A workflow like any other, with a run of its own.
#[workflow]
async fn ship(ctx: WorkflowContext, parcel: String) -> WorkflowResult<String> {
    if parcel.is_empty() {
        return Err(WorkflowError::new("NothingToShip", "an empty parcel"));
    }
    let stamped = async {
        ctx.activity::<at_the_counter>(parcel.clone()).await?;
        ctx.signal::<String>("stamp").await
    };
    let stamped = stamped.await;
    if let Err(error) = &stamped
        && error.is_cancelled()
    {
        ctx.activity::<say>(format!("{parcel}: sent back")).await?;
    }
    Ok(format!("{parcel} left with {}", stamped?))
}

/// Waits for its child; a child that fails, or is stopped, is an error here.
#[workflow]
async fn order(ctx: WorkflowContext, parcel: String) -> WorkflowResult<String> {
    let child = ctx.child::<ship>(parcel);
    ctx.set_attribute("shipment", child.run_id().to_string());
    match child.await {
        Err(error) if !ctx.is_cancelled() => Ok(format!("not shipped: {}", error.error_type)),
        other => other,
    }
}

/// Does not wait: the child outlives it.
#[workflow]
async fn drop_off(ctx: WorkflowContext, parcel: String) -> WorkflowResult<Uuid> {
    ctx.child::<ship>(parcel).detach()
}

/// The run that an order started: its id is an attribute of the order.
async fn shipment(client: &Client, order: Uuid) -> Result<RunHandle<ship>, Error> {
    WAITING.notified().await;
    let filter = RunFilter {
        parent: Some(order),
        ..RunFilter::default()
    };
    let children = client.list(filter, Page::default()).await?.runs;
    Ok(client.run::<ship>(children[0].id))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<ship>()
        .workflow::<order>()
        .workflow::<drop_off>()
        .activity(say)
        .activity(at_the_counter)
        .start()
        .await?;
    let client = engine.client();

    let run = client.start::<order>("a teapot".into()).await?;
    shipment(&client, run.id())
        .await?
        .signal("stamp", "a red stamp")
        .await?;
    println!("result: {}", run.result().await?);

    println!("failure: {}", engine.run::<order>(String::new()).await?);

    let run = client.start::<order>("a kettle".into()).await?;
    let child = shipment(&client, run.id()).await?;
    run.cancel("changed my mind").await?;
    println!(
        "parent stopped, so the child is {}",
        child.ended().await?.status
    );
    println!("and the parent is {}", run.ended().await?.status);

    let run = client.start::<order>("a lamp".into()).await?;
    shipment(&client, run.id()).await?.cancel("customs").await?;
    println!(
        "child stopped, and the parent answers: {}",
        run.result().await?
    );

    let child = engine.run::<drop_off>("a chair".into()).await?;
    WAITING.notified().await;
    println!("the parent has ended, the child has not");
    let child = client.run::<ship>(child);
    child.signal("stamp", "a blue stamp").await?;
    println!("abandoned: {}", child.result().await?);
    engine.shutdown().await
}
