//! What the engine takes from the world besides its store: tasks, time, chance.
//!
//! Architecture invariant: the engine, its workers and its chores spawn, sleep, read clocks and throw dice through
//! [`Runtime`] and in no other way. So the simulator can run the shipped code on one thread with virtual time
//! and seeded choices, and kill a node at any of its awaits.

mod clock;
mod guard;
mod life;
mod resources;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use durable_core::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use guard::guarded;

pub use clock::{Clock, SystemClock};
pub use life::Life;
pub use resources::{ResourceGauge, Resources, SystemResources};

/// A node's tasks, time and chance. Cheap to clone; all clones are one node.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    dice: Mutex<fastrand::Rng>,
    life: Life,
    /// None: nothing is known, so that a world can be repeated.
    gauge: Option<Arc<dyn ResourceGauge>>,
}

impl Runtime {
    /// The real world: the machine's clock, its randomness.
    #[must_use]
    pub fn real() -> Self {
        Self::with_gauge(Arc::new(SystemResources))
    }

    /// The real world, but for its memory and CPU.
    #[must_use]
    pub fn with_gauge(gauge: Arc<dyn ResourceGauge>) -> Self {
        let dice = fastrand::Rng::new();
        Self::new(Arc::new(SystemClock), dice, Life::new(), Some(gauge))
    }

    /// A world that can be repeated: the same seed and clock give the same ids and choices.
    #[must_use]
    pub fn seeded(seed: u64, clock: Arc<dyn Clock>, life: Life) -> Self {
        Self::new(clock, fastrand::Rng::with_seed(seed), life, None)
    }

    fn new(
        clock: Arc<dyn Clock>,
        dice: fastrand::Rng,
        life: Life,
        gauge: Option<Arc<dyn ResourceGauge>>,
    ) -> Self {
        let dice = Mutex::new(dice);
        Self {
            shared: Arc::new(Shared {
                clock,
                dice,
                life,
                gauge,
            }),
        }
    }

    /// Memory and CPU in use, as far as known. Reads a few files of the system: not for every task.
    #[must_use]
    pub fn resources(&self) -> Resources {
        let gauge = self.shared.gauge.as_ref();
        gauge.map_or_else(Resources::default, |gauge| gauge.read())
    }

    /// Runs a future beside the others until it ends or the node dies.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.shared.life.spawn(future);
    }

    /// Ends everything that was spawned, where it stands.
    pub fn kill(&self) {
        self.shared.life.kill();
    }

    /// Waits until everything that was spawned has ended, at most for so long.
    pub async fn ended(&self, at_most: Duration) {
        tokio::select! {
            biased;
            () = self.shared.life.emptied() => {}
            () = self.sleep(at_most) => {}
        }
    }

    /// Waits. Virtual in the simulator.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// A clock that never goes back, for local waits only; what is stored is dated by the store.
    #[must_use]
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// The node's own idea of the time: for ids and estimates, never for what is right.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// A new id, ordered by time to a quarter of a microsecond (UUIDv7): runs that one caller starts one after the other are listed so.
    #[must_use]
    pub fn new_id(&self) -> Uuid {
        let now = self.now();
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        let mut bytes = [0_u8; 10];
        self.shared.dice.lock().fill(&mut bytes);
        // The first twelve bits behind the milliseconds are their fraction (RFC 9562, 6.2, method 3).
        let nanos = now.subsec_nanosecond().rem_euclid(1_000_000);
        let fraction = u16::try_from(nanos * 512 / 125_000).unwrap_or(0);
        bytes[..2].copy_from_slice(&fraction.to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }

    /// A fraction from 0.0 up to 1.0.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.shared.dice.lock().f64()
    }

    /// A number below `bound`, which is at least 1.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.shared.dice.lock().u64(0..bound.max(1))
    }

    /// A shard to begin with: any, so that nodes do not all begin with the first.
    #[must_use]
    pub fn any_shard(&self, shards: crate::persistence::Shards) -> u16 {
        u16::try_from(self.below(u64::from(shards.count()))).unwrap_or(0)
    }

    /// `duration` give or take a fifth, so that nodes started together do not stay in step.
    #[must_use]
    pub fn jittered(&self, duration: Duration) -> Duration {
        let seconds = duration.as_secs_f64() * (0.8 + 0.4 * self.fraction());
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that stands where it was put.
    struct Stopped(i128);

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanosecond(self.0).expect("an instant")
        }
    }

    #[test]
    fn ids_made_a_microsecond_apart_are_in_order() {
        let at = |nanos| Runtime::seeded(7, Arc::new(Stopped(nanos)), Life::new()).new_id();
        let begin = 1_700_000_000_000_000_000;
        let ids: Vec<Uuid> = (0..3_000).map(|micro| at(begin + micro * 1_000)).collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn a_jittered_duration_is_near_the_given_one_however_long_that_is() {
        let runtime = Runtime::real();
        for _ in 0..100 {
            let second = runtime.jittered(Duration::from_secs(1));
            assert!(second >= Duration::from_millis(800), "{second:?}");
            assert!(second <= Duration::from_millis(1_200), "{second:?}");
            assert!(runtime.jittered(Duration::MAX) >= Duration::MAX / 2);
        }
        assert_eq!(runtime.jittered(Duration::ZERO), Duration::ZERO);
    }
}
