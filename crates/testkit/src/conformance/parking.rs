//! Parking: tasks that a worker gives back for later, because a breaker is open or a limiter says no.

use std::time::Duration;

use durable_core::{ExhaustedPolicy, TimeoutType, WorkflowEvent};
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::limits::DELIVERIES_MAX;
use everruns_durable::persistence::model::{
    ClaimedTask, DeadLetterDecision, Fired, NewTask, Page, TaskFilter, TaskRecord, TaskRelease,
    TaskStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{LEASE, json};

claims! { "parking":
    a_parked_task_is_as_it_was_before_the_claim_but_for_later,
    a_parked_task_cannot_be_claimed_before_its_time,
    a_parked_task_can_be_claimed_when_its_time_has_come,
    a_task_parked_for_no_time_waits_for_the_next_look,
    parking_burns_neither_attempts_nor_deliveries,
    parking_keeps_what_earlier_attempts_left,
    the_pick_up_clock_stands_still_while_a_task_is_parked,
    the_time_for_all_attempts_runs_on_while_a_task_is_parked,
    the_end_of_a_parking_is_named_as_the_next_thing_due,
    a_parked_task_holds_the_line,
    a_parked_task_beside_the_line_holds_nobody,
    a_lost_lease_cannot_park,
    a_lease_can_park_once,
    releases_of_one_call_are_independent,
    a_time_past_every_limit_is_refused_and_nothing_is_released,
    a_parked_task_goes_when_its_activity_is_cancelled,
    a_parked_task_goes_with_its_run,
    a_parked_task_is_not_reaped,
    a_parked_task_that_dies_can_be_requeued,
}

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

/// A run whose one task is parked for ten seconds.
async fn parked(w: &World, task: NewTask) -> (Uuid, ClaimedTask) {
    let run_id = w.start_with_tasks(vec![task]).await;
    let claimed = w.claim_one().await;
    assert!(w.park(&claimed.lease, SECOND * 10).await);
    (run_id, claimed)
}

async fn a_parked_task_is_as_it_was_before_the_claim_but_for_later(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let mut expected = w.dump(run_id).await;
    let claimed = w.claim_one().await;
    w.advance(SECOND);
    assert!(w.park(&claimed.lease, SECOND * 10).await);
    expected.tasks[0].status = TaskStatus::Parked;
    expected.tasks[0].visible_at = after(w.instant(), SECOND * 10);
    expected.derived = expected.derive();
    assert_eq!(w.dump(run_id).await, expected);
    let filter = TaskFilter {
        status: Some(TaskStatus::Parked),
        ..TaskFilter::default()
    };
    let listed = w.store.list_tasks(filter, Page::default()).await;
    let expected: Vec<_> = expected.tasks.into_iter().map(TaskRecord::listed).collect();
    assert_eq!(listed.expect("list_tasks"), expected);
}

async fn a_parked_task_cannot_be_claimed_before_its_time(w: &World) {
    parked(w, w.task("a")).await;
    w.advance(SECOND * 10 - MICRO);
    assert_eq!(w.fire_due().await.tasks_ready, 0);
    assert_eq!(w.claim(10).await, []);
    w.advance(MICRO);
    assert_eq!(w.claim(10).await, [], "somebody has to look first");
}

async fn a_parked_task_can_be_claimed_when_its_time_has_come(w: &World) {
    let (run_id, first) = parked(w, w.task("a")).await;
    w.advance(SECOND * 11);
    let due = w.fire_due().await;
    assert_eq!((due.tasks_ready, due.tasks_timed_out), (1, 0));
    assert!(due.ready_runs.is_empty(), "it is no news for its run");
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(
        (task.status, task.visible_at),
        (TaskStatus::Pending, w.instant())
    );
    let again = w.claim_one().await;
    assert_eq!(again.lease.task_id, first.lease.task_id);
}

async fn a_task_parked_for_no_time_waits_for_the_next_look(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let claimed = w.claim_one().await;
    assert!(w.park(&claimed.lease, Duration::ZERO).await);
    assert_eq!(w.claim(1).await, []);
    assert_eq!(w.fire_due().await.tasks_ready, 1);
    w.claim_one().await;
}

async fn parking_burns_neither_attempts_nor_deliveries(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    for _ in 0..DELIVERIES_MAX * 2 {
        let task = w.claim_one().await;
        assert_eq!((task.lease.attempt, task.deliveries), (1, 1));
        assert!(w.park(&task.lease, SECOND).await);
        w.advance(SECOND);
        assert_eq!(w.fire_due().await.tasks_ready, 1);
    }
    assert_eq!(w.letters().await, []);
}

async fn parking_keeps_what_earlier_attempts_left(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let first = w.claim_one().await;
    w.extend(&first.lease, Some(json("{\"row\":7}"))).await;
    w.fail(&first.lease).await;
    w.advance(SECOND);
    w.fire_due().await;
    let second = w.claim_one().await;
    assert!(w.park(&second.lease, SECOND).await);
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!((task.attempt, task.deliveries), (1, 0));
    w.advance(SECOND);
    w.fire_due().await;
    let again = w.claim_one().await;
    assert_eq!(again.lease.attempt, 2);
    assert_eq!(again.attempts, second.attempts);
    assert_eq!(again.heartbeat_details, json("{\"row\":7}"));
}

async fn the_pick_up_clock_stands_still_while_a_task_is_parked(w: &World) {
    let mut task = w.task("a");
    task.options.schedule_to_start_timeout = SECOND * 5;
    let (run_id, _) = parked(w, task).await;
    w.advance(SECOND * 60);
    let due = w.fire_due().await;
    assert_eq!((due.tasks_ready, due.tasks_timed_out), (1, 0));
    let pick_up_by = after(w.instant(), SECOND * 5);
    assert_eq!(due.next_due, Some(pick_up_by), "it counts from now on");
    w.advance(SECOND * 5 - MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.advance(MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    let expected = WorkflowEvent::ActivityTimedOut {
        activity_id: "a".into(),
        timeout_type: TimeoutType::ScheduleToStart,
    };
    assert_eq!(w.waiting_events(run_id).await, [expected]);
}

async fn the_time_for_all_attempts_runs_on_while_a_task_is_parked(w: &World) {
    let mut task = w.task("a");
    task.options.schedule_to_close_timeout = Some(SECOND * 5);
    let closes_at = after(w.instant(), SECOND * 5);
    let (run_id, _) = parked(w, task).await;
    w.advance(SECOND);
    assert_eq!(w.fire_due().await.next_due, Some(closes_at));
    w.advance(SECOND * 4);
    let due = w.fire_due().await;
    assert_eq!((due.tasks_ready, due.tasks_timed_out), (0, 1));
    let expected = WorkflowEvent::ActivityTimedOut {
        activity_id: "a".into(),
        timeout_type: TimeoutType::ScheduleToClose,
    };
    assert_eq!(w.waiting_events(run_id).await, [expected]);
    assert_eq!(w.queued(run_id, "a").await, None);
}

async fn the_end_of_a_parking_is_named_as_the_next_thing_due(w: &World) {
    let visible_at = after(w.instant(), SECOND * 10);
    parked(w, w.task("a")).await;
    assert_eq!(w.fire_due().await.next_due, Some(visible_at));
    w.start_with_tasks(vec![w.task("b")]).await;
    w.claim_one().await;
    let due = w.fire_due().await;
    assert_eq!(due.next_due, Some(visible_at), "before what runs longer");
}

async fn a_parked_task_holds_the_line(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a"), w.task("b")]).await;
    let a = w.claim_one().await;
    assert!(w.park(&a.lease, SECOND * 10).await);
    assert_eq!(w.claim(10).await, []);
    w.queue(run_id, vec![w.task("c")]).await;
    let status = |name: &'static str| async move {
        let task = w.queued(run_id, name).await.expect("queued");
        task.status
    };
    assert_eq!(status("a").await, TaskStatus::Parked);
    assert_eq!(status("b").await, TaskStatus::InLine);
    assert_eq!(status("c").await, TaskStatus::InLine);
    w.advance(SECOND * 10);
    assert_eq!(w.fire_due().await.tasks_ready, 1);
    for expected in ["a", "b", "c"] {
        let mut claimed = w.claim(10).await;
        assert_eq!(claimed.len(), 1, "one at a time");
        let task = claimed.remove(0);
        assert_eq!(task.activity_id, expected);
        w.succeed(&task.lease).await;
    }
}

async fn a_parked_task_beside_the_line_holds_nobody(w: &World) {
    let tasks = vec![w.parallel_task("a"), w.parallel_task("b")];
    w.start_with_tasks(tasks).await;
    let first = w.claim_one().await;
    assert!(w.park(&first.lease, SECOND * 10).await);
    let second = w.claim_one().await;
    assert_ne!(second.lease.task_id, first.lease.task_id);
}

async fn a_lost_lease_cannot_park(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lost = w.claim_one().await;
    w.advance(LEASE);
    w.reap().await;
    let holder = w.claim_one().await;
    let before = w.dump(run_id).await;
    assert!(!w.park(&lost.lease, SECOND).await);
    let mut foreign = holder.lease.clone();
    foreign.token = w.id();
    assert!(!w.park(&foreign, SECOND).await);
    assert_eq!(w.dump(run_id).await, before);
    w.succeed(&holder.lease).await;
}

async fn a_lease_can_park_once(w: &World) {
    let (run_id, claimed) = parked(w, w.task("a")).await;
    let before = w.dump(run_id).await;
    w.advance(SECOND);
    w.lease_is_void(&claimed.lease).await;
    assert!(!w.park(&claimed.lease, SECOND * 60).await);
    assert_eq!(w.dump(run_id).await, before);
}

async fn releases_of_one_call_are_independent(w: &World) {
    let tasks = ["a", "b", "c"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(3).await;
    w.succeed(&claimed[1].lease).await;
    let lease = |place: usize| claimed[place].lease.clone();
    let releases = vec![
        TaskRelease::parked(lease(0), SECOND),
        TaskRelease::parked(lease(1), SECOND),
        TaskRelease::now(lease(2)),
        TaskRelease::now(lease(0)),
    ];
    let answers = w.store.release_tasks(releases, w.now()).await;
    assert_eq!(answers.expect("release_tasks"), [true, false, true, false]);
    for (place, status) in [(0, TaskStatus::Parked), (2, TaskStatus::Pending)] {
        let task = w.queued(run_id, &claimed[place].activity_id).await;
        assert_eq!(task.expect("queued").status, status);
    }
}

async fn a_time_past_every_limit_is_refused_and_nothing_is_released(w: &World) {
    let tasks = ["a", "b"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(2).await;
    let before = w.dump(run_id).await;
    let releases = vec![
        TaskRelease::now(claimed[0].lease.clone()),
        TaskRelease::parked(claimed[1].lease.clone(), Duration::MAX),
    ];
    let answer = w.store.release_tasks(releases, w.now()).await;
    assert!(matches!(answer, Err(StoreError::Limit { .. })));
    assert_eq!(w.dump(run_id).await, before);
}

async fn a_parked_task_goes_when_its_activity_is_cancelled(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a"), w.task("b")]).await;
    let a = w.claim_one().await;
    assert!(w.park(&a.lease, SECOND * 10).await);
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["a".into()];
    w.committed(turn).await;
    assert_eq!(w.queued(run_id, "a").await, None);
    assert_eq!(w.claim_one().await.activity_id, "b", "the line moves up");
}

async fn a_parked_task_goes_with_its_run(w: &World) {
    let (terminated, _) = parked(w, w.task("a")).await;
    w.terminate(terminated, "enough").await;
    let (completed, _) = parked(w, w.task("a")).await;
    w.complete(completed).await;
    w.advance(SECOND * 10);
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.dump(terminated).await.tasks, []);
    assert_eq!(w.dump(completed).await.tasks, []);
}

async fn a_parked_task_is_not_reaped(w: &World) {
    parked(w, w.task("a")).await;
    w.advance(LEASE * 2);
    assert_eq!(w.reap().await, []);
    assert_eq!(w.fire_due().await.tasks_ready, 1);
}

async fn a_parked_task_that_dies_can_be_requeued(w: &World) {
    let mut task = w.task("a");
    task.options.schedule_to_close_timeout = Some(SECOND * 5);
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let (run_id, claimed) = parked(w, task).await;
    w.advance(SECOND * 5);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    let dead = w.queued(run_id, "a").await.expect("it keeps its place");
    assert_eq!(dead.status, TaskStatus::Dead);
    let requeue = DeadLetterDecision::Requeue;
    w.store
        .decide_dead_letter(run_id, claimed.lease.task_id, requeue, w.now())
        .await
        .expect("decide_dead_letter");
    assert_eq!(w.claim_one().await.lease.attempt, 1);
}
