#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity(crate = "library", timeout = "30s")]
async fn greet() -> ActivityResult<()> {
    Ok(())
}

#[workflow(crate = "library", start_to_close = "30s")]
async fn hello(ctx: WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

fn main() {}
