//! A node: an engine that is killed, shut down and started again.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::engine::EngineBuilder;
use everruns_durable::runtime::{Life, Runtime};
use everruns_durable::{Client, Engine};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use super::activities;
use super::clock::SimClock;
use super::plan::{PlannedBefore, planned};
use super::store::Ground;
use super::tally::Happening;
use super::trace::short;
use super::world::World;
use crate::differential::Random;
use crate::engine_suite::Scripted;

/// Leases of tasks and runs: short, so that they run out often.
pub(super) const LEASE: Duration = Duration::from_secs(2);
/// How often leases are renewed.
pub(super) const RENEWAL: Duration = Duration::from_millis(500);
/// Longer than any seed.
const NEVER: Duration = Duration::from_secs(60 * 60);
/// A shutdown that takes longer hangs.
const SHUTDOWN_MAX: Duration = Duration::from_secs(200);

/// Clients beside the nodes that are up.
#[derive(Default)]
pub(super) struct Nodes {
    up: Mutex<Vec<(usize, Client)>>,
}

impl Nodes {
    fn came_up(&self, index: usize, client: Client) {
        self.up.lock().push((index, client));
    }

    fn went_down(&self, index: usize) {
        self.up.lock().retain(|(up, _)| *up != index);
    }

    /// A client beside some node.
    pub(super) fn pick(&self, random: &mut Random) -> Option<Client> {
        let up = self.up.lock();
        let place = random.index(up.len());
        up.get(place).map(|(_, client)| client.clone())
    }
}

/// A machine on which engines come and go.
pub(super) struct Machine {
    pub(super) index: usize,
    pub(super) world: Arc<World>,
    pub(super) ground: Ground,
    pub(super) clock: Arc<SimClock>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) random: Random,
    pub(super) always_replay: bool,
    /// Engines that start before this run the first release of the code.
    pub(super) deployed_ms: u64,
}

/// How an engine's time ends.
enum Lot {
    Killed { steps: u64 },
    ShutDown { after: Duration },
    Stays,
}

impl Machine {
    /// Runs engines, one after the other, for ever.
    pub(super) async fn run(mut self) {
        let mut generation = 0;
        loop {
            generation += 1;
            let who = format!("n{}.{generation}", self.index);
            self.live(&who).await;
            self.nodes.went_down(self.index);
            sleep(Duration::from_millis(self.random.below(3000))).await;
            self.world.count(Happening::Restarted, 1);
        }
    }

    async fn live(&mut self, who: &str) {
        let life = Life::new();
        let lot = self.lot();
        if let Lot::Killed { steps } = lot {
            life.die_after(steps);
        }
        let engine = match self.engine(who, &life).start().await {
            Ok(engine) => engine,
            Err(error) => {
                return self
                    .world
                    .violated(format!("{who} does not start: {error}"));
            }
        };
        self.world.note(who, || "starts".to_owned());
        self.nodes.came_up(self.index, engine.client());
        match lot {
            Lot::Killed { .. } => {
                self.until_death_or_calm(&life).await;
                self.world.note(who, || "is killed".to_owned());
                self.world.count(Happening::Killed, 1);
                drop(engine);
            }
            Lot::ShutDown { after } => {
                sleep(after).await;
                self.shut_down(who, engine).await;
                life.kill();
            }
            Lot::Stays => std::future::pending().await,
        }
    }

    fn lot(&mut self) -> Lot {
        if !self.world.climate.kills() || self.world.is_calm() {
            return Lot::Stays;
        }
        let random = &mut self.random;
        match random.below(100) {
            0..25 => Lot::Killed {
                steps: 1 + random.below(80),
            },
            25..75 => Lot::Killed {
                steps: 1 + random.below(1200),
            },
            75..90 => Lot::ShutDown {
                after: Duration::from_millis(random.below(5000)),
            },
            _ => Lot::Stays,
        }
    }

    /// Ends at the node's death; in calm times it lives for ever.
    async fn until_death_or_calm(&self, life: &Life) {
        while !life.is_dead() {
            if self.world.is_calm() {
                life.die_after(u64::MAX);
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn shut_down(&self, who: &str, engine: Engine) {
        self.world.note(who, || "shuts down".to_owned());
        match timeout(SHUTDOWN_MAX, engine.shutdown()).await {
            Ok(ended) => {
                self.world.count(Happening::ShutDown, 1);
                self.world.note(who, || format!("has shut down: {ended:?}"));
            }
            Err(_) => self
                .world
                .violated(format!("the shutdown of {who} does not end")),
        }
    }

    fn engine(&mut self, who: &str, life: &Life) -> EngineBuilder {
        let clock = Arc::clone(&self.clock);
        let runtime = Runtime::seeded(self.random.bits(), clock, life.clone());
        let store = self.ground.reached_by(who, &self.world, self.random.bits());
        let World { slots, blind, .. } = *self.world;
        let random = &mut self.random;
        let builder = Engine::on(store)
            .workflow::<Scripted>()
            .runtime(runtime)
            .worker_id(who)
            .always_replay(self.always_replay)
            .configure(|settings| {
                settings.worker.lease = LEASE;
                settings.worker.lease_renewal = RENEWAL;
                settings.worker.max_concurrent_tasks = slots;
                settings.worker.claim_batch_size = 1 + random.index(5);
                settings.turns.owner_lease = LEASE;
                settings.turns.set_max = 1 + random.index(8);
                settings.turns.committers = 1 + random.index(3);
                settings.turns.cached_programs_max = [1, 3, 100][random.index(3)];
                settings.chores.fallback_poll = Duration::from_millis(500);
                settings.chores.reap_interval = Duration::from_millis(500);
                if blind {
                    settings.worker.lease = NEVER;
                    settings.turns.owner_lease = NEVER;
                    settings.chores.fallback_poll = NEVER;
                    settings.chores.reap_interval = NEVER;
                }
                settings.shutdown_grace = Duration::from_secs(1 + random.below(5));
            });
        let is_new = self.world.millis() >= self.deployed_ms;
        let builder = if is_new {
            builder
                .workflow::<planned>()
                .dynamic_workflow::<planned>()
                .build_id("second")
        } else {
            self.world.count(Happening::OldRelease, 1);
            builder
                .workflow::<PlannedBefore>()
                .dynamic_workflow::<PlannedBefore>()
                .build_id("first")
        };
        let builder = activities::add(builder, &self.world, who);
        if !self.world.extras.listeners {
            return builder;
        }
        let (world, node) = (Arc::clone(&self.world), who.to_owned());
        builder.listener(move |event| {
            world.note(&node, || {
                format!(
                    "tells {} of {} at {}",
                    event.name(),
                    short(&event.run_id.to_string()),
                    event.sequence
                )
            });
            world.ledger.hear(&node, event.clone());
        })
    }
}

/// Makes a machine's clock jump now and then.
pub(super) async fn disturb(clock: Arc<SimClock>, world: Arc<World>, mut random: Random) {
    loop {
        sleep(Duration::from_millis(500 + random.below(4000))).await;
        let skew = i64::try_from(random.below(10_000)).unwrap_or(0) - 5_000;
        clock.jump(skew);
        world.count(Happening::ClockJumped, 1);
    }
}
