#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[workflow]
async fn without() -> WorkflowResult<()> {
    Ok(())
}

#[workflow]
async fn second(name: String, ctx: WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

#[workflow]
async fn borrowed(ctx: &WorkflowContext) -> WorkflowResult<()> {
    Ok(())
}

#[workflow]
async fn swapped(ctx: ActivityContext) -> WorkflowResult<()> {
    Ok(())
}

#[activity]
async fn also_swapped(ctx: WorkflowContext) -> ActivityResult<()> {
    Ok(())
}

#[activity]
async fn also_borrowed(ctx: &mut ActivityContext) -> ActivityResult<()> {
    Ok(())
}

fn main() {}
