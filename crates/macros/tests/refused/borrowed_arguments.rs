#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity]
async fn greet(name: &str, others: Vec<Option<&'static str>>, (a, b): (u8, &u8)) -> ActivityResult<()> {
    Ok(())
}

#[workflow]
async fn hello(ctx: WorkflowContext, name: std::borrow::Cow<'_, str>) -> WorkflowResult<()> {
    Ok(())
}

fn main() {}
