//! A workflow whose code is JSON, and activities to drive it: the whole engine by curl.
//!
//! The workflow type is `durable.program`; its input is a program, `{"vars": {…}, "steps": [STEP…]}`. The language is told in
//! `docs/guide/program.md`. [`register`] hosts it and the built-in activities; [`check`] says what is wrong with a program before it
//! is started.
//!
//! ```
//! use durable_program::{BuiltIns, ProgramWorkflow, register};
//! use everruns_durable::prelude::*;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = register(Engine::in_memory(), BuiltIns::default()).start().await?;
//! let program = json!({
//!     "vars": {"x": 20},
//!     "steps": [
//!         {"do": "activity", "type": "add", "input": {"a": {"$": "x"}, "b": 22}, "save": "sum"},
//!         {"do": "return", "value": {"$": "sum"}},
//!     ],
//! });
//! let program = Payload::from_value(&program)?;
//! durable_program::check(&program)?;
//! assert_eq!(engine.run::<ProgramWorkflow>(program).await?.get(), "42");
//! # engine.shutdown().await?;
//! # Ok(())
//! # }
//! ```

mod activities;
mod attributes;
mod expr;
mod fields;
mod interpreter;
mod json;
mod mistake;
mod number;
mod path;
mod quote;
mod slot;
mod steps;
mod value;
mod vars;
mod workflow;

use everruns_durable::prelude::{EngineBuilder, Payload};

pub use activities::{Add, BadHost, Echo, FailN, HostAllowList, Http, Log, SleepFor};
pub use mistake::Mistake;
pub use workflow::ProgramWorkflow;

/// Type of the workflow that runs programs.
pub const PROGRAM_TYPE: &str = "durable.program";

/// What the built-in activities may do.
#[derive(Debug, Clone, Default)]
pub struct BuiltIns {
    /// Where the activity `http` may go; nowhere by default.
    pub http_hosts: HostAllowList,
}

/// Hosts the workflow `durable.program` and the activities `echo`, `sleep`, `fail_n`, `add`, `http` and `log`.
pub fn register(builder: EngineBuilder, options: BuiltIns) -> EngineBuilder {
    builder
        .workflow::<ProgramWorkflow>()
        .activity(Echo)
        .activity(SleepFor)
        .activity(FailN)
        .activity(Add)
        .activity(Http::new(options.http_hosts))
        .activity(Log)
}

/// Whether a run of `durable.program` can be started with this input.
///
/// # Errors
/// The first mistake, with its place.
pub fn check(input: &Payload) -> Result<(), Mistake> {
    steps::Program::read(input).map(|_| ())
}
