//! Tokens that are limited to some queues and workflow types, at every call of the store.

use std::time::Duration;

use durable_server::auth::{Access, Names, Role, TokenRecord};
use everruns_durable::core::{CircuitState, Payload, Timestamp};
use everruns_durable::persistence::model::{
    BlockRun, BreakerRecord, ClaimOutbox, ClaimTasks, ClaimTurns, CountLimit, DeadLetterDecision,
    DlqFilter, FireDue, HostedType, NewSignal, NewUpdate, OverlapPolicy, PurgeOld, PurgeRuns,
    ReapLeases, RelayMessages, ReusePolicy, RunFilter, ScheduleFilter, ScheduleFire,
    ScheduleRecord, SendSignal, SendUpdate, StartOutcome, StartRejection, StartRun, StepLogFilter,
    TaskFilter, TerminateRun, TurnCommit, WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use everruns_durable::persistence::{StoreError, StoreResult, WorkflowEventStore};
use everruns_durable::prelude::*;
use everruns_durable::remote::{Connect, Method};
use everruns_durable::{Client, Worker};
use uuid::Uuid;

use crate::place::Place;

#[activity]
async fn charge(_amount: u64) -> ActivityResult<u64> {
    Err(ActivityError::new("Broken", "by design").non_retryable())
}

#[workflow]
async fn billing(ctx: WorkflowContext, amount: u64) -> WorkflowResult<u64> {
    ctx.activity::<charge>(amount).await
}

#[activity]
async fn pack(parcel: String) -> ActivityResult<String> {
    Ok(parcel)
}

#[workflow]
async fn shipping(ctx: WorkflowContext, parcel: String) -> WorkflowResult<String> {
    ctx.activity::<pack>(parcel).await
}

/// By what a token is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Types,
    Queues,
    Both,
}

/// Tokens that may have to do with shipping alone, in a role that opens every door.
fn access() -> Access {
    let mut tokens = vec![TokenRecord::new("root", Role::Admin, "root")];
    for (limit, role) in [
        (Limit::Types, Role::Admin),
        (Limit::Queues, Role::Admin),
        (Limit::Both, Role::Admin),
        (Limit::Types, Role::Worker),
        (Limit::Both, Role::Worker),
    ] {
        let name = format!("{limit:?}-{role}");
        let mut token = TokenRecord::new(&*name, role, &name);
        if limit != Limit::Queues {
            token.workflow_types = Some(Names::new(["ship*"]));
        }
        if limit != Limit::Types {
            token.queues = Some(Names::new(["pack"]));
        }
        tokens.push(token);
    }
    Access::guarded(tokens, None).expect("no file")
}

async fn client(place: &Place, token: &str) -> Client {
    let connect = Connect::to(&place.url).token(token);
    Client::connect(connect).await.expect("connects")
}

/// What belongs to others.
struct Foreign {
    run: everruns_durable::persistence::model::RunRecord,
    letter: Uuid,
    own: Uuid,
    schedule: ScheduleRecord,
    worker: WorkerInfo,
}

fn schedule(id: &str, workflow_type: &str) -> ScheduleRecord {
    let now = Timestamp::now();
    ScheduleRecord {
        id: id.to_owned(),
        cron: "0 0 1 1 *".to_owned(),
        time_zone: "UTC".to_owned(),
        workflow_type: workflow_type.to_owned(),
        version: String::new(),
        input: Payload::null(),
        overlap: OverlapPolicy::Terminate,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: None,
        last_fire_at: None,
        last_run: None,
        created_at: now,
        updated_at: now,
    }
}

impl Foreign {
    /// A run of billing that failed, its letter, a schedule and the server's own worker.
    async fn at(place: &Place) -> Self {
        let worker = Worker::connect(Connect::to(&place.url).token("root"))
            .workflow::<billing>()
            .activity(charge);
        let worker = worker.start().await.expect("connects");
        let run = place.client().start::<billing>(3).await.expect("starts");
        run.result().await.expect_err("fails by design");
        worker.shutdown().await.expect("stops");
        let own = place.client().start::<shipping>("cups".to_owned()).await;
        let own = own.expect("starts").id();
        let run = place.store.get_run(run.id()).await.expect("read");
        let run = run.expect("there");
        let letters = place.store.list_dlq(DlqFilter::default(), Page::default());
        let letter = letters.await.expect("listed")[0].id;
        let schedule = schedule("monthly", "billing");
        let put = place.store.put_schedule(schedule.clone()).await;
        put.expect("put");
        let workers = place.store.list_workers(WorkerFilter::default()).await;
        let worker = workers.expect("listed").pop().expect("the server's own");
        Self {
            run,
            letter,
            own,
            schedule,
            worker,
        }
    }

    /// Carries a method out on what belongs to others; none where the method can name nothing of
    /// theirs. The second answer: which limits refuse it.
    async fn call(
        &self,
        method: Method,
        store: &dyn WorkflowEventStore,
    ) -> Option<(StoreResult<()>, &'static [Limit])> {
        const TYPES: &[Limit] = &[Limit::Types, Limit::Both];
        const QUEUES: &[Limit] = &[Limit::Queues, Limit::Both];
        const ALL: &[Limit] = &[Limit::Types, Limit::Queues, Limit::Both];
        let (run, id, second) = (self.run.id, Uuid::now_v7(), Duration::from_secs(1));
        let (max, first_shard, now) = (1, 0, None);
        macro_rules! by {
            ($limits:ident, $call:expr) => {
                Some(($call.await.map(drop), $limits))
            };
        }
        match method {
            // The lease that a claim gave is the right to the task.
            Method::finish_tasks | Method::extend_leases | Method::release_tasks => None,
            // Of no run, no queue and no type.
            Method::clock | Method::glance | Method::list_workers | Method::list_breakers => None,
            Method::claim_turns => {
                let hosted = HostedType {
                    workflow_type: "billing".to_owned(),
                    version: String::new(),
                };
                let claim = ClaimTurns {
                    worker_id: "w".to_owned(),
                    build: "b".to_owned(),
                    hosted: vec![hosted],
                    max,
                    lease: second,
                    first_shard,
                    now,
                };
                by!(TYPES, store.claim_turns(claim))
            }
            Method::load_turns => by!(TYPES, store.load_turns(&[run])),
            Method::load_history => by!(TYPES, store.load_history(run, 0)),
            Method::commit_turns => {
                let turn = TurnCommit::new(&self.run, id);
                by!(TYPES, store.commit_turns(vec![turn], now))
            }
            Method::block_runs => {
                let block = BlockRun {
                    run_id: run,
                    expected_sequence: 0,
                    reason: "none".to_owned(),
                    build: "b".to_owned(),
                };
                by!(TYPES, store.block_runs(vec![block], now))
            }
            Method::renew_runs => by!(TYPES, store.renew_runs("w", &[run], second, now)),
            Method::release_runs => by!(TYPES, store.release_runs("w", &[run])),
            Method::waiting_types => by!(ALL, store.waiting_types()),
            Method::claim_tasks => {
                let claim = ClaimTasks {
                    worker_id: "w".to_owned(),
                    activity_types: vec!["charge".to_owned()],
                    max,
                    lease: second,
                    token: id,
                    first_shard,
                    now,
                };
                by!(QUEUES, store.claim_tasks(claim))
            }
            Method::start_runs => {
                let start = StartRun::new(id, "billing", Payload::null());
                by!(TYPES, store.start_runs(vec![start], now))
            }
            Method::send_signals => {
                let signal = NewSignal {
                    signal_id: id,
                    signal_type: "s".to_owned(),
                    payload: Payload::null(),
                };
                let send = SendSignal {
                    run_id: run,
                    signal,
                };
                by!(TYPES, store.send_signals(vec![send], now))
            }
            Method::send_updates => {
                let update = NewUpdate {
                    update_id: "u".to_owned(),
                    name: "n".to_owned(),
                    input: Payload::null(),
                };
                let send = SendUpdate {
                    run_id: run,
                    update,
                };
                by!(TYPES, store.send_updates(vec![send], now))
            }
            Method::get_update => by!(TYPES, store.get_update(run, "u")),
            Method::terminate_runs => {
                let terminate = TerminateRun {
                    run_id: run,
                    reason: "none".to_owned(),
                };
                by!(TYPES, store.terminate_runs(vec![terminate], now))
            }
            Method::fire_due => {
                let due = FireDue {
                    max,
                    first_shard,
                    jitter: 0.0,
                    now,
                };
                by!(ALL, store.fire_due(due))
            }
            Method::reap_leases => {
                let reap = ReapLeases {
                    max,
                    first_shard,
                    now,
                };
                by!(ALL, store.reap_leases(reap))
            }
            Method::relay_messages => {
                let relay = RelayMessages {
                    max,
                    first_shard,
                    now,
                };
                by!(ALL, store.relay_messages(relay))
            }
            // Of a type in scope, in the place of a schedule that is not.
            Method::put_schedule => {
                let replacing = schedule("monthly", "shipping");
                by!(TYPES, store.put_schedule(replacing))
            }
            // A schedule of a type in scope, whose next tick would end a run that is not.
            Method::swap_schedule => {
                let ending = ScheduleRecord {
                    last_run: Some(run),
                    ..schedule("daily", "shipping")
                };
                by!(TYPES, store.swap_schedule(None, ending))
            }
            Method::get_schedule => by!(TYPES, store.get_schedule(&self.schedule.id)),
            Method::list_schedules => {
                let filter = ScheduleFilter::default();
                by!(ALL, store.list_schedules(filter, Page::default()))
            }
            Method::delete_schedule => by!(TYPES, store.delete_schedule(&self.schedule.id)),
            Method::due_schedules => by!(ALL, store.due_schedules(max, now)),
            Method::fire_schedules => {
                let fire = ScheduleFire {
                    schedule_id: self.schedule.id.clone(),
                    nominal: Timestamp::UNIX_EPOCH,
                    next_fire_at: None,
                    start: None,
                };
                by!(TYPES, store.fire_schedules(vec![fire], now))
            }
            // In the place of the server's own worker.
            Method::register_worker => by!(ALL, store.register_worker(self.worker.clone(), now)),
            Method::worker_heartbeats => {
                let beat = WorkerBeat {
                    worker_id: self.worker.id.clone(),
                    current_load: 0,
                    accepting_tasks: false,
                    backpressure_reason: None,
                    tasks_completed: 0,
                    tasks_failed: 0,
                    avg_task_duration_ms: 0.0,
                };
                by!(ALL, store.worker_heartbeats(vec![beat], now))
            }
            Method::set_worker_status => {
                let status = WorkerStatus::Draining;
                by!(ALL, store.set_worker_status(&self.worker.id, status))
            }
            Method::deregister_worker => by!(ALL, store.deregister_worker(&self.worker.id)),
            Method::stop_silent_workers => {
                by!(ALL, store.stop_silent_workers(Timestamp::UNIX_EPOCH))
            }
            Method::get_dead_letter => by!(ALL, store.get_dead_letter(self.letter)),
            Method::list_dlq => {
                let filter = DlqFilter {
                    run_id: Some(run),
                    activity_type: Some("charge".to_owned()),
                    ..DlqFilter::default()
                };
                by!(ALL, store.list_dlq(filter, Page::default()))
            }
            // Named together with a run that is in scope.
            Method::decide_dead_letter => {
                let decision = DeadLetterDecision::Discard;
                by!(
                    ALL,
                    store.decide_dead_letter(self.own, self.letter, decision, now)
                )
            }
            Method::purge_dlq => by!(ALL, store.purge_dlq(DlqFilter::default(), 1)),
            Method::get_breaker => by!(QUEUES, store.get_breaker("activity:charge")),
            Method::save_breaker => {
                by!(QUEUES, store.save_breaker(breaker("activity:charge"), now))
            }
            Method::reset_breaker => by!(QUEUES, store.reset_breaker("activity:charge")),
            Method::get_once => by!(QUEUES, store.get_once("charge:7")),
            Method::put_once => by!(QUEUES, store.put_once("charge:7", Payload::null(), now)),
            Method::claim_outbox => {
                let claim = ClaimOutbox {
                    max,
                    lease: second,
                    token: id,
                    first_shard,
                    now,
                };
                by!(ALL, store.claim_outbox(claim))
            }
            // Reports name an event by the token of its claim.
            Method::finish_outbox => None,
            Method::get_run => by!(TYPES, store.get_run(run)),
            Method::await_run => by!(TYPES, store.await_run(run, Duration::ZERO)),
            Method::summarize_runs => by!(TYPES, store.summarize_runs(&[run])),
            Method::list_runs => {
                let children = RunFilter {
                    parent: Some(self.own),
                    ..RunFilter::default()
                };
                by!(TYPES, store.list_runs(children, Page::default()))
            }
            Method::count_runs => {
                by!(
                    TYPES,
                    store.count_runs(RunFilter::default(), CountLimit::default())
                )
            }
            Method::get_attributes => by!(TYPES, store.get_attributes(run)),
            Method::list_tasks => {
                let filter = TaskFilter {
                    activity_type: Some("charge".to_owned()),
                    run_id: Some(run),
                    ..TaskFilter::default()
                };
                by!(ALL, store.list_tasks(filter, Page::default()))
            }
            Method::list_step_logs => {
                let filter = StepLogFilter::of_run(run);
                by!(TYPES, store.list_step_logs(filter, Page::default()))
            }
            Method::list_events => by!(TYPES, store.list_events(run, 0, 1)),
            Method::counts => by!(ALL, store.counts()),
            Method::count_waiting => by!(ALL, store.count_waiting(1)),
            Method::run_marks => by!(TYPES, store.run_marks(&[run])),
            Method::rollups => by!(ALL, store.rollups(Timestamp::UNIX_EPOCH)),
            Method::purge_runs => {
                let purge = PurgeRuns {
                    finished_before: Timestamp::UNIX_EPOCH,
                    max,
                    first_shard,
                    now,
                };
                by!(ALL, store.purge_runs(purge))
            }
            Method::purge_old => by!(ALL, store.purge_old(PurgeOld::default())),
            Method::delete_run => by!(TYPES, store.delete_run(run, now)),
        }
    }
}

fn breaker(key: &str) -> BreakerRecord {
    BreakerRecord {
        key: key.to_owned(),
        state: CircuitState::Open,
        failure_count: 1,
        success_count: 0,
        opened_at: None,
        data: Payload::null(),
        version: 0,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

/// Every method of the contract, by tokens of every limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_reaches_what_belongs_to_others() {
    let place = Place::with(access()).await;
    let foreign = Foreign::at(&place).await;
    // A token that is limited to queues alone may delete any run: it comes last.
    for limit in [Limit::Types, Limit::Both, Limit::Queues] {
        let letter = place.store.get_dead_letter(foreign.letter).await;
        assert_eq!(letter.expect("read").expect("there").requeue_count, 0);
        let client = client(&place, &format!("{limit:?}-admin")).await;
        for method in Method::ALL {
            let Some((answer, limits)) = foreign.call(*method, &**client.store()).await else {
                continue;
            };
            let name = method.name();
            match answer {
                Err(StoreError::Denied(why)) => {
                    assert!(limits.contains(&limit), "{limit:?} {name}: {why}");
                    assert!(why.contains("-admin"), "{name}: {why}");
                }
                answer => assert!(!limits.contains(&limit), "{limit:?} {name}: {answer:?}"),
            }
        }
    }
    let workers = place.store.list_workers(WorkerFilter::default()).await;
    let own = workers.expect("listed").into_iter();
    let own = own.filter(|worker| worker.id == foreign.worker.id).count();
    assert_eq!(own, 1, "the server's own worker is still there");
}

/// A key of `run_once` made from a run belongs to the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_other_runs_are_out_of_scope() {
    let place = Place::with(access()).await;
    let foreign = Foreign::at(&place).await;
    let client = client(&place, "Types-admin").await;
    let store = client.store();
    let of = |run: Uuid| format!("{run}:{}", Uuid::nil());
    let put = store
        .put_once(&of(foreign.run.id), Payload::null(), None)
        .await;
    assert!(matches!(put, Err(StoreError::Denied(_))), "{put:?}");
    let put = store
        .put_once(&of(foreign.own), Payload::null(), None)
        .await;
    put.expect("its own");
}

/// A worker whose token is limited to its workflow type takes turns, runs its tasks and says
/// farewell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_a_token_of_its_types_gets_turns() {
    let place = Place::with(access()).await;
    for token in ["Types-worker", "Both-worker"] {
        let worker = Worker::connect(Connect::to(&place.url).token(token))
            .workflow::<shipping>()
            .activity(pack);
        let worker = worker.start().await.expect("connects");
        let run = place.client().start::<shipping>("cups".to_owned()).await;
        let result = run.expect("starts").result().await;
        assert_eq!(result.expect("a result"), "cups", "{token}");
        worker.shutdown().await.expect("says farewell");
    }
}

/// The store compares again what the scope check looked at: a foreign run that took the workflow id
/// in between is not ended.
#[tokio::test]
async fn a_foreign_run_that_takes_the_workflow_id_after_the_check_is_not_ended() {
    let place = Place::with(access()).await;
    let mut foreign = StartRun::new(Uuid::now_v7(), "billing", Payload::null());
    foreign.business_id = Some("order-7".to_owned());
    let started = place.store.start_runs(vec![foreign.clone()], None).await;
    started.expect("started");
    let mut start = StartRun::new(Uuid::now_v7(), "shipping", Payload::null());
    start.business_id = Some("order-7".to_owned());
    start.reuse_policy = ReusePolicy::TerminateIfRunning;
    start.meets_only = Some(vec!["ship*".to_owned()]);
    let outcomes = place.store.start_runs(vec![start.clone()], None).await;
    let run_id = start.run_id;
    let refused = StartOutcome::Rejected(StartRejection::Foreign { run_id });
    assert_eq!(outcomes.expect("answered"), [refused]);
    let run = place.store.get_run(foreign.run_id).await.expect("read");
    assert!(!run.expect("there").status.is_terminal());
}
