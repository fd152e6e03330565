//! Your data and the engine's in one commit: starts, signals and activities inside your own PostgreSQL transaction, and an activity
//! whose own writes commit with its result.
//!
//! ```sh
//! DATABASE_URL=postgres://user@host/empty_database cargo run --example transactions
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::postgres;
use everruns_durable::prelude::*;
use tokio_postgres::{Client as Connection, NoTls};

type AnyError = Box<dyn std::error::Error>;

/// Its write and its result are one commit: after the first attempt's failure nothing of it is left.
#[activity(transactional)]
async fn book(ctx: ActivityContext, cents: i64) -> ActivityResult<i64> {
    let transaction = ctx.transaction().await?;
    let sql = "UPDATE example_account SET cents = cents + $1 RETURNING cents";
    let balance: i64 = transaction.query_one(sql, &[&cents]).await?.get(0);
    println!("attempt {}: the balance would be {balance}", ctx.attempt);
    if ctx.attempt == 1 {
        return Err(ActivityError::new("Unlucky", "after the write"));
    }
    Ok(balance)
}

#[activity]
async fn send_mail(to: String) -> ActivityResult<String> {
    Ok(format!("a mail to {to}"))
}

#[workflow]
async fn ship(ctx: WorkflowContext, order: i64) -> WorkflowResult<String> {
    let parcel: String = ctx.signal("packed").await?;
    let retry = RetryPolicy {
        initial_interval: Duration::from_millis(20),
        ..RetryPolicy::default()
    };
    let balance = ctx.activity::<book>(order * 100).retry(retry).await?;
    Ok(format!(
        "order {order} left in {parcel}, the balance is {balance}"
    ))
}

const TABLES: &str = "
    DROP TABLE IF EXISTS example_order, example_account;
    CREATE TABLE example_order (id BIGINT PRIMARY KEY);
    CREATE TABLE example_account (cents BIGINT NOT NULL);
    INSERT INTO example_account VALUES (0);";

/// An order and its run: both, or neither.
async fn place(
    connection: &mut Connection,
    order: i64,
    commit: bool,
) -> Result<uuid::Uuid, AnyError> {
    let transaction = connection.transaction().await?;
    let sql = "INSERT INTO example_order VALUES ($1)";
    transaction.execute(sql, &[&order]).await?;
    let run = postgres::start_in::<ship>(&transaction, order).await?;
    if commit {
        transaction.commit().await?;
    } else {
        transaction.rollback().await?;
    }
    Ok(run)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "DATABASE_URL must name a PostgreSQL database")?;
    let engine = Engine::postgres(&url)
        .workflow::<ship>()
        .activity(book)
        .activity(send_mail)
        .start()
        .await?;
    let client = engine.client();
    let (mut connection, driver) = tokio_postgres::connect(&url, NoTls).await?;
    let driver = tokio::spawn(driver);
    connection.batch_execute(TABLES).await?;

    let run = place(&mut connection, 1, false).await?;
    let missing = client
        .get(run)
        .await
        .is_err_and(|error| error.is_not_found());
    println!("rolled back, there is no run: {missing}");

    let run = place(&mut connection, 2, true).await?;
    let transaction = connection.transaction().await?;
    postgres::signal_in(&transaction, run, "packed", "parcel 7").await?;
    let mail = postgres::enqueue_in::<send_mail>(&transaction, "ann@example.com".into()).await?;
    transaction.commit().await?;
    println!("{}", client.run::<ship>(run).result().await?);
    let mail = client.run::<everruns_durable::workflow::ActivityRun<send_mail>>(mail);
    println!("enqueued and done: {}", mail.result().await?);

    // The same by SQL, from any driver and language.
    let sql = "SELECT durable.durable_start('ship', '3')";
    let run: uuid::Uuid = connection.query_one(sql, &[]).await?.get(0);
    let sql = "SELECT durable.durable_signal($1, 'packed', '\"parcel 8\"')";
    connection.execute(sql, &[&run]).await?;
    println!("by SQL: {}", client.run::<ship>(run).result().await?);

    drop(connection);
    driver.await??;
    engine.shutdown().await?;
    Ok(())
}
