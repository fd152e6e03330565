//! Fires schedules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp, signal_types};
use parking_lot::Mutex;
use tracing::{debug, warn};
use uuid::Uuid;

use super::put_off::PutOff;
use super::{Chore, UNTIL_RUNG};
use crate::engine::Node;
use crate::persistence::check::bytes_of_fires;
use crate::persistence::limits::CHORE_BYTES_MAX;
use crate::persistence::model::{
    NewSignal, OverlapPolicy, OwnerRequest, ScheduleFire, ScheduleOutcome, ScheduleRecord,
    SendSignal, StartRun, TerminateRun, after,
};
use crate::persistence::{StoreError, StoreResult};
use crate::runtime::guarded;
use crate::schedule::{Cron, Decision, LastRun, Stop, decide, run_id_of, start_of};

/// Name of the chore, for logs and figures.
const NAME: &str = "schedules";
/// Schedules looked at in one go, and most runs that are terminated for schedules at once.
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
    /// Schedules that failed alone, or whose last run is being terminated.
    put_off: Arc<PutOff>,
}

/// What was made of a schedule whose tick is due.
enum Plan {
    /// Take the tick.
    Fire(Box<ScheduleFire>),
    /// The tick waits for the end of this run.
    Hold(Uuid),
    /// Its cron or zone cannot be read in this process, or its last run is being terminated.
    Stuck,
    /// The schedule was changed or deleted after the look.
    Changed,
}

impl Schedules {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            in_the_way: Mutex::new(Vec::new()),
            stuck: Mutex::new(0),
            put_off: Arc::default(),
        }
    }
}

#[async_trait]
impl Chore for Schedules {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn tick(&self) -> StoreResult<Duration> {
        let node = &self.node;
        let fallback = node.runtime.jittered(node.settings.chores.fallback_poll);
        let max = SCHEDULES_MAX + self.in_the_way.lock().len() + *self.stuck.lock();
        // A look ahead, to know for how long to sleep. By the store's clock: a node whose own is behind would not see what is due.
        let now = node.store.clock(None).await?;
        let ahead = after(now, LOOK_AHEAD);
        let upcoming = node.store.due_schedules(max, Some(ahead)).await?;
        let is_due = |schedule: &ScheduleRecord| schedule.next_fire_at.is_some_and(|at| at <= now);
        let due: Vec<&ScheduleRecord> = upcoming.iter().filter(|s| is_due(s)).collect();
        if self.put_off.retain(|id| due.iter().any(|s| s.id == id)) {
            node.hub.troubles.succeeded(NAME);
        }
        if upcoming.is_empty() {
            self.settle(Vec::new(), 0);
            return Ok(UNTIL_RUNG);
        }
        let ahead = upcoming.iter().find(|schedule| !is_due(schedule));
        let next = ahead.and_then(|schedule| schedule.next_fire_at);
        let fired = self.take(due, now).await?;
        if fired > 0 {
            // Further ticks of the same schedules may be due.
            return Ok(Duration::ZERO);
        }
        let next = next.map(|next| until(now, next));
        let again = self.put_off.wait(node.runtime.instant());
        Ok(next.into_iter().chain(again).fold(fallback, Duration::min))
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
    /// Takes the ticks that are due, one for each schedule; answers how many moved on. What is
    /// wrong with one schedule puts off that one alone.
    async fn take(&self, due: Vec<&ScheduleRecord>, now: Timestamp) -> StoreResult<usize> {
        let (mut fires, mut bytes, mut fired) = (Vec::new(), 0, 0);
        let (mut held, mut stuck) = (Vec::new(), 0);
        for schedule in due {
            if self
                .put_off
                .holds(&schedule.id, self.node.runtime.instant())
            {
                stuck += 1;
                continue;
            }
            match self.plan(schedule, now).await {
                Ok(Plan::Fire(fire)) => {
                    let more = bytes_of_fires(std::slice::from_ref(&*fire)) as u64;
                    if bytes + more > CHORE_BYTES_MAX && !fires.is_empty() {
                        fired += self.fire(std::mem::take(&mut fires), now).await?;
                        bytes = 0;
                    }
                    bytes += more;
                    fires.push(*fire);
                }
                Ok(Plan::Hold(run_id)) => held.push(run_id),
                Ok(Plan::Stuck) => stuck += 1,
                Ok(Plan::Changed) => {}
                Err(error) => {
                    self.put_off(&schedule.id, error).await?;
                    stuck += 1;
                }
            }
        }
        self.settle(held, stuck);
        if !fires.is_empty() {
            fired += self.fire(fires, now).await?;
        }
        Ok(fired)
    }

    /// Puts off a schedule that fails, unless the store as a whole does not work.
    async fn put_off(&self, schedule_id: &str, error: StoreError) -> StoreResult<()> {
        let error = self.may_be_one(error).await?;
        note_failure(&self.node, &self.put_off, schedule_id, &error);
        Ok(())
    }

    /// Answers the error if one schedule may be at fault: the store answers, and it is not the
    /// schema.
    async fn may_be_one(&self, error: StoreError) -> StoreResult<StoreError> {
        if error.blames_all() {
            return Err(error);
        }
        // No instant is given: the database itself has to answer.
        self.node.store.clock(None).await?;
        Ok(error)
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
        let (stop, starts, next) = match decision {
            Decision::Hold => return Ok(last.map_or(Plan::Stuck, |(run_id, _)| Plan::Hold(run_id))),
            Decision::Skip { next } => (None, false, next),
            Decision::Start { stop, next } => (stop, true, next),
        };
        // Before the tick is taken: after a crash in between the next one stops it again, which does no harm.
        match (stop, last) {
            (Some(Stop::Cancel), Some((run_id, _))) => {
                self.cancel(schedule, nominal, run_id).await?;
            }
            (Some(Stop::Terminate), Some((run_id, _))) => {
                self.terminate(schedule, run_id);
                return Ok(Plan::Stuck);
            }
            _ => {}
        }
        let start = if starts {
            // The input is read only now, for a tick that is taken.
            let whole = self.node.store.get_schedule(&schedule.id).await?;
            let Some(whole) = whole.filter(|whole| whole.clone().listed() == *schedule) else {
                return Ok(Plan::Changed);
            };
            Some(self.start(&whole, nominal))
        } else {
            None
        };
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
        let store = &self.node.store;
        let mark = store.run_marks(&[run_id]).await?.pop().flatten();
        if mark.as_ref().is_some_and(|mark| !mark.status.is_terminal()) {
            return Ok(Some((run_id, LastRun::Running)));
        }
        bell.forget(run_id);
        // Only a tick that was held asks when the run ended that was in its way.
        if mark.is_none() || schedule.overlap != OverlapPolicy::BufferOne {
            return Ok(None);
        }
        let ended_at = store
            .get_run(run_id)
            .await?
            .and_then(|run| run.completed_at);
        Ok(ended_at.map(|ended_at| (run_id, LastRun::Ended(ended_at))))
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

    /// Asks the last run to end. A run that has ended meanwhile takes no notice.
    async fn cancel(
        &self,
        schedule: &ScheduleRecord,
        nominal: Timestamp,
        run_id: Uuid,
    ) -> StoreResult<()> {
        let signal = NewSignal {
            // The id of the run that takes its place: every process that sends this signal sends
            // the same one.
            signal_id: run_id_of(&schedule.id, nominal),
            signal_type: signal_types::CANCEL.to_owned(),
            payload: Payload::from_value(&reason_to_stop(schedule)).expect("text is JSON"),
        };
        let signals = vec![SendSignal { run_id, signal }];
        self.node.store.send_signals(signals, None).await?;
        self.node.hub.ready_runs([run_id]);
        Ok(())
    }

    /// Terminates the last run beside the chore, because the store waits for a run that another
    /// transaction has locked. The schedule is looked at again when that is done.
    fn terminate(&self, schedule: &ScheduleRecord, run_id: Uuid) {
        if !self.put_off.stopping(&schedule.id, SCHEDULES_MAX) {
            return;
        }
        let (node, put_off) = (Arc::clone(&self.node), Arc::clone(&self.put_off));
        let (schedule_id, reason) = (schedule.id.clone(), reason_to_stop(schedule));
        self.node.runtime.spawn(async move {
            let runs = vec![TerminateRun { run_id, reason }];
            let terminated = guarded(NAME, node.store.terminate_runs(runs, None)).await;
            match terminated {
                Some(Ok(_)) => {
                    node.hub.finished(&[run_id]);
                    node.hub.messages.notify_one();
                    node.hub.ready_runs([run_id]);
                }
                Some(Err(error)) => note_failure(&node, &put_off, &schedule_id, &error),
                None => put_off.failed(&schedule_id, node.runtime.instant()),
            }
            put_off.stopped(&schedule_id);
            node.hub.schedules.ring();
        });
    }

    /// Takes these ticks; answers how many moved on. A set that fails is halved until the tick at
    /// fault is alone, and that one is put off.
    async fn fire(&self, fires: Vec<ScheduleFire>, now: Timestamp) -> StoreResult<usize> {
        let mut fired = 0;
        let mut sets = vec![fires];
        while let Some(mut set) = sets.pop() {
            match self.node.store.fire_schedules(set.clone(), None).await {
                Ok(outcomes) => {
                    for (fire, outcome) in set.into_iter().zip(outcomes) {
                        match self.taken(&fire, outcome, now).await {
                            Ok(()) => fired += 1,
                            Err(error) => self.put_off(&fire.schedule_id, error).await?,
                        }
                    }
                }
                Err(error) if set.len() > 1 => {
                    let error = self.may_be_one(error).await?;
                    debug!(ticks = set.len(), %error, "a set of ticks is halved");
                    sets.push(set.split_off(set.len() / 2));
                    sets.push(set);
                }
                Err(error) => {
                    if let Some(alone) = set.pop() {
                        self.put_off(&alone.schedule_id, error).await?;
                    }
                }
            }
        }
        Ok(fired)
    }

    /// A tick was answered.
    async fn taken(
        &self,
        fire: &ScheduleFire,
        outcome: ScheduleOutcome,
        now: Timestamp,
    ) -> StoreResult<()> {
        match outcome {
            ScheduleOutcome::Fired { run_id } => {
                debug!(schedule = fire.schedule_id, nominal = %fire.nominal, ?run_id, "a tick");
                // Its own process takes the turn; where it is hosted elsewhere the ring is passed on.
                self.node.hub.ready_runs(run_id);
            }
            ScheduleOutcome::StartRejected(why) => {
                warn!(schedule = fire.schedule_id, nominal = %fire.nominal, %why, "the tick's run was refused");
            }
            ScheduleOutcome::Lost => self.pass_over(fire, now).await?,
        }
        self.put_off.succeeded(&fire.schedule_id);
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

/// Why the last run of a schedule is told to end.
fn reason_to_stop(schedule: &ScheduleRecord) -> String {
    format!("schedule {} starts its next run", schedule.id)
}

/// Puts off a schedule that failed alone, and makes that visible: in the log, in the metrics and, if
/// it goes on, in the health of the process.
fn note_failure(node: &Node, put_off: &PutOff, schedule_id: &str, error: &StoreError) {
    warn!(
        schedule = schedule_id,
        %error, "the tick of this schedule failed and is tried again later; the others go on"
    );
    put_off.failed(schedule_id, node.runtime.instant());
    let error = format!("schedule {schedule_id}: {error}");
    let _ = node.hub.troubles.failed(NAME, error);
}
