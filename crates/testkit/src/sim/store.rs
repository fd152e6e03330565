//! The store as one actor reaches it: slow, failing, repeating, and told the true time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::model::{
    Attributes, AuditFilter, AuditNotes, AuditRecord, BlockRun, BreakerRecord, ClaimOutbox,
    ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, CountLimit, DeadLetter, DeadLetterDecision,
    DecisionOutcome, DeleteOutcome, DlqFilter, Dump, FinishOutcome, FireDue, Fired, Glance,
    History, LeaseExtension, LeaseState, OutboxRecord, OutboxReport, Page, PurgeOld, PurgeRuns,
    PurgedOld, ReapLeases, ReapedTask, RelayMessages, Relayed, RollupRecord, RunCount, RunFilter,
    RunMark, RunPage, RunRecord, RunSummary, ScheduleFilter, ScheduleFire, ScheduleOutcome,
    ScheduleRecord, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun, StepLogFilter,
    StepLogPage, StoreCounts, TaskFilter, TaskRecord, TaskRelease, TaskResult, TaskStatus,
    TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome, UpdateRecord, WaitingTypes,
    WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use everruns_durable::persistence::{
    Bell, Shards, StoreError, StoreResult, WorkerPort, WorkflowEventStore,
};
use parking_lot::Mutex;
use tokio::time::sleep;
use uuid::Uuid;

use super::answer::Answer;
use super::argument::Argument;
use super::bell::SimBell;
use super::block_on::block_on;
use super::codec;
use super::doubts::Doubts;
use super::tally::Happening;
use super::weather::{Climate, Fate, FateKind};
use super::world::World;
use crate::differential::Random;

/// The store under all actors.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) store: Arc<dyn WorkflowEventStore>,
    /// Whether it works on threads of its own, so that calls have to be waited for outside of virtual time.
    pub(super) has_threads: bool,
}

impl Ground {
    /// Asks the store itself, past all faults.
    pub(super) async fn direct<T>(&self, call: impl Future<Output = T>) -> T {
        if self.has_threads {
            block_on(call)
        } else {
            call.await
        }
    }

    /// The way of one actor to the store.
    pub(super) fn reached_by(
        &self,
        who: &str,
        world: &Arc<World>,
        seed: u64,
    ) -> Arc<dyn WorkflowEventStore> {
        let store = SimStore::new(self.clone(), Arc::clone(world), who.to_owned(), seed);
        codec::over(Arc::new(store), world, seed)
    }

    /// All that is stored, as actors see it, past all faults.
    pub(super) async fn dump(&self, world: &World) -> StoreResult<Dump> {
        let store = codec::reading(Arc::clone(&self.store), world);
        self.direct(store.dump()).await
    }
}

/// One actor's way to the store.
struct SimStore {
    ground: Ground,
    world: Arc<World>,
    who: String,
    is_node: bool,
    dice: Arc<Mutex<Random>>,
    /// Listeners are asked for in an order that a seed fixes.
    bell_seed: Arc<Mutex<Random>>,
    pace: Arc<Mutex<Pace>>,
    doubts: Arc<Doubts>,
}

/// Calls at one instant: more than anybody has reason for is a loop that never waits.
#[derive(Default)]
struct Pace {
    at_ms: u64,
    calls: u32,
}

/// More calls of one actor within a millisecond of virtual time are a busy loop.
const CALLS_AT_ONCE_MAX: u32 = 500;

impl SimStore {
    fn new(ground: Ground, world: Arc<World>, who: String, seed: u64) -> Self {
        Self {
            ground,
            world,
            is_node: who.starts_with('n'),
            who,
            dice: Arc::new(Mutex::new(Random::new(seed))),
            bell_seed: Arc::new(Mutex::new(Random::new(seed ^ 0xbe11))),
            pace: Arc::default(),
            doubts: Arc::default(),
        }
    }

    fn fate(&self, method: &'static str) -> Fate {
        let climate = if self.world.is_calm() {
            Climate::Calm
        } else {
            self.world.climate
        };
        let fate = climate.rates().fate(&mut self.dice.lock());
        let world = &self.world;
        world.count(Happening::StoreCall, 1);
        let delayed = !(fate.before + fate.after).is_zero();
        world.count(Happening::Delayed, usize::from(delayed));
        let kind = match fate.kind {
            FateKind::Works => return fate,
            FateKind::FailsBefore => Happening::FailedBefore,
            FateKind::FailsAfter => Happening::FailedAfter,
            FateKind::HappensTwice => Happening::Repeated,
            FateKind::StallsBefore => Happening::StalledBefore,
            FateKind::StallsAfter => Happening::StalledAfter,
        };
        world.count(kind, 1);
        world.note(&self.who, || format!("{method}: {}", kind.text()));
        fate
    }

    /// Lets time pass, and ends loops that do not.
    async fn pause(&self, method: &'static str, pause: Duration) {
        let at_ms = self.world.millis();
        let busy = {
            let mut pace = self.pace.lock();
            if pace.at_ms != at_ms {
                *pace = Pace { at_ms, calls: 0 };
            }
            pace.calls += 1;
            pace.calls == CALLS_AT_ONCE_MAX
        };
        if busy {
            let who = &self.who;
            self.world
                .violated(format!("{who} calls {method} in a loop that never waits"));
            sleep(Duration::from_secs(1)).await;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    /// In calm times a node has no more leases than slots: a slot is free when its result is stored, and not before.
    async fn count_leases(&self) {
        if self.world.climate != Climate::Calm || !self.is_node {
            return;
        }
        let claimed = TaskFilter {
            status: Some(TaskStatus::Claimed),
            ..TaskFilter::default()
        };
        let listed = self.ground.store.list_tasks(claimed, Page::default());
        let Ok(tasks) = self.ground.direct(listed).await else {
            return;
        };
        let own = tasks
            .iter()
            .filter(|task| task.claimed_by.as_deref() == Some(&*self.who));
        let (leases, slots) = (own.count(), self.world.slots);
        if leases > slots {
            self.world.violated(format!(
                "{} has {leases} leases and {slots} slots",
                self.who
            ));
        }
    }

    fn look_for_doubts(&self, turns: &[(Uuid, Uuid)]) {
        if let Some(run) = self.doubts.passed_over(turns) {
            let who = &self.who;
            self.world.violated(format!(
                "{who} goes on with run {run} although its last commit is in doubt"
            ));
        }
    }

    /// Where there is one slot, a turn that ends an activity and is handed the next one can only have passed it on.
    fn count_slots_passed_on<T: Answer>(&self, passing: &[bool], answer: &StoreResult<T>) {
        let handed_over = answer.as_ref().map(Answer::handed_over).unwrap_or_default();
        let both = passing.iter().zip(handed_over);
        let passed = both.filter(|(passes, handed)| **passes && *handed).count();
        if self.world.slots == 1 {
            self.world.count(Happening::SlotPassedOn, passed);
        }
    }

    fn tell<T: Answer>(&self, method: &'static str, asked: &str, answer: &StoreResult<T>) {
        if let Ok(answer) = answer {
            answer.tell(&self.world);
            let given_back = usize::from(method == "release_tasks");
            self.world.count(Happening::TaskReleased, given_back);
        }
        self.world.note(&self.who, || {
            let answered = match answer {
                Ok(answer) => answer.sketch(),
                Err(error) => format!("ERROR {error}"),
            };
            format!("{method}({asked}) -> {answered}")
        });
    }
}

fn lost(method: &'static str) -> StoreError {
    StoreError::Unavailable {
        message: format!("{method}: the connection was lost on purpose"),
        source: None,
    }
}

macro_rules! unreliable {
    ($trait:ident { $(fn $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)+ } $($rest:tt)*) => {
        #[allow(clippy::clone_on_copy, reason = "one rule for every method")]
        #[async_trait]
        impl $trait for SimStore {
            $(
                async fn $method(&self, $($arg: $ty),*) -> StoreResult<$out> {
                    let method = stringify!($method);
                    let fate = self.fate(method);
                    #[allow(unused_mut, reason = "most methods commit no turns")]
                    let mut turns: Vec<(Uuid, Uuid)> = Vec::new();
                    $(turns.extend(Argument::turns(&$arg));)*
                    #[allow(unused_mut, reason = "likewise")]
                    let mut passing: Vec<bool> = Vec::new();
                    $(passing.extend(Argument::passes_slots_on(&$arg));)*
                    $(Argument::tell(&$arg, &self.world);)*
                    self.look_for_doubts(&turns);
                    self.pause(method, fate.before).await;
                    if fate.kind == FateKind::FailsBefore {
                        self.doubts.arise(turns);
                        return Err(lost(method));
                    }
                    let asked = if self.world.trace.is_on() {
                        let asked: Vec<String> = vec![$(Argument::sketch(&$arg)),*];
                        asked.join(" ").trim().to_owned()
                    } else {
                        String::new()
                    };
                    if fate.kind == FateKind::HappensTwice {
                        let now = self.world.now();
                        let _ = now;
                        let store = &self.ground.store;
                        let first = self.ground.direct(store.$method($($arg.clone().at(now)),*)).await;
                        self.tell(method, &asked, &first);
                        self.count_slots_passed_on(&passing, &first);
                        self.pause(method, fate.after).await;
                    }
                    let now = self.world.now();
                    // Not every method is told the time.
                    let _ = now;
                    let answer = self.ground.direct(self.ground.store.$method($($arg.at(now)),*)).await;
                    self.tell(method, &asked, &answer);
                    self.count_slots_passed_on(&passing, &answer);
                    self.count_leases().await;
                    self.pause(method, fate.after).await;
                    if fate.kind == FateKind::FailsAfter {
                        self.doubts.arise(turns);
                        return Err(lost(method));
                    }
                    self.doubts.settle(&turns);
                    answer
                }
            )+
            $($rest)*
        }
    };
}

unreliable! { WorkerPort {
    fn claim_turns(claim: ClaimTurns) -> Vec<ClaimedTurn>;
    fn load_turns(run_ids: &[Uuid]) -> Vec<Option<ClaimedTurn>>;
    fn load_history(run_id: Uuid, after: i64) -> Option<History>;
    fn commit_turns(turns: Vec<TurnCommit>, now: Option<Timestamp>) -> Vec<TurnOutcome>;
    fn block_runs(blocks: Vec<BlockRun>, now: Option<Timestamp>) -> Vec<bool>;
    fn renew_runs(worker_id: &str, run_ids: &[Uuid], lease: Duration, now: Option<Timestamp>) -> Vec<bool>;
    fn release_runs(worker_id: &str, run_ids: &[Uuid]) -> ();
    fn waiting_types() -> WaitingTypes;
    fn claim_tasks(claim: ClaimTasks) -> Vec<ClaimedTask>;
    fn finish_tasks(results: Vec<TaskResult>, now: Option<Timestamp>) -> Vec<FinishOutcome>;
    fn extend_leases(extensions: Vec<LeaseExtension>, now: Option<Timestamp>) -> Vec<LeaseState>;
    fn release_tasks(releases: Vec<TaskRelease>, now: Option<Timestamp>) -> Vec<bool>;
}}

unreliable! { WorkflowEventStore {
    fn start_runs(starts: Vec<StartRun>, now: Option<Timestamp>) -> Vec<StartOutcome>;
    fn send_signals(signals: Vec<SendSignal>, now: Option<Timestamp>) -> Vec<SendOutcome>;
    fn send_updates(updates: Vec<SendUpdate>, now: Option<Timestamp>) -> Vec<SendOutcome>;
    fn get_update(run_id: Uuid, update_id: &str) -> Option<UpdateRecord>;
    fn terminate_runs(runs: Vec<TerminateRun>, now: Option<Timestamp>) -> Vec<TerminateOutcome>;
    fn fire_due(due: FireDue) -> Fired;
    fn reap_leases(reap: ReapLeases) -> Vec<ReapedTask>;
    fn relay_messages(relay: RelayMessages) -> Relayed;
    fn put_schedule(schedule: ScheduleRecord) -> ();
    fn swap_schedule(seen: Option<ScheduleRecord>, schedule: ScheduleRecord) -> bool;
    fn get_schedule(id: &str) -> Option<ScheduleRecord>;
    fn list_schedules(filter: ScheduleFilter, page: Page) -> Vec<ScheduleRecord>;
    fn delete_schedule(id: &str) -> bool;
    fn due_schedules(max: usize, now: Option<Timestamp>) -> Vec<ScheduleRecord>;
    fn fire_schedules(fires: Vec<ScheduleFire>, now: Option<Timestamp>) -> Vec<ScheduleOutcome>;
    fn register_worker(worker: WorkerInfo, now: Option<Timestamp>) -> ();
    fn worker_heartbeats(beats: Vec<WorkerBeat>, now: Option<Timestamp>) -> Vec<Option<WorkerStatus>>;
    fn list_workers(filter: WorkerFilter) -> Vec<WorkerInfo>;
    fn set_worker_status(worker_id: &str, status: WorkerStatus) -> bool;
    fn deregister_worker(worker_id: &str) -> bool;
    fn stop_silent_workers(silent_since: Timestamp) -> Vec<String>;
    fn get_dead_letter(id: Uuid) -> Option<DeadLetter>;
    fn list_dlq(filter: DlqFilter, page: Page) -> Vec<DeadLetter>;
    fn decide_dead_letter(run_id: Uuid, id: Uuid, decision: DeadLetterDecision, now: Option<Timestamp>) -> DecisionOutcome;
    fn purge_dlq(filter: DlqFilter, max: usize) -> u64;
    fn get_breaker(key: &str) -> Option<BreakerRecord>;
    fn save_breaker(breaker: BreakerRecord, now: Option<Timestamp>) -> bool;
    fn list_breakers() -> Vec<BreakerRecord>;
    fn reset_breaker(key: &str) -> bool;
    fn get_once(key: &str) -> Option<Payload>;
    fn put_once(key: &str, result: Payload, now: Option<Timestamp>) -> Payload;
    fn claim_outbox(claim: ClaimOutbox) -> Vec<OutboxRecord>;
    fn finish_outbox(reports: Vec<OutboxReport>, now: Option<Timestamp>) -> Vec<bool>;
    fn get_run(run_id: Uuid) -> Option<RunRecord>;
    fn summarize_runs(run_ids: &[Uuid]) -> Vec<Option<RunSummary>>;
    fn list_runs(filter: RunFilter, page: Page) -> RunPage;
    fn count_runs(filter: RunFilter, limit: CountLimit) -> RunCount;
    fn get_attributes(run_id: Uuid) -> Attributes;
    fn list_tasks(filter: TaskFilter, page: Page) -> Vec<TaskRecord>;
    fn list_step_logs(filter: StepLogFilter, page: Page) -> StepLogPage;
    fn list_events(run_id: Uuid, after: i64, limit: usize) -> Option<History>;
    fn clock(now: Option<Timestamp>) -> Timestamp;
    fn glance(now: Option<Timestamp>) -> Glance;
    fn counts() -> StoreCounts;
    fn count_waiting(at_most: u64) -> u64;
    fn run_marks(run_ids: &[Uuid]) -> Vec<Option<RunMark>>;
    fn rollups(from: Timestamp) -> Vec<RollupRecord>;
    fn purge_runs(purge: PurgeRuns) -> u64;
    fn purge_old(purge: PurgeOld) -> PurgedOld;
    fn delete_run(run_id: Uuid, now: Option<Timestamp>) -> DeleteOutcome;
}
    fn shards(&self) -> Shards {
        self.ground.store.shards()
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        let seed = self.bell_seed.lock().bits();
        Some(SimBell::join(&self.world, &self.who, seed))
    }

    /// The same actor, as unlucky as before, noted at the world's time.
    fn audited(&self, notes: AuditNotes) -> StoreResult<Option<Arc<dyn WorkflowEventStore>>> {
        let view = self.ground.store.audited(notes.at(self.world.now()))?;
        Ok(view.map(|store| {
            let has_threads = self.ground.has_threads;
            Arc::new(Self {
                ground: Ground { store, has_threads },
                world: Arc::clone(&self.world),
                who: self.who.clone(),
                is_node: self.is_node,
                dice: Arc::clone(&self.dice),
                bell_seed: Arc::clone(&self.bell_seed),
                pace: Arc::clone(&self.pace),
                doubts: Arc::clone(&self.doubts),
            }) as _
        }))
    }

    async fn list_audit(&self, filter: AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
        let listed = self.ground.store.list_audit(filter, page);
        self.ground.direct(listed).await
    }

    async fn dump(&self) -> StoreResult<Dump> {
        self.ground.direct(self.ground.store.dump()).await
    }
}
