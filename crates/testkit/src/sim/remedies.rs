//! The world outside that activities depend on: what is mended, and what was done once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

/// What activities find outside.
#[derive(Default)]
pub(super) struct Remedies {
    mended: Mutex<BTreeSet<String>>,
    done: Mutex<BTreeMap<String, u64>>,
    serials: AtomicU64,
}

impl Remedies {
    /// From here on activities with this input work.
    pub(super) fn mend(&self, marker: &str) {
        self.mended.lock().insert(marker.to_owned());
    }

    pub(super) fn is_mended(&self, input: &Value) -> bool {
        let mended = self.mended.lock();
        input.as_str().is_some_and(|marker| mended.contains(marker))
    }

    /// A number that is given out once.
    pub(super) fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether a deed comes to the same as when it was first seen.
    pub(super) fn is_first(&self, key: &str, came_to: u64) -> bool {
        *self.done.lock().entry(key.to_owned()).or_insert(came_to) == came_to
    }
}
