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
    /// Activities that were in flight when the shutdown was asked for and have not ended since.
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

    /// Takes an activity that has ended from those that a shutdown waits for.
    pub(super) fn activity_ended(&mut self, activity_id: &str) {
        if let Some(in_flight) = &mut self.shutdown {
            in_flight.remove(activity_id);
        }
    }

    pub(super) const fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether a shutdown was asked for and no activity that was in flight then is left.
    pub(super) fn shutdown_is_met(&self) -> bool {
        self.shutdown.as_ref().is_some_and(BTreeSet::is_empty)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shutdown_waits_only_for_activities_that_have_not_ended() {
        let mut stopping = Stopping::default();
        stopping.activity_ended("before");
        assert!(!stopping.is_shutting_down() && !stopping.shutdown_is_met());
        stopping.shut_down(["a", "b", "c"].into_iter());
        for (ended, left) in [("a", 2), ("later", 2), ("b", 1), ("c", 0)] {
            assert!(!stopping.shutdown_is_met(), "before {ended:?} ended");
            stopping.activity_ended(ended);
            assert_eq!(stopping.shutdown.as_ref().map(BTreeSet::len), Some(left));
        }
        assert!(stopping.shutdown_is_met());
    }
}
