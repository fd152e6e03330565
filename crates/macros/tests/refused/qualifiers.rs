#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity]
async unsafe fn raw() -> ActivityResult<()> {
    Ok(())
}

#[activity]
async extern "C" fn foreign() -> ActivityResult<()> {
    Ok(())
}

fn main() {}
