//! What all actors of one seed share: virtual time, the weather, the trace and the tally.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use durable_core::Timestamp;
use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::bell::Belfry;
use super::extras::Extras;
use super::ledger::Ledger;
use super::remedies::Remedies;
use super::tally::{Happening, Tally};
use super::trace::Trace;
use super::weather::Climate;

/// Virtual time begins here, in seconds of the Unix epoch: some seconds before a minute, so that a tick of a schedule falls into the storm.
const BEGINNING: i64 = 1_799_999_996;

/// How a world is set up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Build {
    pub(super) climate: Climate,
    pub(super) machines: usize,
    pub(super) slots: usize,
    pub(super) blind: bool,
    pub(super) extras: Extras,
}

/// The world of one seed.
pub(super) struct World {
    pub(super) climate: Climate,
    /// Engines at a time.
    pub(super) machines: usize,
    /// Activities that each of them runs at once.
    pub(super) slots: usize,
    /// Engines look for nothing by themselves: what nobody rings for is not done.
    pub(super) blind: bool,
    pub(super) extras: Extras,
    pub(super) belfry: Belfry,
    pub(super) trace: Trace,
    pub(super) ledger: Ledger,
    pub(super) remedies: Remedies,
    began: Instant,
    /// From here on nothing goes wrong any more.
    calm: AtomicBool,
    calm_since_ms: AtomicU64,
    tally: Mutex<Tally>,
    violations: Mutex<Vec<String>>,
}

impl World {
    /// To be called within the seed's runtime.
    pub(super) fn new(build: Build, trace: bool) -> Self {
        let Build {
            climate,
            machines,
            slots,
            blind,
            extras,
        } = build;
        Self {
            climate,
            machines,
            slots,
            blind,
            extras,
            belfry: Belfry::default(),
            trace: Trace::new(trace),
            ledger: Ledger::default(),
            remedies: Remedies::default(),
            began: Instant::now(),
            calm: AtomicBool::new(false),
            calm_since_ms: AtomicU64::new(0),
            tally: Mutex::default(),
            violations: Mutex::default(),
        }
    }

    /// The true time: the store's.
    pub(super) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        beginning() + elapsed
    }

    /// Milliseconds since the world began.
    pub(super) fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The storm is over.
    pub(super) fn calm_down(&self) {
        self.calm_since_ms.store(self.millis(), Ordering::SeqCst);
        self.calm.store(true, Ordering::SeqCst);
        self.note("world", || "from here on nothing goes wrong".to_owned());
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Whether nothing goes wrong now: the storm is over, or there never was one.
    pub(super) fn is_quiet(&self) -> bool {
        self.climate == Climate::Calm || self.is_calm()
    }

    /// Since when nothing goes wrong; in a calm climate that is from the beginning.
    pub(super) fn calm_since_ms(&self) -> u64 {
        match self.climate {
            Climate::Calm => 0,
            _ => self.calm_since_ms.load(Ordering::SeqCst),
        }
    }

    /// Writes a line of the trace.
    pub(super) fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if self.trace.is_on() {
            let millis = self.millis();
            let line = format!(
                "{:>4}.{:03} {who:<6} {}",
                millis / 1000,
                millis % 1000,
                what()
            );
            self.trace.add(line);
        }
    }

    pub(super) fn count(&self, what: Happening, times: usize) {
        if times > 0 {
            self.tally.lock().add(what, times);
        }
    }

    /// Something is wrong.
    pub(super) fn violated(&self, what: impl Into<String>) {
        let what = what.into();
        self.note("world", || format!("VIOLATION {what}"));
        self.violations.lock().push(what);
    }

    pub(super) fn take_findings(&self) -> (Tally, Vec<String>) {
        let tally = std::mem::take(&mut *self.tally.lock());
        let violations = std::mem::take(&mut *self.violations.lock());
        (tally, violations)
    }
}

fn beginning() -> Timestamp {
    Timestamp::from_second(BEGINNING).expect("a year in this century")
}

/// Milliseconds since the world began of an instant that the store wrote down.
pub(super) fn millis_of(at: Timestamp) -> u64 {
    u64::try_from(at.duration_since(beginning()).as_millis()).unwrap_or(0)
}
