#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[workflow(version = "one")]
fn hello<T>(name: &str) {}

fn main() {}
