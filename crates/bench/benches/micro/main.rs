//! What single operations cost: replay, events to bytes and back, turns with and without a kept program, cron.
//!
//! ```sh
//! cargo bench -p durable-bench
//! ```

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod cron;
mod events;
#[path = "../../../core/examples/replay/long_run.rs"]
mod long_run;
mod programs;
mod replay;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    micro,
    replay::measure,
    events::measure,
    programs::measure,
    cron::measure
);
criterion_main!(micro);
