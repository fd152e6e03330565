//! The project's own commands: tests against a private PostgreSQL, proofs, architecture checks.
//!
//! A library beside the binary, so that `tests/architecture.rs` runs the same check as `cargo xtask arch`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its user"
)]

pub mod arch;
mod callgrind;
pub mod cli;
mod commands;
mod interrupt;
mod postgres;
mod process;
mod suites;
mod testkit;
pub mod workspace;
