#![allow(unused)]

#[path = "../library/mod.rs"]
mod library;

use library::prelude::*;

struct Greeter;

impl Greeter {
    #[activity]
    async fn greet(&self, name: String) -> ActivityResult<String> {
        Ok(name)
    }

    #[workflow]
    async fn hello(self: Box<Self>, ctx: WorkflowContext) -> WorkflowResult<String> {
        Ok(String::new())
    }
}

fn main() {}
