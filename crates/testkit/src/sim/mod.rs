//! The simulator: the shipped engine, workers, chores and clients on one thread, with virtual time and seeded faults.
//!
//! ```text
//!   seed ──► Scenario ──► Machines (engines that die), Callers (clients), clocks that jump
//!                             │ SimStore: delays, failures, repeats, stalls
//!                             ▼
//!                        one store ──► dump ──► checks: oracle, audit, replay, ledger
//! ```
//!
//! The same seed gives the same run, to the last line of its trace.

mod activities;
mod answer;
mod argument;
mod bell;
mod block_on;
mod check;
mod client;
mod clock;
mod codec;
mod doubts;
mod extras;
mod interference;
mod ledger;
mod namesakes;
mod node;
mod oracle;
mod plan;
mod program;
mod remedies;
mod report;
mod requests;
mod scenario;
mod script;
mod store;
mod stuck;
mod sweep;
mod tally;
mod timetable;
mod trace;
mod weather;
mod world;

use std::sync::Arc;

use everruns_durable::persistence::{MemoryStore, Shards};

pub use report::{Campaign, Report, Violation};
pub use tally::{Happening, Tally};

use crate::flavour::{Flavour, Kind, StoreUnderTest};
use scenario::Scenario;
use store::Ground;

/// The store under a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// The store in memory.
    Memory,
    /// SQLite, on a file in memory.
    Sqlite,
}

/// What became of a seed.
#[derive(Debug)]
pub struct Played {
    /// What is wrong, in the order in which it was found.
    pub violations: Vec<String>,
    /// What happened how often.
    pub tally: Tally,
    /// What happened, if it was asked for.
    pub trace: Vec<String>,
}

/// Plays one seed.
///
/// # Errors
/// When the store cannot be set up.
pub fn play(seed: u64, under: Under, trace: bool) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    plan::forget_side_effects();
    runtime.block_on(async {
        let shards = if seed.is_multiple_of(3) { 4 } else { 1 };
        let (ground, kept) = open(under, shards).await?;
        let world = Scenario::new(seed, ground, trace).play().await;
        // Its folder goes only now.
        drop(kept);
        let (tally, violations) = world.take_findings();
        Ok(Played {
            violations,
            tally,
            trace: world.trace.take(),
        })
    })
}

async fn open(under: Under, shards: u16) -> anyhow::Result<(Ground, Option<StoreUnderTest>)> {
    match under {
        Under::Memory => {
            let store = Arc::new(MemoryStore::with_shards(Shards::new(shards)));
            let ground = Ground {
                store,
                has_threads: false,
            };
            Ok((ground, None))
        }
        Under::Sqlite => {
            let kind = Kind::Sqlite;
            let kept = Flavour { kind, shards }.open().await?;
            let ground = Ground {
                store: Arc::clone(&kept.store),
                has_threads: true,
            };
            Ok((ground, Some(kept)))
        }
    }
}
