//! Catch-all handlers: workflows and activities whose names are data.
//!
//! ```sh
//! cargo run --example dynamic_handlers
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;
use serde_json::{Value, json};

/// Takes every workflow that has no code of its own.
#[workflow]
async fn any_workflow(ctx: WorkflowContext, input: Value) -> WorkflowResult<Value> {
    let name = ctx.info().workflow_type.clone();
    let steps = input["steps"].as_array().cloned().unwrap_or_default();
    let mut done = Vec::new();
    for step in steps {
        let activity = step.as_str().unwrap_or("nothing").to_owned();
        done.push(ctx.activity_named::<Value>(activity, &name).await?);
    }
    Ok(json!(done))
}

/// Takes every activity that has no code of its own.
#[activity]
async fn any_activity(ctx: ActivityContext, input: Value) -> ActivityResult<String> {
    Ok(format!(
        "{} for {}",
        ctx.activity_type(),
        input.as_str().unwrap_or("?")
    ))
}

/// Has a name of its own: preferred to the catch-all.
#[activity]
async fn mail(to: String) -> ActivityResult<String> {
    Ok(format!("a real mail to {to}"))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .dynamic_workflow::<any_workflow>()
        .dynamic_activity(any_activity)
        .activity(mail)
        .start()
        .await?;

    // As tenants might have drawn them up in a form.
    for (name, steps) in [
        ("onboard-acme", ["invite", "mail"]),
        ("bill-initech", ["count", "invoice"]),
    ] {
        let input = Payload::from_value(&json!({ "steps": steps })).expect("it is JSON");
        let run = engine.client().start_named(name, input).await?;
        let done: Vec<String> = run.result().await?.to_value().expect("a list of texts");
        println!("{name}: {}", done.join(", "));
    }
    engine.shutdown().await
}
