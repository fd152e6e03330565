//! The clock of a store that keeps its own time (memory, SQLite): the machine's, in microseconds.
//!
//! Never backwards, and never at a stand: when the machine's clock is set back, for instance to
//! correct a jump forwards, the store's clock goes on at half speed until the machine's has caught
//! up.

use std::sync::Arc;
use std::time::Duration;

use durable_core::Timestamp;
use parking_lot::Mutex;

use super::model::cut;
use crate::runtime::{Clock, SystemClock};

/// Of real time, while the store's clock is ahead of the machine's: one in so many microseconds.
const SLOWED_BY: u128 = 2;
/// A clock that is set back by more than this is worth a line in the log.
const WARN_BEYOND: Duration = Duration::from_secs(1);

/// Tells the time to callers that bring no instant.
pub(super) struct StoreClock {
    source: Arc<dyn Clock>,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// What was told last, in microseconds since the epoch.
    last: Option<i64>,
    /// Since when the machine's clock is behind.
    behind: Option<Behind>,
}

/// What was told, and the monotonic time, when the machine's clock was first found behind.
#[derive(Clone, Copy)]
struct Behind {
    told: i64,
    at: Duration,
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::of(Arc::new(SystemClock))
    }
}

impl StoreClock {
    /// A clock that follows another one.
    pub(super) fn of(source: Arc<dyn Clock>) -> Self {
        Self {
            source,
            shown: Mutex::default(),
        }
    }

    /// The given instant as it is stored, or the store's own time. A given instant does not move
    /// the clock.
    pub(super) fn resolve(&self, given: Option<Timestamp>) -> Timestamp {
        match given {
            Some(instant) => cut(instant),
            None => self.now(),
        }
    }

    fn now(&self) -> Timestamp {
        // Read under the lock: of two callers the later one is told the later time.
        let mut shown = self.shown.lock();
        let machine = self.source.now();
        let micros = machine.as_microsecond();
        let told = match shown.last {
            Some(last) if micros < last || shown.behind.is_some() => {
                let at = self.source.monotonic();
                let behind = *shown.behind.get_or_insert_with(|| {
                    warn_of(last - micros);
                    Behind { told: last, at }
                });
                let passed = at.saturating_sub(behind.at).as_micros() / SLOWED_BY;
                let passed = i64::try_from(passed).unwrap_or(i64::MAX);
                let slowed = behind.told.saturating_add(passed).max(last);
                if micros >= slowed {
                    shown.behind = None;
                }
                slowed.max(micros)
            }
            _ => {
                shown.behind = None;
                micros
            }
        };
        shown.last = Some(told);
        Timestamp::from_microsecond(told).unwrap_or(machine)
    }
}

fn warn_of(behind_micros: i64) {
    let behind = Duration::from_micros(behind_micros.unsigned_abs());
    if behind > WARN_BEYOND {
        tracing::warn!(
            ?behind,
            "the machine's clock was set back; the store's clock goes on at half speed until it has caught up"
        );
    }
}

impl std::fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreClock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose clock can be set, and whose real time is moved by hand.
    #[derive(Default)]
    struct Machine(Mutex<(i64, u64)>);

    impl Machine {
        fn pass(&self, micros: u64) {
            let mut machine = self.0.lock();
            machine.0 += i64::try_from(micros).unwrap();
            machine.1 += micros;
        }

        fn set(&self, micros: i64) {
            self.0.lock().0 = micros;
        }
    }

    impl Clock for Machine {
        fn now(&self) -> Timestamp {
            Timestamp::from_microsecond(self.0.lock().0).unwrap()
        }

        fn monotonic(&self) -> Duration {
            Duration::from_micros(self.0.lock().1)
        }
    }

    const HOUR: i64 = 3_600_000_000;

    fn told(clock: &StoreClock) -> i64 {
        clock.resolve(None).as_microsecond()
    }

    #[test]
    fn corrected_jump_forwards_slows_time_down_until_the_machine_has_caught_up() {
        let machine = Arc::new(Machine::default());
        let clock = StoreClock::of(Arc::clone(&machine) as Arc<dyn Clock>);
        machine.set(HOUR);
        assert_eq!(told(&clock), HOUR);
        machine.set(0);
        assert_eq!(told(&clock), HOUR, "never back");
        let mut last = HOUR;
        // Two hours at half speed: then the machine's clock is where the store's is.
        for _ in 0..7_200 {
            machine.pass(1_000_000);
            let now = told(&clock);
            assert_eq!(now - last, 500_000);
            last = now;
        }
        assert_eq!(last, 2 * HOUR);
        machine.pass(1_000_000);
        assert_eq!(told(&clock), 2 * HOUR + 1_000_000, "full speed again");
    }

    #[test]
    fn time_advances_whatever_is_done_to_the_machines_clock_and_however_often_it_is_read() {
        let machine = Arc::new(Machine::default());
        let clock = StoreClock::of(Arc::clone(&machine) as Arc<dyn Clock>);
        let mut last = told(&clock);
        for step in 0..2_000_i64 {
            match step % 500 {
                100 => machine.set(step * HOUR),
                200 | 300 => machine.set(-step * HOUR),
                _ => {}
            }
            let before = last;
            for _ in 0..10 {
                machine.pass(1);
                let now = told(&clock);
                assert!(now >= last, "back by {} at {step}", last - now);
                last = now;
            }
            assert!(last > before, "stands at {step}");
        }
    }

    #[test]
    fn given_instants_do_not_move_the_clock() {
        let clock = StoreClock::default();
        clock.resolve(None);
        assert_eq!(clock.resolve(Some(Timestamp::MAX)), cut(Timestamp::MAX));
        assert!(clock.resolve(None) < cut(Timestamp::MAX));
    }
}
