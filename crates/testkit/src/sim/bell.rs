//! The doorbell between actors: rings come late, twice, or not at all, and who listens is deaf for a while.

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use everruns_durable::persistence::{Bell, Ring};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::tally::Happening;
use super::world::World;
use crate::differential::Random;

/// Everybody who listens, in the order in which they came.
#[derive(Default)]
pub(super) struct Belfry {
    ears: Mutex<Vec<Weak<Ear>>>,
}

/// What one listener has heard and not looked at.
#[derive(Default)]
struct Ear {
    who: String,
    heard: Mutex<Ring>,
    filled: Notify,
    deaf: AtomicBool,
}

impl Ear {
    fn hear(&self, ring: Ring) {
        if !self.deaf.load(Ordering::SeqCst) {
            self.heard.lock().merge(ring);
            self.filled.notify_one();
        }
    }
}

impl Belfry {
    fn ears(&self) -> Vec<Arc<Ear>> {
        let mut ears = self.ears.lock();
        ears.retain(|ear| ear.strong_count() > 0);
        ears.iter().filter_map(Weak::upgrade).collect()
    }
}

/// One actor's bell.
pub(super) struct SimBell {
    world: Arc<World>,
    own: Arc<Ear>,
    dice: Mutex<Random>,
}

impl SimBell {
    /// One more listener, who was away until now.
    pub(super) fn join(world: &Arc<World>, who: &str, seed: u64) -> Arc<dyn Bell> {
        let own = Arc::new(Ear {
            who: who.to_owned(),
            ..Ear::default()
        });
        own.hear(Ring::everything());
        world.belfry.ears.lock().push(Arc::downgrade(&own));
        Arc::new(Self {
            world: Arc::clone(world),
            own,
            dice: Mutex::new(Random::new(seed)),
        })
    }

    fn send(&self, ear: &Arc<Ear>, ring: &Ring) {
        let fate = RingFate::of(&mut self.dice.lock(), self.world.is_quiet());
        let world = &self.world;
        match fate {
            RingFate::Heard => ear.hear(ring.clone()),
            RingFate::Lost => {
                world.count(Happening::RingLost, 1);
                world.note(&self.own.who, || format!("a ring to {} is lost", ear.who));
            }
            RingFate::Late(after) => {
                world.count(Happening::RingLate, 1);
                self.send_late(ear, ring, after);
            }
            RingFate::Doubled(after) => {
                world.count(Happening::RingDoubled, 1);
                ear.hear(ring.clone());
                self.send_late(ear, ring, after);
            }
        }
    }

    /// Once sent it is on its way, whatever becomes of the sender.
    #[allow(clippy::unused_self, reason = "reads like its siblings")]
    fn send_late(&self, ear: &Arc<Ear>, ring: &Ring, after: Duration) {
        let (ear, ring) = (Arc::downgrade(ear), ring.clone());
        tokio::spawn(async move {
            sleep(after).await;
            if let Some(ear) = ear.upgrade() {
                ear.hear(ring);
            }
        });
    }
}

#[async_trait]
impl Bell for SimBell {
    fn ring(&self, ring: Ring) {
        if ring.is_empty() {
            return;
        }
        for ear in self.world.belfry.ears() {
            if !Arc::ptr_eq(&ear, &self.own) {
                self.send(&ear, &ring);
            }
        }
    }

    async fn listen(&self) -> Ring {
        loop {
            let ring = take(&mut *self.own.heard.lock());
            if !ring.is_empty() {
                return ring;
            }
            self.own.filled.notified().await;
        }
    }

    fn is_connected(&self) -> bool {
        !self.own.deaf.load(Ordering::SeqCst)
    }
}

/// What becomes of one ring at one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RingFate {
    Heard,
    Lost,
    Late(Duration),
    Doubled(Duration),
}

impl RingFate {
    /// In quiet times none is lost, and none is very late.
    fn of(random: &mut Random, quiet: bool) -> Self {
        let longest = if quiet { 20 } else { 4_000 };
        let after = Duration::from_millis(1 + random.below(longest));
        match random.below(100) {
            0..40 => Self::Heard,
            40..60 if !quiet => Self::Lost,
            40..85 => Self::Late(after),
            _ => Self::Doubled(after),
        }
    }
}

/// Makes listeners deaf for a while, until quiet times come. Who hears again knows that it was away.
pub(super) async fn deafen(world: Arc<World>, mut random: Random) {
    loop {
        sleep(Duration::from_millis(200 + random.below(2_500))).await;
        if world.is_quiet() {
            return;
        }
        let ears = world.belfry.ears();
        if ears.is_empty() {
            continue;
        }
        let ear = random.pick(&ears);
        ear.deaf.store(true, Ordering::SeqCst);
        world.count(Happening::Deafened, 1);
        world.note(&ear.who, || "hears no rings".to_owned());
        sleep(Duration::from_millis(1 + random.below(3_000))).await;
        ear.deaf.store(false, Ordering::SeqCst);
        world.note(&ear.who, || "hears rings again".to_owned());
        ear.hear(Ring::everything());
    }
}
