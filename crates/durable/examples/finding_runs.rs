//! Finding runs: search attributes and memos, lists, counts and cursors.
//!
//! ```sh
//! cargo run --example finding_runs
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::persistence::model::{CountLimit, WorkflowStatus};
use everruns_durable::prelude::*;
use serde_json::{Value, json};

/// Tells from inside how far it is.
#[workflow]
async fn order(ctx: WorkflowContext, number: u32) -> WorkflowResult<()> {
    ctx.set_attribute("stage", "paid");
    if number == 4 {
        return Err(WorkflowError::new("OutOfStock", "no teapots left"));
    }
    ctx.sleep("PT0.01S").await?;
    ctx.set_attribute("stage", "shipped");
    ctx.remove_attribute("priority");
    Ok(())
}

fn orders() -> RunFilter {
    RunFilter::default().workflow_type("order")
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = Engine::in_memory().workflow::<order>().start().await?;
    let client = engine.client();

    // Typed and indexed attributes to find a run by; a memo that is only carried.
    let mut runs = Vec::new();
    for number in 1..=5 {
        let start = client
            .start::<order>(number)
            .attribute("region", if number % 2 == 0 { "eu" } else { "us" })
            .attribute("priority", i64::from(number))
            .memo(&json!({ "ticket": format!("OPS-{number}") }));
        runs.push(start.await?);
    }
    for run in &runs {
        run.ended().await?;
    }

    let count = async |filter| {
        let counted = client.count(filter, CountLimit::Capped).await?;
        Ok::<u64, Error>(counted.count)
    };
    let eu = count(orders().attribute("region", "eu")).await?;
    println!("{eu} orders of {} are from the EU", count(orders()).await?);

    // All conditions hold; a value matches by its type, too.
    let failed = orders().status(WorkflowStatus::Failed);
    let urgent = failed
        .clone()
        .attribute("region", "eu")
        .attribute("priority", 4);
    for run in client.list(urgent, Page::default()).await?.runs {
        let memo: Value = client.memo(run.id).await?;
        // Lists hold no payloads and no errors: the run itself does.
        let error = client.get(run.id).await?.error;
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        println!(
            "failed in the EU with priority 4: {error}, see {}",
            memo["ticket"]
        );
    }
    let as_text = failed.attribute("priority", "4");
    println!("with priority \"4\": {}", count(as_text).await?);

    let attributes = client.attributes(runs[0].id()).await?;
    println!(
        "the first order: {}",
        serde_json::to_string(&attributes).expect("JSON")
    );

    // Pages, newest first; runs started meanwhile move nothing.
    let mut cursor = None;
    loop {
        let page = Page {
            limit: 2,
            offset: 0,
        };
        let page = client.list(orders().before(cursor), page).await?;
        let mut numbers = Vec::new();
        for run in &page.runs {
            let input = client.get(run.id).await?.input;
            numbers.push(input.to_value::<u32>().expect("inputs are numbers"));
        }
        println!("a page with orders {numbers:?}");
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    engine.shutdown().await
}
