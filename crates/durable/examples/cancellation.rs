//! Cancellation: a part of a workflow that is abandoned, and a run that cleans up before it ends.
//!
//! ```sh
//! cargo run --example cancellation
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use tokio::sync::Notify;

static BEGUN: Notify = Notify::const_new();

#[activity]
async fn encode(ctx: ActivityContext, film: String) -> ActivityResult<String> {
    println!("encoding {film}");
    BEGUN.notify_one();
    ctx.cancelled().await; // it would take hours
    println!("encoding of {film} stopped");
    Err(ActivityError::new("Stopped", "told to stop"))
}

#[activity]
async fn delete_files(film: String) -> ActivityResult<()> {
    println!("half a film of {film} deleted");
    Ok(())
}

/// Everything in the scope is abandoned when the signal comes; the workflow goes on behind it.
#[workflow]
async fn watch(ctx: WorkflowContext, film: String) -> WorkflowResult<String> {
    let scope = ctx.scope();
    let abort = scope.clone();
    ctx.on_signal("abort", move |(): ()| abort.cancel());

    let encoded = scope.run(async {
        let file = ctx.activity::<encode>(film.clone()).await?;
        ctx.sleep("PT1H").await?;
        Ok::<_, WorkflowError>(file)
    });
    match encoded.await {
        Some(file) => file,
        None => {
            ctx.activity::<delete_files>(film.clone()).await?;
            Ok(format!("{film}: aborted"))
        }
    }
}

/// Asked to stop, whatever is awaited answers with an error; calls made after that work.
#[workflow]
async fn publish(ctx: WorkflowContext, film: String) -> WorkflowResult<String> {
    let encoded = ctx.activity::<encode>(film.clone()).await;
    if let Err(error) = &encoded
        && error.is_cancelled()
    {
        ctx.activity::<delete_files>(film).await?;
    }
    encoded
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<watch>()
        .workflow::<publish>()
        .activity(encode)
        .activity(delete_files)
        .start()
        .await?;
    let client = engine.client();

    let run = client.start::<watch>("Metropolis".into()).await?;
    BEGUN.notified().await;
    run.signal("abort", &()).await?;
    println!("completed with {:?}", run.result().await?);

    let run = client.start::<publish>("Nosferatu".into()).await?;
    BEGUN.notified().await;
    run.cancel("no rights").await?;
    match run.result().await {
        Err(error) if error.is_cancelled() => println!("{error}"),
        other => println!("{other:?}"),
    }
    engine.shutdown().await
}
