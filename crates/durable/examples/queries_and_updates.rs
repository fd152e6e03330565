//! Queries read a run's state, updates change it and are answered: an account.
//!
//! ```sh
//! cargo run --example queries_and_updates
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use everruns_durable::prelude::*;

#[activity]
async fn book(entry: String) -> ActivityResult<()> {
    println!("  booked: {entry}");
    Ok(())
}

#[workflow]
async fn account(ctx: WorkflowContext, owner: String) -> WorkflowResult<i64> {
    let balance = ctx.state(0_i64);

    let seen = balance.clone();
    ctx.on_query("balance", move |()| seen.get());
    let seen = balance.clone();
    ctx.on_query("can_spend", move |amount: i64| amount <= seen.get());

    let (total, inner) = (balance.clone(), ctx.clone());
    ctx.on_update("deposit", move |amount: i64| {
        let (total, ctx, owner) = (total.clone(), inner.clone(), owner.clone());
        async move {
            // An update may do whatever a workflow may.
            let entry = format!("{owner} {amount:+}");
            ctx.activity::<book>(entry).await?;
            total.update(|total| *total += amount);
            Ok(total.get())
        }
    })
    .validate(|amount| match amount {
        1.. => Ok(()),
        _ => Err(WorkflowError::new("NotPositive", "deposit at least 1")),
    });

    ctx.signal::<()>("close").await?;
    Ok(balance.get())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<account>()
        .activity(book)
        .start()
        .await?;
    let client = engine.client();

    let run = client.start::<account>("Ann".into()).await?;
    let balance: i64 = run.query("balance", &()).await?;
    println!("a new account holds {balance}");

    let balance: i64 = run.update("deposit", &100).await_result().await?;
    println!("after the deposit it holds {balance}");
    let can_spend: bool = run.query("can_spend", &70).await?;
    println!("70 can be spent: {can_spend}");

    // Refused before anything of it is recorded.
    let refused = run.update("deposit", &-5).await_result::<i64>().await;
    println!("a bad deposit: {}", refused.expect_err("refused"));

    // Sent under an id of one's own, and asked for later, from anywhere.
    run.update("deposit", &20).id("transfer-7").send().await?;
    let balance: i64 = client
        .update_handle(run.id(), "transfer-7")
        .result()
        .await?;
    println!("transfer-7 was answered with {balance}");

    // Started and changed in one go.
    let start = client.start::<account>("Bob".into()).update("deposit", &5);
    println!("Bob begins with {}", start.await_result::<i64>().await?);

    run.signal("close", &()).await?;
    println!("closed with {}", run.result().await?);
    let balance: i64 = run.query("balance", &()).await?;
    println!("a run that has ended answers, too: {balance}");
    if let Err(error) = run.query::<i64>("colour", &()).await {
        println!("no such query: {}", error.is_query_not_found());
    }

    let run = client.start::<account>("Cleo".into()).await?;
    let store = Arc::clone(engine.store());
    engine.shutdown().await?;
    let elsewhere = Client::on(store);
    if let Err(error) = elsewhere.query::<i64>(run.id(), "balance", &()).await {
        println!(
            "nobody runs this workflow now: {}",
            error.is_no_worker_for_type()
        );
    }
    Ok(())
}
