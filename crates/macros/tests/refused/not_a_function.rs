#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

#[activity]
struct Greet;

#[workflow]
pub enum Hello {}

#[workflow]
impl Hello {}

fn main() {}
