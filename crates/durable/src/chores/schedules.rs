//! Fires schedules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp, signal_types};
use parking_lot::Mutex;
use tracing::{debug, warn};
use uuid::Uuid;

use super::{Chore, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::StoreResult;
use crate::persistence::model::{
    NewSignal, OverlapPolicy, OwnerRequest, ScheduleFire, ScheduleOutcome, ScheduleRecord,
    SendSignal, StartRun, TerminateRun, after,
};
use crate::schedule::{Cron, Decision, LastRun, Stop, decide, run_id_of, start_of};

/// Schedules looked at in one go.
const SCHEDULES_MAX: usize = 64;
/// How far ahead is looked for the next tick: beyond the next look, which comes by itself after [`UNTIL_RUNG`].
const LOOK_AHEAD: Duration = UNTIL_RUNG.saturating_add(Duration::from_secs(60 * 60));

/// Sleeps until the next tick it knows of; rung when a schedule is made or changed here, or when a run ends that a tick waits for.
pub(crate) struct Schedules {
    node: Arc<Node>,
    /// Runs in the way of ticks that are held. Their schedules stay at the head of what is due, and must not hide the others.
    in_the_way: Mutex<Vec<Uuid>>,
    /// Schedules found at the last look with a tick due that cannot be taken here.
    stuck: Mutex<usize>,
}

/// What was made of a schedule whose tick is due.
enum Plan {
    /// Take the tick.
    Fire(Box<ScheduleFire>),
    /// The tick waits for the end of this run.
    Hold(Uuid),
    /// Its cron or zone cannot be read in this process.
    Stuck,
}

impl Schedules {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            in_the_way: Mutex::new(Vec::new()),
            stuck: Mutex::new(0),
        }
    }
}

#[async_trait]
impl Chore for Schedules {
    fn name(&self) -> &'static str {
        "schedules"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let fallback = node.runtime.jittered(node.settings.chores.fallback_poll);
        let max = SCHEDULES_MAX + self.in_the_way.lock().len() + *self.stuck.lock();
        // A look ahead, to know for how long to sleep. By the store's clock: a node whose own is behind would not see what is due.
        let now = node.store.clock(None).await?;
        let ahead = after(now, LOOK_AHEAD);
        let upcoming = node.store.due_schedules(max, Some(ahead)).await?;
        if upcoming.is_empty() {
            self.settle(Vec::new(), 0);
            return Ok(UNTIL_RUNG);
        }
        let is_due = |schedule: &ScheduleRecord| schedule.next_fire_at.is_some_and(|at| at <= now);
        let ahead = upcoming.iter().find(|schedule| !is_due(schedule));
        let next = ahead.and_then(|schedule| schedule.next_fire_at);
        let fired = self
            .take(upcoming.iter().filter(|s| is_due(s)), now)
            .await?;
        if fired > 0 {
            // Further ticks of the same schedules may be due.
            return Ok(Duration::ZERO);
        }
        Ok(next.map_or(fallback, |next| until(now, next).min(fallback)))
    }

    async fn rung(&self) {
        self.node.hub.schedules.rung().await;
    }
}

/// How long from one instant to the other, both of the store's.
fn until(now: Timestamp, next: Timestamp) -> Duration {
    let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
    // Not to be early is to come once instead of twice.
    left + Duration::from_millis(1)
}

impl Schedules {
    /// Takes the ticks that are due, one for each schedule; answers how many moved on.
    async fn take(
        &self,
        due: impl Iterator<Item = &ScheduleRecord>,
        now: Timestamp,
    ) -> StoreResult<usize> {
        let (mut fires, mut held, mut stuck) = (Vec::new(), Vec::new(), 0);
        for schedule in due {
            match self.plan(schedule, now).await? {
                Plan::Fire(fire) => fires.push(*fire),
                Plan::Hold(run_id) => held.push(run_id),
                Plan::Stuck => stuck += 1,
            }
        }
        self.settle(held, stuck);
        let fired = fires.len();
        if fired > 0 {
            self.fire(fires, now).await?;
        }
        Ok(fired)
    }

    /// Remembers what is held, and forgets what no longer is.
    fn settle(&self, held: Vec<Uuid>, stuck: usize) {
        *self.stuck.lock() = stuck;
        let mut in_the_way = self.in_the_way.lock();
        for run_id in in_the_way.iter().filter(|run_id| !held.contains(run_id)) {
            self.node.hub.schedules.forget(*run_id);
        }
        *in_the_way = held;
    }

    async fn plan(&self, schedule: &ScheduleRecord, now: Timestamp) -> StoreResult<Plan> {
        let Some(nominal) = schedule.next_fire_at else {
            return Ok(Plan::Stuck);
        };
        let cron = match Cron::parse(&schedule.cron, &schedule.time_zone) {
            Ok(cron) => cron,
            Err(error) => {
                warn!(schedule = schedule.id, %error, "the schedule cannot fire here");
                return Ok(Plan::Stuck);
            }
        };
        let last = self.last_run(schedule).await?;
        let decision = decide(schedule, &cron, nominal, last.map(|(_, last)| last), now);
        let (stop, start, next) = match decision {
            Decision::Hold => return Ok(last.map_or(Plan::Stuck, |(run_id, _)| Plan::Hold(run_id))),
            Decision::Skip { next } => (None, None, next),
            Decision::Start { stop, next } => (stop, Some(self.start(schedule, nominal)), next),
        };
        // Before the tick is taken: after a crash in between the next one stops it again, which does no harm.
        if let (Some(stop), Some((run_id, _))) = (stop, last) {
            self.stop(schedule, nominal, stop, run_id).await?;
        }
        Ok(Plan::Fire(Box::new(ScheduleFire {
            schedule_id: schedule.id.clone(),
            nominal,
            next_fire_at: next,
            start,
        })))
    }

    /// The run that the schedule started last, where it matters and is still kept.
    async fn last_run(&self, schedule: &ScheduleRecord) -> StoreResult<Option<(Uuid, LastRun)>> {
        let Some(run_id) = schedule.last_run else {
            return Ok(None);
        };
        let bell = &self.node.hub.schedules;
        match schedule.overlap {
            OverlapPolicy::Allow => return Ok(None),
            OverlapPolicy::BufferOne => bell.wait_for(run_id),
            _ => {}
        }
        let last = match self.node.store.get_run(run_id).await? {
            Some(run) if !run.status.is_terminal() => return Ok(Some((run_id, LastRun::Running))),
            Some(run) => run.completed_at.map(LastRun::Ended),
            None => None,
        };
        bell.forget(run_id);
        Ok(last.map(|last| (run_id, last)))
    }

    fn start(&self, schedule: &ScheduleRecord, nominal: Timestamp) -> StartRun {
        let node = &self.node;
        let mut start = start_of(schedule, run_id_of(&schedule.id, nominal), nominal);
        if node.workflows.hosts(&start.workflow_type, &start.version) {
            start.owner = Some(OwnerRequest {
                worker_id: node.worker_id.clone(),
                lease: node.settings.turns.owner_lease,
            });
        }
        start
    }

    /// Tells the last run to make way. One that has ended meanwhile has.
    async fn stop(
        &self,
        schedule: &ScheduleRecord,
        nominal: Timestamp,
        stop: Stop,
        run_id: Uuid,
    ) -> StoreResult<()> {
        let node = &self.node;
        let reason = format!("schedule {} starts its next run", schedule.id);
        match stop {
            Stop::Cancel => {
                let signal = NewSignal {
                    // The id of the run that takes its place: whoever else sends it sends the same signal.
                    signal_id: run_id_of(&schedule.id, nominal),
                    signal_type: signal_types::CANCEL.to_owned(),
                    payload: Payload::from_value(&reason).expect("text is JSON"),
                };
                let signals = vec![SendSignal { run_id, signal }];
                node.store.send_signals(signals, None).await?;
            }
            Stop::Terminate => {
                let runs = vec![TerminateRun { run_id, reason }];
                node.store.terminate_runs(runs, None).await?;
                node.hub.finished(&[run_id]);
                node.hub.messages.notify_one();
            }
        }
        node.hub.ready_runs([run_id]);
        Ok(())
    }

    async fn fire(&self, fires: Vec<ScheduleFire>, now: Timestamp) -> StoreResult<()> {
        let node = &self.node;
        let outcomes = node.store.fire_schedules(fires.clone(), None).await?;
        for (fire, outcome) in fires.into_iter().zip(outcomes) {
            match outcome {
                ScheduleOutcome::Fired { run_id } => {
                    debug!(schedule = fire.schedule_id, nominal = %fire.nominal, ?run_id, "a tick");
                    // Its own process takes the turn; where it is hosted elsewhere the ring is passed on.
                    node.hub.ready_runs(run_id);
                }
                ScheduleOutcome::StartRejected(why) => {
                    warn!(schedule = fire.schedule_id, nominal = %fire.nominal, %why, "the tick's run was refused");
                }
                ScheduleOutcome::Lost => self.pass_over(&fire, now).await?,
            }
        }
        Ok(())
    }

    /// A tick that was lost is somebody else's, and the schedule has moved on. Where it has not, somebody replaced the schedule while its
    /// tick was being taken and put the taken tick back: it would wait for it for ever.
    async fn pass_over(&self, fire: &ScheduleFire, now: Timestamp) -> StoreResult<()> {
        let store = &self.node.store;
        let Some(seen) = store.get_schedule(&fire.schedule_id).await? else {
            return Ok(());
        };
        let mut schedule = seen.clone();
        if schedule.paused || schedule.next_fire_at != Some(fire.nominal) {
            return Ok(());
        }
        let Ok(cron) = Cron::parse(&schedule.cron, &schedule.time_zone) else {
            return Ok(());
        };
        debug!(schedule = schedule.id, nominal = %fire.nominal, "the tick was taken before");
        schedule.next_fire_at = cron.next_after(fire.nominal);
        schedule.updated_at = now;
        // Where somebody was faster there is nothing to do, or there is at the next look.
        store.swap_schedule(Some(seen), schedule).await.map(drop)
    }
}
