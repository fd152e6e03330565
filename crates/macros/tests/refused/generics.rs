#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity]
async fn store<T: Send>(value: T) -> ActivityResult<T> {
    Ok(value)
}

#[activity]
async fn greet<'a>(name: std::borrow::Cow<'a, str>) -> ActivityResult<()> {
    Ok(())
}

#[activity]
async fn show(value: impl ToString) -> ActivityResult<String> {
    Ok(value.to_string())
}

#[workflow]
async fn hello(ctx: WorkflowContext) -> WorkflowResult<()>
where
    String: Clone,
{
    Ok(())
}

fn main() {}
