//! A schedule: created, backfilled, triggered, paused, resumed, deleted, and which runs of it there must be.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{Payload, Timestamp};
use everruns_durable::client::Schedule;
use everruns_durable::persistence::model::OverlapPolicy;
use everruns_durable::{Client, Error};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::client::AGAIN_AFTER;
use super::node::Nodes;
use super::plan::{Deed, Plan, planned};
use super::tally::Happening;
use super::world::World;
use crate::differential::Random;

/// Its id.
pub(super) const ID: &str = "minutely";
const MINUTE: i64 = 60;
/// Ticks before its creation that a backfill starts.
const BACKFILLED: i64 = 2;

/// Somebody who looks after a schedule.
pub(super) struct Keeper {
    pub(super) world: Arc<World>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) own: Client,
    pub(super) random: Random,
    /// Triggers it now and then, if there is one.
    pub(super) impatience: Option<Random>,
}

/// What was scheduled.
#[derive(Debug, Clone)]
pub(super) struct Timetable {
    pub(super) overlap: OverlapPolicy,
    /// Ticks that must have fired, in order.
    pub(super) ticks: Vec<Timestamp>,
    pub(super) triggered: Triggered,
}

/// Runs that were started beside the ticks.
#[derive(Debug, Clone, Default)]
pub(super) struct Triggered {
    /// Those that were acknowledged.
    pub(super) runs: Vec<Uuid>,
    /// How often it was tried: each try may have started one.
    pub(super) tries: usize,
}

impl Keeper {
    /// From its creation to its deletion.
    pub(super) async fn keep(mut self) -> Timetable {
        let overlap = self.random.pick(&[
            OverlapPolicy::Allow,
            OverlapPolicy::Allow,
            OverlapPolicy::Skip,
            OverlapPolicy::BufferOne,
            OverlapPolicy::Replace,
            OverlapPolicy::Terminate,
        ]);
        sleep(Duration::from_millis(self.random.below(1500))).await;
        let first = self.create(overlap).await;
        let mut triggered = Triggered::default();
        let mut ticks = Vec::new();
        if self.random.one_in(2) {
            ticks.extend((1..=BACKFILLED).rev().map(|n| minutes_after(first, -n)));
            self.backfill(first).await;
        }
        self.trigger(&mut triggered).await;
        ticks.push(first);
        let second = minutes_after(first, 1);
        let pauses = self.random.one_in(3);
        if pauses {
            self.until(first, 20).await;
            self.again("a pause", async |client| client.pause_schedule(ID).await)
                .await;
            self.world.count(Happening::SchedulePaused, 1);
            self.trigger(&mut triggered).await;
            self.until(second, 20).await;
            self.again("a resumption", async |client| {
                client.resume_schedule(ID).await
            })
            .await;
            ticks.push(minutes_after(first, 2));
            self.until(minutes_after(first, 2), 30).await;
        } else {
            ticks.push(second);
            self.until(second, 30).await;
        }
        self.again("a deletion", async |client| {
            match client.delete_schedule(ID).await {
                // By the try before, whose answer was lost.
                Err(error) if error.is_not_found() => Ok(()),
                other => other,
            }
        })
        .await;
        Timetable {
            overlap,
            ticks,
            triggered,
        }
    }

    /// The first tick of a new schedule.
    async fn create(&mut self, overlap: OverlapPolicy) -> Timestamp {
        let plan = Plan {
            number: u32::MAX,
            deeds: vec![Deed::Sleep { millis: 400 }],
            cleanup: Vec::new(),
        };
        let schedule = Schedule::cron(ID, "* * * * *")
            .workflow::<planned>(plan)
            .overlap(overlap)
            .catchup(Duration::from_secs(3600));
        let created = self.again("a schedule", async |client| {
            client.create_schedule(schedule.clone()).await
        });
        let created = created.await;
        // What a repeat finds may have fired already.
        let first = created.last_fire_at.or(created.next_fire_at);
        first.unwrap_or(created.created_at)
    }

    async fn backfill(&mut self, first: Timestamp) {
        let from = minutes_after(first, -BACKFILLED - 1);
        let to = minutes_after(first, -1);
        self.again("a backfill", async |client| {
            client.backfill_schedule(ID, from, to).await.map(drop)
        })
        .await;
        self.world.count(Happening::ScheduleBackfilled, 1);
    }

    /// Starts a run of it now, once or twice, each until that is acknowledged.
    async fn trigger(&mut self, triggered: &mut Triggered) {
        let Some(mut random) = self.impatience.as_mut().map(Random::fork) else {
            return;
        };
        for _ in 0..=random.below(2) {
            sleep(Duration::from_millis(random.below(3000))).await;
            let run_id = loop {
                triggered.tries += 1;
                let client = self.client();
                let call = client.trigger_schedule(ID);
                // It dies before it knows; not where nobody looks without a ring, which it would not come to.
                let dies = !self.world.blind && random.one_in(3);
                let life = if dies { random.below(60) } else { u64::MAX };
                match timeout(Duration::from_millis(life), call).await {
                    Ok(Ok(run)) => break run.id(),
                    Ok(Err(error)) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                    Ok(Err(error)) => {
                        let what = format!("a trigger is refused: {error}");
                        self.world.violated(what);
                        return;
                    }
                    Err(_) => self
                        .world
                        .note("keeper", || "dies and is started again".to_owned()),
                }
            };
            self.world.count(Happening::ScheduleTriggered, 1);
            self.world
                .note("keeper", || format!("triggered run {run_id}"));
            triggered.runs.push(run_id);
        }
    }

    /// A schedule is looked at by those who are told of it, or now and then: nobody tells a process that is elsewhere.
    fn client(&mut self) -> Client {
        let beside = self.nodes.pick(&mut self.random);
        beside.unwrap_or_else(|| self.own.clone())
    }

    /// So many seconds after a tick.
    async fn until(&self, tick: Timestamp, seconds: i64) {
        let wait = tick.as_second() + seconds - self.world.now().as_second();
        sleep(Duration::from_secs(u64::try_from(wait).unwrap_or(0))).await;
    }

    /// Until it is done.
    async fn again<T>(&mut self, what: &str, call: impl AsyncFn(Client) -> Result<T, Error>) -> T {
        loop {
            match call(self.client()).await {
                Ok(done) => return done,
                Err(error) if error.is_retryable() || error.is_conflict() => {
                    sleep(AGAIN_AFTER).await;
                }
                Err(error) => {
                    self.world.violated(format!("{what} is refused: {error}"));
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

fn minutes_after(tick: Timestamp, minutes: i64) -> Timestamp {
    tick + jiff::SignedDuration::from_secs(minutes * MINUTE)
}

/// The memo of a run that a schedule started.
#[derive(Debug, serde::Deserialize)]
pub(super) struct TickMemo {
    pub(super) schedule_id: String,
    pub(super) scheduled_at: Timestamp,
}

impl TickMemo {
    pub(super) fn of(memo: &Payload) -> Option<Self> {
        memo.to_value().ok()
    }
}
