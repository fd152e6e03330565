//! Instants: in microseconds, and never backwards.

use std::sync::Arc;

use durable_core::Timestamp;

use crate::persistence::model::cut;
use crate::runtime;

/// The store's clock, for callers that bring no instant.
#[derive(Default)]
pub(super) struct Clock {
    last: Option<Timestamp>,
    /// None: the system's.
    source: Option<Arc<dyn runtime::Clock>>,
}

impl Clock {
    /// A clock that shows what another one does.
    pub(super) fn of(source: Arc<dyn runtime::Clock>) -> Self {
        Self {
            last: None,
            source: Some(source),
        }
    }

    /// The given instant, or the system's; that one never goes back within the store, whatever is done to the machine's clock.
    pub(super) fn resolve(&mut self, given: Option<Timestamp>) -> Timestamp {
        if let Some(now) = given {
            return cut(now);
        }
        let source = self.source.as_ref();
        let now = cut(source.map_or_else(Timestamp::now, |source| source.now()));
        let now = self.last.map_or(now, |last| last.max(now));
        self.last = Some(now);
        now
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, now: Timestamp) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::persistence::model::after;

    #[test]
    fn the_clock_never_goes_back_and_given_instants_do_not_move_it() {
        let mut clock = Clock::default();
        let first = clock.resolve(None);
        clock.resolve(Some(Timestamp::MAX));
        assert!(clock.resolve(None) < Timestamp::MAX);
        clock.last = Some(after(first, Duration::from_secs(3600)));
        assert_eq!(clock.resolve(None), after(first, Duration::from_secs(3600)));
    }
}
