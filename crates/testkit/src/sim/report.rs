//! Many seeds: spread over threads, summed up.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Played, Tally, Under, play};

/// Seeds to be played.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// How many.
    pub seeds: u64,
    /// The first one.
    pub start: u64,
    /// On which store.
    pub under: Under,
    /// On how many threads.
    pub threads: usize,
    /// Ends at the first violation.
    pub fail_fast: bool,
}

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Seeds played.
    pub seeds: u64,
    /// What happened how often, in all.
    pub tally: Tally,
    /// What is wrong, by seed.
    pub violations: BTreeMap<u64, Vec<String>>,
    /// How long it took.
    pub took: Duration,
}

/// A seed and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub struct Violation<'a> {
    /// The seed.
    pub seed: u64,
    /// The first thing that is wrong.
    pub what: &'a str,
}

impl Report {
    /// What is wrong first, seed by seed.
    pub fn firsts(&self) -> impl Iterator<Item = Violation<'_>> {
        self.violations.iter().filter_map(|(seed, all)| {
            let what = all.first()?;
            Some(Violation { seed: *seed, what })
        })
    }

    /// Seeds played in a second.
    #[must_use]
    pub fn pace(&self) -> f64 {
        let seeds = u32::try_from(self.seeds).map_or(f64::from(u32::MAX), f64::from);
        seeds / self.took.as_secs_f64().max(0.001)
    }
}

impl Campaign {
    /// Plays all seeds.
    ///
    /// # Errors
    /// When a store cannot be set up.
    pub fn run(&self) -> anyhow::Result<Report> {
        let began = Instant::now();
        let next = AtomicU64::new(self.start);
        let over = AtomicBool::new(false);
        let report = Mutex::new(Report::default());
        let failed = Mutex::new(None);
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let seed = next.fetch_add(1, Ordering::SeqCst);
                        if seed - self.start >= self.seeds {
                            return;
                        }
                        match played(seed, self.under) {
                            Ok(played) => {
                                let clean = played.violations.is_empty();
                                report.lock().add(seed, played);
                                if self.fail_fast && !clean {
                                    over.store(true, Ordering::SeqCst);
                                }
                            }
                            Err(error) => {
                                *failed.lock() = Some(error);
                                over.store(true, Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let mut report = report.into_inner();
        report.took = began.elapsed();
        Ok(report)
    }
}

impl Report {
    fn add(&mut self, seed: u64, played: Played) {
        self.seeds += 1;
        self.tally.merge(&played.tally);
        if !played.violations.is_empty() {
            self.violations.insert(seed, played.violations);
        }
    }
}

/// A seed whose checks panic is violated, not the end of the campaign.
fn played(seed: u64, under: Under) -> anyhow::Result<Played> {
    catch_unwind(AssertUnwindSafe(|| play(seed, under, false))).unwrap_or_else(|_| {
        Ok(Played {
            violations: vec!["the simulation itself panicked".to_owned()],
            tally: Tally::default(),
            trace: Vec::new(),
        })
    })
}
