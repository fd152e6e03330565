#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity]
async fn ping() {}

#[workflow]
async fn tick(ctx: WorkflowContext) {}

fn main() {}
