//! Requests to stop, and when a run has met them.

use std::collections::BTreeSet;

use crate::payload::Payload;

/// Why a run ends that was told to shut down.
pub(super) const SHUTDOWN_REASON: &str = "shutdown";

/// Why a run ends that was told to cancel without a reason.
const CANCEL_REASON: &str = "cancel";

/// A signal's payload may be megabytes; a reason may not.
const REASON_CHARS_MAX: usize = 1000;

/// What a run was asked for in this iteration; the first request of a kind counts.
///
/// A continuation begins without any: the program of the old iteration saw the request and decided to go on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stopping {
    cancel: Option<String>,
    /// Activities that were in flight when the shutdown was asked for.
    shutdown: Option<BTreeSet<String>>,
}

impl Stopping {
    pub(super) fn cancel(&mut self, reason: impl FnOnce() -> String) {
        self.cancel.get_or_insert_with(reason);
    }

    pub(super) fn shut_down<'a>(&mut self, in_flight: impl Iterator<Item = &'a str>) {
        self.shutdown
            .get_or_insert_with(|| in_flight.map(str::to_owned).collect());
    }

    pub(super) fn cancel_requested(&self) -> Option<&str> {
        self.cancel.as_deref()
    }

    /// What has to end before the shutdown is met; nothing when none was asked for.
    pub(super) const fn shutdown_waits_for(&self) -> Option<&BTreeSet<String>> {
        self.shutdown.as_ref()
    }
}

/// The reason that a cancel signal brings: its payload, if that is a text.
///
/// Cut, and without NULs, so that every store can keep it.
pub(crate) fn cancel_reason(payload: &Payload) -> String {
    match payload.to_value() {
        Ok(serde_json::Value::String(text)) => {
            let kept = text.chars().filter(|c| *c != '\0');
            kept.take(REASON_CHARS_MAX).collect()
        }
        _ => CANCEL_REASON.to_owned(),
    }
}
