//! A small database in which everything is as it should be.

use std::time::Duration;

use durable_core::{AttributeValue, ExhaustedPolicy, Failure, Payload, RetryPolicy, WorkflowEvent};
use durable_testkit::flavour::Kind;
use durable_testkit::world::json;
use durable_testkit::{Flavour, World};
use everruns_durable::persistence::model::{
    Dump, NewTask, NewTimer, OverlapPolicy, ScheduleFire, ScheduleRecord, StartRun, TaskOutcome,
    TurnCommit,
};
use uuid::Uuid;

/// A run in the middle of its work, one that completed, one that waits for a dead letter, and a schedule that fired.
pub(crate) async fn dump() -> Dump {
    let flavour = Flavour {
        kind: Kind::Memory,
        shards: 1,
    };
    let under_test = flavour.open().await.expect("a store");
    let world = World::new(under_test.store.clone());
    busy_run(&world).await;
    completed_run(&world).await;
    parked_run(&world).await;
    fired_schedule(&world).await;
    under_test.store.dump().await.expect("a dump")
}

/// A turn that takes every fact that waits, as the engine takes them.
async fn honest_turn(world: &World, run_id: Uuid) -> TurnCommit {
    let waiting = world.waiting(run_id).await;
    let mut turn = TurnCommit::new(&waiting.run, world.id());
    turn.facts_through = waiting.run.arrivals;
    if waiting.run.sequence == 0 {
        turn.events.push(WorkflowEvent::WorkflowStarted {
            input: waiting.run.input.clone(),
        });
    }
    turn.events
        .extend(waiting.facts.into_iter().map(|fact| fact.event));
    turn
}

fn schedule_task(turn: &mut TurnCommit, task: NewTask) {
    turn.events.push(WorkflowEvent::ActivityScheduled {
        activity_id: task.activity_id.clone(),
        activity_type: task.activity_type.clone(),
        input: task.input.clone(),
        options: Box::new(task.options.clone()),
    });
    turn.tasks.push(task);
}

/// Two tasks in line, the first one claimed; a timer; a signal taken and one that waits; an attribute.
async fn busy_run(world: &World) {
    let mut start = world.new_start();
    start.idempotency_key = Some("key".into());
    start.business_id = Some("order-1".into());
    let run_id = world.start_one(start).await;
    world.signal(run_id, "taken").await;
    let mut turn = honest_turn(world, run_id).await;
    schedule_task(&mut turn, world.task("first"));
    schedule_task(&mut turn, world.task("second"));
    turn.events.push(WorkflowEvent::TimerStarted {
        timer_id: "alarm".into(),
        duration_ms: 60_000,
    });
    turn.timers.push(NewTimer {
        timer_id: "alarm".into(),
        after: Duration::from_secs(60),
    });
    let city = Some(AttributeValue::Text("Oslo".into()));
    turn.events.push(WorkflowEvent::SearchAttributesUpserted {
        attributes: [("city".to_owned(), city.clone())].into(),
    });
    turn.attributes.insert("city".into(), city);
    world.committed(turn).await;
    world.claim_one().await;
    world.signal(run_id, "waits").await;
}

/// One activity, one timer that fired, then the end.
async fn completed_run(world: &World) {
    let run_id = world.start().await;
    let mut turn = honest_turn(world, run_id).await;
    schedule_task(&mut turn, world.parallel_task("only"));
    turn.events.push(WorkflowEvent::TimerStarted {
        timer_id: "short".into(),
        duration_ms: 1_000,
    });
    turn.timers.push(NewTimer {
        timer_id: "short".into(),
        after: Duration::from_secs(1),
    });
    world.committed(turn).await;
    let task = world.claim_one().await;
    world.succeed(&task.lease).await;
    world.advance(Duration::from_secs(1));
    world.fire_due().await;
    let turn = honest_turn(world, run_id).await;
    world.committed(World::completing(turn)).await;
}

/// Its activity has no attempt left and is parked.
async fn parked_run(world: &World) {
    let run_id = world.start().await;
    let mut turn = honest_turn(world, run_id).await;
    let mut task = world.parallel_task("doomed");
    task.options.on_exhausted = ExhaustedPolicy::Park;
    task.options.retry_policy = RetryPolicy::never();
    schedule_task(&mut turn, task);
    world.committed(turn).await;
    let task = world.claim_one().await;
    let failure = Failure::new("Boom", "it broke");
    world
        .report(&task.lease, TaskOutcome::Failed { failure })
        .await;
}

async fn fired_schedule(world: &World) {
    let now = world.instant();
    let schedule = ScheduleRecord {
        id: "nightly".into(),
        workflow_type: "order".into(),
        version: String::new(),
        input: Payload::null(),
        cron: "0 0 * * *".into(),
        time_zone: "UTC".into(),
        overlap: OverlapPolicy::Allow,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: Some(now),
        last_fire_at: None,
        last_run: None,
        created_at: now,
        updated_at: now,
    };
    let store = &world.store;
    store.put_schedule(schedule).await.expect("a schedule");
    let fire = ScheduleFire {
        schedule_id: "nightly".into(),
        nominal: now,
        next_fire_at: Some(now + Duration::from_secs(86_400)),
        start: Some(StartRun::new(world.id(), "order", json("1"))),
    };
    store
        .fire_schedules(vec![fire], world.now())
        .await
        .expect("a tick");
}
