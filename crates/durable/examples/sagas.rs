//! Sagas: steps with undo steps, which run in reverse order when a later step fails or the run is asked to stop.
//!
//! ```sh
//! cargo run --example sagas
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use tokio::sync::Notify;

static ASKED: Notify = Notify::const_new();

#[activity]
async fn book(what: String) -> ActivityResult<String> {
    if what == "car" {
        return Err(ActivityError::new("SoldOut", "no cars left").non_retryable());
    }
    println!("  {what} booked");
    Ok(format!("{what}-1"))
}

#[activity]
async fn cancel(booking: String) -> ActivityResult<()> {
    println!("  {booking} cancelled");
    Ok(())
}

#[activity]
async fn say(text: String) -> ActivityResult<()> {
    println!("  {text}");
    Ok(())
}

#[activity]
async fn ask_customer(question: String) -> ActivityResult<()> {
    println!("  {question}");
    ASKED.notify_one();
    Ok(())
}

#[workflow]
async fn trip(ctx: WorkflowContext, wishes: Vec<String>) -> WorkflowResult<Vec<String>> {
    let saga = ctx.saga();
    saga.run(async {
        let mut bookings = Vec::new();
        for wish in wishes {
            let booking = ctx.activity::<book>(wish).await?;
            saga.compensate_with::<cancel>(booking.clone());
            bookings.push(booking);
        }
        // Undoing may be more than one activity.
        saga.compensate(|ctx| async move {
            ctx.sleep("PT0.01S").await?;
            ctx.activity::<say>("what a pity".into()).await
        });
        ctx.activity::<ask_customer>("all right?".into()).await?;
        ctx.signal::<()>("confirmed").await?;
        Ok(bookings)
    })
    .await
}

fn wishes<const N: usize>(wishes: [&str; N]) -> Vec<String> {
    wishes.map(String::from).to_vec()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<trip>()
        .activity(book)
        .activity(cancel)
        .activity(say)
        .activity(ask_customer)
        .start()
        .await?;
    let client = engine.client();

    println!("everything works:");
    let run = client.start::<trip>(wishes(["flight", "hotel"])).await?;
    ASKED.notified().await;
    run.signal("confirmed", &()).await?;
    println!("  {}", run.result().await?.join(" and "));

    println!("the third step fails:");
    let run = client
        .start::<trip>(wishes(["flight", "hotel", "car"]))
        .await?;
    if let Err(error) = run.result().await {
        println!("  {error}");
    }

    println!("the customer calls it off:");
    let run = client.start::<trip>(wishes(["train", "hotel"])).await?;
    ASKED.notified().await;
    run.cancel("fell ill").await?;
    println!("  the run is {}", run.ended().await?.status);
    engine.shutdown().await
}
