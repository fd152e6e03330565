//! The database's clock: the system's, in microseconds, and never backwards within the process.

use std::sync::atomic::{AtomicI64, Ordering};

use durable_core::Timestamp;

use crate::persistence::model::cut;

/// What time it is for callers that bring no instant.
#[derive(Debug)]
pub(super) struct Clock {
    last: AtomicI64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            last: AtomicI64::new(i64::MIN),
        }
    }

    /// The given instant as it is stored, or the system's.
    pub(super) fn resolve(&self, given: Option<Timestamp>) -> Timestamp {
        match given {
            Some(instant) => cut(instant),
            None => self.at_least(Timestamp::now()),
        }
    }

    fn at_least(&self, system: Timestamp) -> Timestamp {
        let micros = system.as_microsecond();
        let last = self.last.fetch_max(micros, Ordering::Relaxed);
        Timestamp::from_microsecond(last.max(micros)).unwrap_or(system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_clock_that_is_put_back_does_not_put_time_back() {
        let clock = Clock::new();
        let noon = Timestamp::from_second(43_200).unwrap();
        let morning = Timestamp::from_second(32_400).unwrap();
        assert_eq!(clock.at_least(noon), noon);
        assert_eq!(clock.at_least(morning), noon);
        assert_eq!(clock.resolve(Some(morning)), morning);
    }
}
