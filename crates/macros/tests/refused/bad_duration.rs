#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity(crate = "library", start_to_close = "30")]
async fn no_unit() -> ActivityResult<()> {
    Ok(())
}

#[activity(crate = "library", start_to_close = "half an hour")]
async fn words() -> ActivityResult<()> {
    Ok(())
}

#[workflow(crate = "library", run_timeout = "P1M")]
async fn month(ctx: WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

#[workflow(crate = "library", run_timeout = "0s")]
async fn zero(ctx: WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

fn main() {}
