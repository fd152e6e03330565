#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity]
fn greet(name: String) -> ActivityResult<String> {
    Ok(name)
}

#[workflow]
fn hello(ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
    Ok(name)
}

fn main() {}
