//! Hello world: a workflow that decides, an activity that does.
//!
//! ```sh
//! cargo run --example hello_world
//! DATABASE_URL=sqlite:hello.db cargo run --example hello_world
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use everruns_durable::prelude::*;

#[activity]
async fn greet(name: String) -> ActivityResult<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn hello(ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
    ctx.activity::<greet>(name).await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .workflow::<hello>()
        .activity(greet)
        .start()
        .await?;
    println!("{}", engine.run::<hello>("World".into()).await?);
    engine.shutdown().await
}
