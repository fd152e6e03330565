//! What waits, at a glance.

use std::collections::BTreeSet;
use std::time::Duration;

use everruns_durable::persistence::model::{
    Glance, HostedType, OverlapPolicy, ScheduleRecord, WaitingTypes,
};

use crate::World;
use crate::world::{ACTIVITY, LEASE, WORKFLOW};

claims! { "glances":
    an_empty_store_has_nothing_to_do,
    a_new_run_has_a_turn_due,
    a_claimable_task_is_seen_and_a_leased_one_is_due_when_its_lease_ends,
    a_timer_is_due_when_it_fires,
    a_message_is_seen_until_it_is_delivered,
    a_schedule_is_seen_unless_it_is_paused,
    a_glance_tells_the_stores_clock,
    waiting_types_are_those_of_what_may_be_claimed,
}

async fn glance(world: &World) -> Glance {
    world
        .store
        .glance(world.now())
        .await
        .expect("the store answers")
}

async fn an_empty_store_has_nothing_to_do(world: &World) {
    assert_eq!(glance(world).await, Glance::nothing(world.instant()));
}

async fn a_new_run_has_a_turn_due(world: &World) {
    let run_id = world.start().await;
    assert!(glance(world).await.turns);
    world.complete(run_id).await;
    assert_eq!(glance(world).await, Glance::nothing(world.instant()));
}

async fn a_claimable_task_is_seen_and_a_leased_one_is_due_when_its_lease_ends(world: &World) {
    world.start_with_tasks(vec![world.task("a")]).await;
    assert!(glance(world).await.tasks);
    world.claim_one().await;
    let leased = glance(world).await;
    assert!(!leased.tasks);
    assert_eq!(leased.next_due, Some(world.instant() + LEASE));
}

async fn a_timer_is_due_when_it_fires(world: &World) {
    let run_id = world.start().await;
    let second = Duration::from_secs(1);
    world.set_timer(run_id, "t", second).await;
    assert_eq!(glance(world).await.next_due, Some(world.instant() + second));
}

async fn a_message_is_seen_until_it_is_delivered(world: &World) {
    let parent = world.start().await;
    let child = world.new_child(
        "c",
        everruns_durable::persistence::model::ClosePolicy::Cancel,
    );
    world.ask_for_child(parent, child).await;
    assert!(glance(world).await.messages);
    world.relay().await;
    assert!(!glance(world).await.messages);
}

async fn a_schedule_is_seen_unless_it_is_paused(world: &World) {
    let tick = world.instant() + Duration::from_secs(60);
    let mut schedule = ScheduleRecord {
        id: "s".to_owned(),
        workflow_type: WORKFLOW.to_owned(),
        version: String::new(),
        input: durable_core::Payload::ABSENT,
        cron: "* * * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        overlap: OverlapPolicy::Allow,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: Some(tick),
        last_fire_at: None,
        last_run: None,
        created_at: world.instant(),
        updated_at: world.instant(),
    };
    world
        .store
        .put_schedule(schedule.clone())
        .await
        .expect("stored");
    assert_eq!(glance(world).await.next_tick, Some(tick));
    schedule.paused = true;
    world.store.put_schedule(schedule).await.expect("stored");
    assert_eq!(glance(world).await.next_tick, None);
}

async fn a_glance_tells_the_stores_clock(world: &World) {
    assert_eq!(glance(world).await.at, world.instant());
    let before = durable_core::Timestamp::now();
    let own = world
        .store
        .glance(None)
        .await
        .expect("the store answers")
        .at;
    let apart = own.duration_since(before).abs();
    assert!(apart.as_secs() < 3600, "{own} against {before}");
}

async fn waiting_types_are_those_of_what_may_be_claimed(world: &World) {
    let waiting = || async {
        world
            .store
            .waiting_types()
            .await
            .expect("the store answers")
    };
    assert_eq!(waiting().await, WaitingTypes::default());
    let run_id = world.start().await;
    let of_run = HostedType {
        workflow_type: WORKFLOW.to_owned(),
        version: String::new(),
    };
    assert_eq!(waiting().await.runs, BTreeSet::from([of_run]));
    world.complete(run_id).await;
    world
        .start_with_tasks(vec![world.task("a"), world.task("b")])
        .await;
    let seen = waiting().await;
    assert_eq!(seen.runs, BTreeSet::new());
    assert_eq!(seen.tasks, BTreeSet::from([ACTIVITY.to_owned()]));
    world.claim(2).await;
    assert_eq!(waiting().await, WaitingTypes::default());
}
