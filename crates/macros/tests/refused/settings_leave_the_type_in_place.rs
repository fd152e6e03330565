#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity(crate = "library", start_to_close = "soon")]
async fn greet() -> ActivityResult<()> {
    Ok(())
}

async fn caller() {
    let _ = greet::call().await;
}

fn main() {}
