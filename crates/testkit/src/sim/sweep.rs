//! After everything: a node that keeps finished runs for a second only, and what it leaves.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::model::{Dump, KeyKind};
use everruns_durable::runtime::{Life, Runtime};
use tokio::time::{sleep, timeout};

use super::clock::SimClock;
use super::store::Ground;
use super::tally::Happening;
use super::world::World;
use crate::audit::audit_dump;

/// It is done much earlier.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

/// Deletes all that has ended, by the engine's own retention, and looks whether anything is left.
pub(super) async fn sweep(world: &Arc<World>, ground: &Ground, seed: u64) {
    let who = "n9.1".to_owned();
    let clock = Arc::new(SimClock::new(Arc::clone(world), 0));
    let engine = Engine::on(ground.reached_by(&who, world, seed))
        .runtime(Runtime::seeded(seed, clock, Life::new()))
        .worker_id(who)
        .configure(|settings| {
            settings.build = "sim".to_owned();
            settings.chores.retention = Some(Duration::from_secs(1));
            settings.chores.retention_interval = Duration::from_secs(1);
        });
    let engine = match engine.start().await {
        Ok(engine) => engine,
        Err(error) => return world.violated(format!("the sweeper does not start: {error}")),
    };
    let swept = timeout(SWEPT_AFTER, async {
        loop {
            sleep(Duration::from_secs(1)).await;
            match ground.direct(ground.store.dump()).await {
                Ok(dump) if dump.runs.is_empty() => return Ok::<Dump, StoreError>(dump),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    });
    match swept.await {
        Ok(Ok(dump)) => nothing_is_left(world, &dump),
        Ok(Err(error)) => world.violated(format!("the store cannot be read: {error}")),
        Err(_) => world.violated("finished runs are kept for longer than they should be"),
    }
    world.count(Happening::Swept, 1);
    if let Err(error) = engine.shutdown().await {
        world.violated(format!("the sweeper does not stop: {error}"));
    }
}

fn nothing_is_left(world: &World, dump: &Dump) {
    let held = |kind| kind == KeyKind::Idempotency || kind == KeyKind::Business;
    for key in dump.keys.iter().filter(|key| held(key.kind)) {
        world.violated(format!("key {:?} outlives its run", key.key));
    }
    if !dump.dead_letters.is_empty() {
        let letters = dump.dead_letters.len();
        world.violated(format!("{letters} dead letters outlive their runs"));
    }
    for violation in audit_dump(dump).violations {
        world.violated(format!("after the sweep: {violation}"));
    }
}
