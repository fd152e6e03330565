#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity(crate = "library", start_to_close = 30)]
async fn number() -> ActivityResult<()> {
    Ok(())
}

#[activity(crate = "library", heartbeat)]
async fn bare() -> ActivityResult<()> {
    Ok(())
}

#[activity(crate = "library", attempts = 1, attempts = 2)]
async fn twice() -> ActivityResult<()> {
    Ok(())
}

#[activity(crate = "library", attempts = 0)]
async fn never() -> ActivityResult<()> {
    Ok(())
}

#[activity(crate = "library", exhausted = "retry")]
async fn exhausted() -> ActivityResult<()> {
    Ok(())
}

#[activity(crate = "library", transactional = true)]
async fn valued_flag() -> ActivityResult<()> {
    Ok(())
}

#[workflow(crate = "library", name = "")]
async fn nameless(ctx: WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

#[workflow(crate = "library", version = "1.2")]
async fn versioned(ctx: WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

fn main() {}
